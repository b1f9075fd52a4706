"""Which overlay or broker a verb talks to: a run directory, a broker in it, or an address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pubweave.cli.errors import BadInput

if TYPE_CHECKING:
    from pubweave.runtime.addresses import Address

Command = TypeVar("Command", bound=Callable[..., Any])

# Said again here because the module that defines them would have to be imported for --help.
RUN_DIRECTORY_VARIABLE = "PUBWEAVE_RUN"
DEFAULT_RUN_DIRECTORY = "runs/current"

run_dir_option = click.option(
    "--run-dir",
    envvar=RUN_DIRECTORY_VARIABLE,
    default=DEFAULT_RUN_DIRECTORY,
    show_default=True,
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the overlay keeps its state, logs and telemetry.",
)


class AddressType(click.ParamType):
    """``host:port``, ``[v6]:port`` or ``port``."""

    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        from pubweave.runtime.addresses import Address

        if isinstance(value, Address):
            return value
        try:
            return Address.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


ADDRESS = AddressType()


def broker_options(command: Command) -> Command:
    """``--broker``, ``--address`` and ``--run-dir``: the broker a client attaches to."""
    options = (
        click.option("--broker", help="A broker of the overlay in --run-dir. [default: the first]"),
        click.option("--address", type=ADDRESS, help="The address of a broker, instead."),
        run_dir_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def broker_address(broker: str | None, address: Address | None, run_dir: Path) -> Address:
    """The address that these options mean; OverlayError or BadInput if they mean none."""
    from pubweave.runtime.addresses import Address
    from pubweave.runtime.overlay_run_directory import read_live_state

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
