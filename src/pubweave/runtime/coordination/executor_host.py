"""An executor at work: its core between the store and whoever wants to hear of its progress.

The executor decides (`deploy.executor`) and remembers nothing that is not in the store: this
process may be killed at any moment, and another one goes on.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable

from pubweave.deploy.executor import Executor, ExecutorConfig, ExecutorReport
from pubweave.deploy.store import StoreEvent, TimerFired
from pubweave.runtime.net.clock import DeadlineTimer, UnixClock
from pubweave.runtime.store.session import CONNECT_LIMIT_S, StoreUnreachable
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget

log = logging.getLogger(__name__)


def executor_name() -> str:
    """A name that no other executor has: where it runs, for people, and a random part."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


class ExecutorHost:
    """Runs an executor: ``async with ExecutorHost(target, config) as executor``.

    `store` may be used for commands meanwhile."""

    def __init__(self, target: ZooKeeperTarget, config: ExecutorConfig) -> None:
        self.store = ZooKeeperStore(target, self._hand_in)
        self.report: ExecutorReport | None = None
        """The last one."""
        self.failure: Exception | None = None
        self._executor = Executor(config)
        self._clock = UnixClock()
        self._timer = DeadlineTimer(self._clock, lambda: self._hand_in(TimerFired()))
        self._events: deque[StoreEvent] = deque()
        self._is_draining = False
        self._told = asyncio.Event()

    async def wait_until(
        self, is_reached: Callable[[ExecutorReport], bool], limit_s: float | None = None
    ) -> ExecutorReport | None:
        """The first report from now on, the last one included, that is so; None after the limit.

        Raises what the executor failed with, such as DocumentError for a foreign document."""
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    if self.failure is not None:
                        raise self.failure
                    if self.report is not None and is_reached(self.report):
                        return self.report
                    self._told.clear()
                    await self._told.wait()
        except TimeoutError:
            return None

    async def __aenter__(self) -> ExecutorHost:
        self.store.start()
        if not await self.store.wait_until_connected(CONNECT_LIMIT_S):
            await self.store.stop()
            raise StoreUnreachable(
                f"no ZooKeeper answers at {self.store.target} within {CONNECT_LIMIT_S:g} s: "
                "is it running there?"
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()
        await self.store.stop()

    # --- to and from the executor ------------------------------------------------------------

    def _hand_in(self, event: StoreEvent) -> None:
        self._events.append(event)
        if self._is_draining or self.failure is not None:
            return
        self._is_draining = True
        try:
            while self._events:
                self._handle(self._events.popleft())
        except Exception as error:
            log.exception("the executor failed at %s", event)
            self.failure = error
            self._told.set()
            return
        finally:
            self._is_draining = False
        deadline = self._executor.next_deadline()
        if deadline < math.inf:
            self._timer.arm(deadline)

    def _handle(self, event: StoreEvent) -> None:
        for effect in self._executor.handle(event, self._clock.now()):
            if isinstance(effect, ExecutorReport):
                self.report = effect
                self._told.set()
            else:
                self.store.request(effect)
