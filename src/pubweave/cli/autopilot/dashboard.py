"""``pubweave dashboard``: a live page over a running overlay, on this machine."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import DIRECTORY, FILE, PORT
from pubweave.cli.options.coordination import DeploymentChoice, deployment_options
from pubweave.cli.options.security import SecurityChoice, client_security_options
from pubweave.cli.output import json_option, print_json, remark
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.observe.dashboard_source import Finder, FoundOverlay, InRunDirectory, InStore
from pubweave.runtime.security.credentials import Credentials

DEFAULT_PORT = 8642


@click.command()
@deployment_options
@client_security_options
@click.option(
    "--port",
    default=DEFAULT_PORT,
    type=PORT,
    help="Where the page is, on 127.0.0.1; 0 takes any free port.",
)
@click.option(
    "--token-file",
    type=FILE,
    help="Allow plans to be approved, rejected and stopped by who has the token in this file.",
)
@click.option(
    "--telemetry",
    type=DIRECTORY,
    help="Where brokers record, with --zookeeper. [default: RUN_DIR/telemetry]",
)
@click.option(
    "--interval",
    default=1.0,
    type=click.FloatRange(min=0.1),
    help="Seconds between looks at the overlay.",
)
@json_option
@click.pass_context
def dashboard(
    ctx: click.Context,
    deployment: DeploymentChoice,
    security: SecurityChoice,
    port: int,
    token_file: Path | None,
    telemetry: Path | None,
    interval: float,
    as_json: bool,
) -> None:
    """Show a running overlay as a live page in a browser on this machine.

    The page draws the overlay with its traffic, the plan in motion, time lines of rate, latency,
    queues and cost, and the decisions of the autopilot. It is read-only unless a token is given.
    The same figures are there as JSON (/api/status, ...) and for Prometheus (/metrics). The
    overlay need not run yet: the page waits for it. From another machine, tunnel to it:
    ssh -L 8642:localhost:8642 HOST.

    The dashboard of a secured overlay is for users who may operate, and shows nothing without the
    token in the address that it prints. Programs send it: 'Authorization: Bearer TOKEN'.

    \b
    Example:
      pubweave dashboard
      (umask 077; openssl rand -hex 24 > token); pubweave dashboard --token-file token
    """
    from pubweave.dashboard.auth import read_token
    from pubweave.runtime.observe.dashboard_server import serving_dashboard

    token = None if token_file is None else read_token(token_file)
    page = serving_dashboard(
        _finder(deployment, telemetry),
        port=port,
        token=token,
        interval_s=interval,
        credentials=partial(credentials_for, security),
        on_address=lambda at: tell_started(at, is_read_only=token is None, as_json=as_json),
    )
    ctx.exit(run_async(_serve(page)))


def _finder(deployment: DeploymentChoice, telemetry: Path | None) -> Finder:
    if (named := deployment.named()) is not None:
        return InStore(named, telemetry)
    if deployment.overlay is not None or telemetry is not None:
        raise BadInput("--overlay and --telemetry are for an overlay named with --zookeeper")
    return InRunDirectory(deployment.run_dir, deployment.auth)


async def _serve(page: AbstractAsyncContextManager[str]) -> int:
    """Serve the page until a signal asks to stop; the exit code."""
    async with StopRequest() as stop, page:
        await stop.wait()
        return stop.exit_code


def tell_started(address: str, *, is_read_only: bool, as_json: bool) -> None:
    if as_json:
        print_json({"event": "started", "address": address, "is_read_only": is_read_only})
        return
    access = "read-only: --token-file allows changes" if is_read_only else "changes need the token"
    remark(f"the dashboard is at {address} ({access}); Ctrl-C ends it")


def credentials_for(choice: SecurityChoice, found: FoundOverlay) -> Credentials | None:
    """Whom to be at an overlay; None: it asks nobody. OverlayError if the options do not fit."""
    if found.security is None and found.addresses is not None:
        return None  # its run directory says that it is open
    directory = choice.directory or (None if found.security is None else Path(found.security))
    try:
        return replace(choice, directory=directory).credentials()
    except BadInput as error:
        raise OverlayError(str(error)) from error
