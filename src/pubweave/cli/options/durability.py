"""The options by which brokers keep a journal, for the commands that start brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.options.kinds import DIRECTORY

F = TypeVar("F", bound=Callable[..., Any])
DURABILITIES = ("memory", "journal")


def durability_options(default_directory: str) -> Callable[[F], F]:
    """``--durability`` and ``--journal-dir``; says where journals are if nobody else does."""

    def add(command: F) -> F:
        command = click.option(
            "--journal-dir",
            type=DIRECTORY,
            help=f"Where journals are; brokers go on with what is there. {default_directory}",
        )(command)
        return click.option(
            "--durability",
            type=click.Choice(DURABILITIES),
            default="memory",
            help="With 'journal' a killed broker comes back with all that it had acknowledged.",
        )(command)

    return add


def chosen_journal(durability: str, given: Path | None, default: Path | None) -> Path | None:
    """The directory for journals; None: everything stays in memory. BadInput in words."""
    if durability == "memory":
        if given is not None:
            raise BadInput("--journal-dir is of no use without --durability journal")
        return None
    if given is None and default is None:
        raise BadInput("--durability journal needs --journal-dir: where to keep the journal")
    return given or default
