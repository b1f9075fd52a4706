"""Running a verb's coroutine, and ending it when somebody asks for it.

The first Ctrl-C (or SIGTERM, or a closed terminal) asks the verb to stop and clean up; a second
one interrupts that, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop."""
    import uvloop

    return uvloop.run(main)


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Let each of the signals interrupt a verb without a coroutine, as Ctrl-C does.

    A shell starts a verb in the background with SIGINT ignored, and SIGTERM would end it on the
    spot: in neither case could it say what it had found by then.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StopRequest:
    """Set by the signal that asks this process to stop: ``async with StopRequest() as stop``.

    Outside of ``async with`` no signal sets it, only `ask`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, else 0: whoever sends SIGTERM wants a clean stop and got it."""
        return 128 + signal.SIGINT if self._signal is signal.SIGINT else 0

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def ask(self) -> None:
        """Stop, as if a signal had come."""
        self._event.set()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the request, at most this long; whether it came."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True

    async def unless(self, work: Coroutine[Any, Any, object]) -> bool:
        """Do some work unless a stop is requested meanwhile; whether it was done to its end."""
        task = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            return False
        task.result()
        return True

    def _on_signal(self, received: signal.Signals) -> None:
        self._signal = received
        self._event.set()
        self._restore()

    def _restore(self) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def __aenter__(self) -> StopRequest:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._restore()
