"""Kinds of values that options take, and several options as one decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(dir_okay=False, path_type=Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)
POSITIVE = click.FloatRange(min=0, min_open=True)
NOT_NEGATIVE = click.FloatRange(min=0)
SHARE = click.FloatRange(0, 1)
COUNT = click.IntRange(min=1)
COUNT_OR_ZERO = click.IntRange(min=0)
PORT = click.IntRange(0, 65535)


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator; ``--help`` shows them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def packed(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options whose values reach the command as one: ``name`` is what ``make`` makes of them."""
    probe = together(*options)(lambda: None)
    names = [parameter.name for parameter in probe.__click_params__]  # type: ignore[attr-defined]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*args: Any, **given: Any) -> Any:
            values = {each: given.pop(each) for each in names}
            return command(*args, **{name: make(**values)}, **given)

        return together(*options)(run)

    return decorate
