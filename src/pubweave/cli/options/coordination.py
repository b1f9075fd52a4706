"""Options that say which ZooKeeper and which overlay a verb is about."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import FILE, packed, together
from pubweave.cli.options.security import SECURITY_VARIABLE
from pubweave.cli.options.target import run_dir_option
from pubweave.cli.output import warn
from pubweave.deploy.commands import Script
from pubweave.deploy.documents import Layout
from pubweave.runtime.net.signals import run_async
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.overlay.run_directory import read_live_state, read_store_login
from pubweave.runtime.security.credentials import read_secret
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.settings.tree import Settings
from pubweave.runtime.store.embedded_zookeeper import ZooKeeperUnavailable, find_jars, find_java
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_target import Coordination, ZooKeeperTarget, parse_target

T = TypeVar("T")

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
    type=FILE,
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


zookeeper_options = together(_zookeeper_option, _auth_option)
"""``--zookeeper`` and ``--zookeeper-auth-file``; the command gets the login itself."""


def coordination_of(settings: Settings) -> Coordination | None:
    """The ensemble that settings name and the overlay there; None if they name none."""
    target = target_of(settings)
    if target is None:
        return None
    if settings.overlay.name is None:
        raise BadInput("--zookeeper needs --overlay: the name of the overlay there")
    return Coordination(settings.overlay.name, target)


def target_of(settings: Settings) -> ZooKeeperTarget | None:
    """The ensemble that settings name, with the login at it; None if they name none."""
    store, security = settings.store, settings.broker.security.directory
    if store.zookeeper is None:
        return None
    login = _login(store.auth_file)
    if login is None and security is not None:
        login = SecurityDirectory(security).store_login()
    return parse_target(store.zookeeper, login)


def choose_store(target: ZooKeeperTarget | None, *, is_wanted: bool) -> StoreChoice | None:
    """The store an overlay gets: the one named, or one of its own, or none where none can be."""
    if not is_wanted:
        return None
    if target is None:
        try:
            find_java()
            find_jars()
        except ZooKeeperUnavailable as error:
            warn(f"no plan can be applied to this overlay: {error}")
            return None
    return StoreChoice(target)


@dataclass(frozen=True)
class DeploymentChoice:
    """What the options say of the overlay whose plans are meant."""

    run_dir: Path
    zookeeper: str | None = None
    auth: str | None = None
    overlay: str | None = None

    def named(self) -> Coordination | None:
        """The ensemble and the overlay in it, if the options name one; BadInput for a half."""
        if self.zookeeper is None:
            return None
        if self.overlay is None:
            raise BadInput("--zookeeper needs --overlay: the name of the overlay there")
        security = os.environ.get(SECURITY_VARIABLE)
        return Coordination(self.overlay, parse_target(self.zookeeper, self.auth), security)

    def find(self) -> Coordination:
        """Where the plans of an overlay are kept; BadInput if the options do not tell."""
        if (named := self.named()) is not None:
            return named
        run_dir, state = self.run_dir, read_live_state(self.run_dir)
        if self.overlay is not None and self.overlay != state.overlay:
            raise BadInput(f"the overlay in {run_dir} is {state.overlay!r}, not {self.overlay!r}")
        if state.zookeeper is None:
            raise BadInput(
                f"the overlay {state.overlay!r} in {run_dir} runs without ZooKeeper, so no plan "
                "can be applied to it: start it again without --no-zookeeper (Java is needed)"
            )
        login = self.auth or read_store_login(run_dir, state)
        return Coordination(state.overlay, parse_target(state.zookeeper, login), state.security)


deployment_options = packed(
    "deployment",
    lambda zookeeper_auth, **given: DeploymentChoice(auth=zookeeper_auth, **given),
    run_dir_option,
    zookeeper_options,
    click.option("--overlay", help="The overlay's name, with --zookeeper."),
)
"""``--run-dir``, or ``--zookeeper`` with ``--overlay``: whose plans are meant."""


def ask_store(where: Coordination, command: Callable[[Layout], Script[T]]) -> T:
    """What a command on the documents of an overlay comes to, from a synchronous verb."""

    async def ask() -> T:
        async with opened_store(where.target) as store:
            return await run_command(store, command(Layout(where.overlay)))

    return run_async(ask())
