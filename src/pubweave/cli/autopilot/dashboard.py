"""``pubweave dashboard``: a live page over a running overlay, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import DIRECTORY, FILE, PORT
from pubweave.cli.options.coordination import DeploymentChoice, deployment_options
from pubweave.cli.options.security import SecurityChoice, client_security_options
from pubweave.cli.output import json_option, print_json, remark
from pubweave.control.records import approve, reject
from pubweave.deploy.commands import abort, read_progress, request_pause
from pubweave.deploy.documents import DeploymentDocument
from pubweave.model.records.status import STATUS_SUBJECT
from pubweave.runtime.client.client import ClientError, NoConnectionError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.observe.dashboard_source import (
    Finder,
    FoundOverlay,
    InRunDirectory,
    InStore,
    OverlaySource,
)
from pubweave.runtime.security.credentials import Credentials
from pubweave.runtime.store.session import run_command
from pubweave.runtime.store.view import StoreReader

T = TypeVar("T")
DEFAULT_PORT = 8642
BY = "the dashboard"


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

    token = None if token_file is None else read_token(token_file)
    finder = _finder(deployment, telemetry)
    page = serving_page(finder, port, token, interval, as_json, security)
    ctx.exit(run_async(_serve(page)))


def _finder(deployment: DeploymentChoice, telemetry: Path | None) -> Finder:
    if (named := deployment.named()) is not None:
        return InStore(named, telemetry)
    if deployment.overlay is not None or telemetry is not None:
        raise BadInput("--overlay and --telemetry are for an overlay named with --zookeeper")
    return InRunDirectory(deployment.run_dir, deployment.auth)


async def _serve(page: contextlib.AbstractAsyncContextManager[None]) -> int:
    """Serve the page until a signal asks to stop; the exit code."""
    async with StopRequest() as stop, page:
        await stop.wait()
        return stop.exit_code


@contextlib.asynccontextmanager
async def serving_page(
    finder: Finder,
    port: int,
    token: str | None,
    interval_s: float,
    as_json: bool,
    security: SecurityChoice,
) -> AsyncIterator[None]:
    """The page, as long as this lasts. BadInput if whoever wants it may not operate."""
    from pubweave.dashboard.app import make_app, serving
    from pubweave.dashboard.auth import ChangeGuard
    from pubweave.dashboard.state import PageState, Poller
    from pubweave.dashboard.viewing import Viewing
    from pubweave.plots.tree_layout import settled_layout

    board, viewing = PageState(settled_layout), Viewing(token)

    def credentials(found: FoundOverlay) -> Credentials | None:
        chosen = credentials_for(security, found)
        if chosen is not None or found.has_store_login:
            viewing.lock()
        return chosen

    await check_operates(finder, credentials)
    async with OverlaySource(finder, credentials) as source:
        app = make_app(board, OverlayCommands(source), ChangeGuard(token), viewing)
        async with serving(app, port) as address:

            def tell() -> None:
                shown = f"{address}?token={viewing.token}" if viewing.is_locked else address
                _tell_started(shown, is_read_only=token is None, as_json=as_json)

            tell()
            viewing.on_lock = tell
            looking = asyncio.create_task(Poller(source, board, interval_s).run())
            try:
                yield
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                board.close()


def _tell_started(address: str, *, is_read_only: bool, as_json: bool) -> None:
    if as_json:
        print_json({"event": "started", "address": address, "is_read_only": is_read_only})
        return
    access = "read-only: --token-file allows changes" if is_read_only else "changes need the token"
    remark(f"the dashboard is at {address} ({access}); Ctrl-C ends it")


class OverlayCommands:
    """What a person with the token asks for, carried out in the store."""

    def __init__(self, source: OverlaySource) -> None:
        self._source = source

    async def approve(self, decision: str) -> str:
        reader = self._reader()
        await self._do(reader, approve(reader.layout, decision, BY, time.time()))
        return f"Decision {decision} is approved; the autopilot carries its plan out."

    async def reject(self, decision: str) -> str:
        reader = self._reader()
        await self._do(reader, reject(reader.layout, decision, BY, time.time()))
        return f"Decision {decision} is rejected."

    async def pause(self, deployment: str) -> str:
        reader = await self._for_current(deployment)
        await self._do(reader, request_pause(reader.layout))
        return "The plan pauses after this step; 'pubweave plan resume' goes on with it."

    async def abort(self, deployment: str) -> str:
        reader = await self._for_current(deployment)
        ended: DeploymentDocument = await self._do(reader, abort(reader.layout, f"stopped in {BY}"))
        return f"The plan is {ended.state.value}; what was decided of its step is still finished."

    def _reader(self) -> StoreReader:
        from pubweave.dashboard.snapshot import CommandError

        if self._source.reader is None:
            raise CommandError("the overlay is not running with ZooKeeper now")
        return self._source.reader

    async def _for_current(self, deployment: str) -> StoreReader:
        """The store, if that deployment is still the current one: a page may be out of date."""
        from pubweave.dashboard.snapshot import CommandError

        reader = self._reader()
        current = (await self._do(reader, read_progress(reader.layout))).deployment
        if current.deployment != deployment:
            raise CommandError(f"{deployment} is over; the current plan is {current.deployment}")
        return reader

    async def _do(self, reader: StoreReader, command: Generator[Any, Any, T]) -> T:
        from pubweave.dashboard.snapshot import CommandError

        try:
            return await run_command(reader.store, command)
        except ValueError as error:
            raise CommandError(str(error)) from error


ASKED_AT_MOST = 3
"""Brokers that are asked whether a user may operate; the first that answers decides."""
ANSWER_LIMIT_S = 2.0


def credentials_for(choice: SecurityChoice, found: FoundOverlay) -> Credentials | None:
    """Whom to be at an overlay; None: it asks nobody. OverlayError if the options do not fit."""
    if found.security is None and found.addresses is not None:
        return None  # its run directory says that it is open
    directory = choice.directory or (None if found.security is None else Path(found.security))
    try:
        return replace(choice, directory=directory).credentials()
    except BadInput as error:
        raise OverlayError(str(error)) from error


async def check_operates(
    finder: Finder, credentials: Callable[[FoundOverlay], Credentials | None]
) -> None:
    """BadInput if the brokers of a secured overlay say that this user may not operate. Where none
    answers, or there is no overlay yet, nothing is known that could be shown either."""
    try:
        found = finder.find()
    except OverlayError:
        return
    chosen = credentials(found)
    if chosen is None or found.addresses is None:
        return
    for address in list(found.addresses.values())[:ASKED_AT_MOST]:
        refusal = await _refusal(str(address), chosen)
        if refusal is not None:
            if refusal:
                raise BadInput(f"the dashboard is for operators: {refusal}")
            return


async def _refusal(address: str, credentials: Credentials) -> str | None:
    """Why a broker does not let a user operate; empty if it does, None if it is down."""
    try:
        async with connect(address, timeout_s=ANSWER_LIMIT_S, credentials=credentials) as client:
            answer = msgspec.json.decode(await client.query(STATUS_SUBJECT))
    except NoConnectionError:
        return None
    except ClientError as error:
        return str(error)
    return str(answer.get("error", ""))
