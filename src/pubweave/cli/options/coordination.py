"""Options that say which ZooKeeper and which overlay a verb is about."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.options.security import SECURITY_VARIABLE
from pubweave.cli.options.target import run_dir_option
from pubweave.runtime.overlay.run_directory import read_live_state, read_store_login
from pubweave.runtime.security.credentials import read_secret
from pubweave.runtime.store.zookeeper_target import Coordination, ZooKeeperTarget, parse_target

Command = TypeVar("Command", bound=Callable[..., Any])

ZOOKEEPER_VARIABLE = "PUBWEAVE_ZOOKEEPER"
AUTH_VARIABLE = "PUBWEAVE_ZOOKEEPER_AUTH"

_zookeeper_option = click.option(
    "--zookeeper",
    envvar=ZOOKEEPER_VARIABLE,
    show_envvar=True,
    metavar="HOST:PORT,...",
    help="An existing ZooKeeper ensemble; /path at the end keeps everything below it.",
)
_auth_option = click.option(
    "--zookeeper-auth-file",
    "zookeeper_auth",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=lambda ctx, parameter, value: _login(value),
    help="A file with the login there, USER:PASSWORD (digest). "
    f"[default: what {AUTH_VARIABLE} says, or that of the overlay in --run-dir]",
)


def _login(path: Path | None) -> str | None:
    """The login in a file or in the environment: never on the command line, which is public."""
    if path is None:
        return os.environ.get(AUTH_VARIABLE)
    login = read_secret(path)
    if ":" not in login or login.startswith(":"):
        raise BadInput(f"{path}: its first line must be user:password")
    return login


def zookeeper_options(command: Command) -> Command:
    """``--zookeeper`` and ``--zookeeper-auth-file``; the command gets the login itself."""
    return _zookeeper_option(_auth_option(command))


def deployment_options(command: Command) -> Command:
    """``--run-dir``, or ``--zookeeper`` with ``--overlay``: whose plans are meant."""
    named = click.option("--overlay", help="The overlay's name, with --zookeeper.")
    return run_dir_option(zookeeper_options(named(command)))


def given_target(zookeeper: str | None, auth: str | None) -> ZooKeeperTarget | None:
    """The ensemble that the options name; None if they name none."""
    if zookeeper is None:
        if auth is not None:
            raise click.UsageError(
                "--zookeeper-auth-file is for an ensemble named with --zookeeper"
            )
        return None
    return parse_target(zookeeper, auth)


def find_coordination(
    run_dir: Path, zookeeper: str | None, auth: str | None, overlay: str | None
) -> Coordination:
    """Where the plans of an overlay are kept; BadInput if the options do not tell."""
    if zookeeper is not None:
        if overlay is None:
            raise BadInput("--zookeeper needs --overlay: the name of the overlay there")
        security = os.environ.get(SECURITY_VARIABLE)
        return Coordination(overlay, parse_target(zookeeper, auth), security)
    state = read_live_state(run_dir)
    if overlay is not None and overlay != state.overlay:
        raise BadInput(f"the overlay in {run_dir} is {state.overlay!r}, not {overlay!r}")
    if state.zookeeper is None:
        raise BadInput(
            f"the overlay {state.overlay!r} in {run_dir} runs without ZooKeeper, so no plan can "
            "be applied to it: start it again without --no-zookeeper (Java is needed)"
        )
    login = auth or read_store_login(run_dir, state)
    return Coordination(state.overlay, parse_target(state.zookeeper, login), state.security)
