"""A thread of a simulated process: work is done one after the other, each after a virtual while."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

from pubweave.sim.eventloop.process import SimProcess
from pubweave.sim.kernel.world import World

WORK_S = (1e-4, 5e-3)


class VirtualThread(concurrent.futures.Executor):
    """Does what is submitted, unless its process is killed before; a stopped process stops it."""

    def __init__(
        self, world: World, process: SimProcess, work_s: tuple[float, float] = WORK_S
    ) -> None:
        self._world = world
        self._process = process
        self._work_s = work_s
        self._free_at = 0.0
        self._is_shut_down = False

    def submit(
        self, work: Callable[..., Any], /, *args: Any, **named: Any
    ) -> concurrent.futures.Future[Any]:
        if self._is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._free_at = max(self._free_at, self._world.now) + self._world.uniform(*self._work_s)
        self._world.at(self._free_at, self._work, done, lambda: work(*args, **named))
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take nothing more. Who waits would have to wait for virtual time, so nobody does."""
        self._is_shut_down = True

    def _work(self, done: concurrent.futures.Future[Any], work: Callable[[], Any]) -> None:
        if self._process.is_dead:
            return
        runs_at = self._process.runs_at
        if runs_at > self._world.now:
            self._free_at = max(self._free_at, runs_at)
            self._world.at(runs_at, self._work, done, work)
            return
        self._process.context.copy().run(self._settle, done, work)

    def _settle(self, done: concurrent.futures.Future[Any], work: Callable[[], Any]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(result)
