"""Which overlay or broker a verb talks to: a run directory, a broker in it, or an address."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import DIRECTORY, Command, together
from pubweave.runtime.client.client import Client, ClientError, NoConnectionError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.overlay.run_directory import (
    DEFAULT_RUN_DIRECTORY,
    RUN_DIRECTORY_VARIABLE,
    read_live_state,
)
from pubweave.runtime.security.credentials import Credentials

CONNECT_LIMIT_S = 3.0
"""Whoever waits at a prompt is told soon that nobody answers."""

run_dir_option = click.option(
    "--run-dir",
    envvar=RUN_DIRECTORY_VARIABLE,
    default=DEFAULT_RUN_DIRECTORY,
    show_envvar=True,
    type=DIRECTORY,
    help="Where the overlay keeps its state, logs and telemetry.",
)


def parse_address(text: str) -> Address:
    """The type of options that take an address; click names the option in the message."""
    try:
        return Address.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def address_option(name: str, help: str) -> Callable[[Command], Command]:
    """An option that takes ``host:port``, ``[v6]:port`` or ``port``."""
    return click.option(name, type=parse_address, metavar="HOST:PORT", help=help)


broker_options = together(
    click.option("--broker", help="A broker of the overlay in --run-dir. [default: the first]"),
    address_option("--address", help="The address of a broker, instead."),
    run_dir_option,
)
"""``--broker``, ``--address`` and ``--run-dir``: the broker a client attaches to."""


def broker_address(broker: str | None, address: Address | None, run_dir: Path) -> Address:
    """The address that these options mean; OverlayError or BadInput if they mean none."""
    if address is not None:
        if broker is not None:
            raise click.UsageError("give either --broker or --address, not both")
        return address
    state = read_live_state(run_dir)
    chosen = next(iter(state.brokers)) if broker is None else broker
    if chosen not in state.brokers:
        raise BadInput(
            f"no broker {chosen!r} in {run_dir}: it has {', '.join(list(state.brokers)[:10])}"
            + (" ..." if len(state.brokers) > 10 else "")
        )
    return Address.parse(state.brokers[chosen].address)


@contextlib.asynccontextmanager
async def attached(
    address: Address, credentials: Credentials | None = None
) -> AsyncIterator[Client]:
    """A client of the broker at an address; BadInput if there is none or it refuses."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            opening = connect(address, timeout_s=CONNECT_LIMIT_S, credentials=credentials)
            client = await stack.enter_async_context(opening)
        except NoConnectionError as error:
            raise BadInput(f"{error}; is a broker running there?") from error
        except ClientError as error:
            raise BadInput(str(error)) from error
        yield client
