"""How a verb that searches (a plan, a tree) is ended with the best found so far."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import click

from pubweave.cli.kinds import POSITIVE


def time_limit_option(default_s: float, what: str) -> Callable[[Any], Any]:
    """``--time-limit`` of a verb that ends with the best it has."""
    return click.option(
        "--time-limit",
        default=default_s,
        type=POSITIVE,
        metavar="SECONDS",
        help=f"End with the best {what} found by then.",
    )


class SearchStop:
    """A search's stop: true from the first Ctrl-C or the time limit on."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.interrupted = False
        self.was_asked = False
        self._until = None if limit_s is None else time.monotonic() + limit_s

    def __call__(self) -> bool:
        late = self._until is not None and time.monotonic() >= self._until
        if late or self.interrupted:
            self.was_asked = True
        return late or self.interrupted


@contextlib.contextmanager
def stopping(limit_s: float | None) -> Iterator[SearchStop]:
    """A stop that the first Ctrl-C sets; the second interrupts as ever."""
    stop = SearchStop(limit_s)

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        stop.interrupted = True
        signal.signal(signal.SIGINT, before)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
