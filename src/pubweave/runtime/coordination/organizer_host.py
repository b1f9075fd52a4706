"""A self-organizing broker on this machine: probes, and the errands of `deploy.link_exchange`.

The core decides (`core.self_organizing`), and the engine has the rules of what becomes of it in
the store; here are its clock, its session and its executors.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Coroutine
from typing import Any

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.vocabulary.effects import OrganizeEffect, ProbeBroker, ProposeExchange
from pubweave.core.vocabulary.events import BrokerProbed, ExchangeEnded, OrganizingPaused
from pubweave.deploy.commands import DeploymentError
from pubweave.deploy.documents import DocumentError, Layout
from pubweave.deploy.executor import ExecutorConfig
from pubweave.deploy.link_exchange import (
    PROBE_LIMIT_S,
    Errand,
    HostExecutor,
    OrganizerEngine,
    Step,
    WaitFor,
)
from pubweave.model.ids import BrokerId
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.coordination.executor_host import ExecutorHost, executor_name
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.rtt_probe import handshake_ms
from pubweave.runtime.store.session import ask_connected
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore

log = logging.getLogger(__name__)


class OrganizerHost:
    """Beside one broker, from `start` until `stop`, over its agent's session with the store."""

    def __init__(
        self,
        host: BrokerHost,
        store: ZooKeeperStore,
        overlay: str,
        config: OrganizeConfig,
    ) -> None:
        self._host = host
        self._store = store
        self._overlay = overlay
        self._engine = OrganizerEngine(Layout(overlay), host.config.id, config)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._host.on_organize = self._on_effect
        # A core that came back from a journal may remember a plan that is over.
        self._host.handle(OrganizingPaused(self._engine.is_operated))
        self._begin(self._keep_looking(), "look after plans")

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_effect(self, effect: OrganizeEffect) -> None:
        match effect:
            case ProbeBroker(broker):
                self._begin(self._probe(broker), f"probe {broker}")
            case ProposeExchange():
                log.info("exchange of %s on %s", effect.removed, "-".join(effect.ring))
                errand = self._engine.carry_out(effect, time.monotonic())
                self._begin(self._run(errand), effect.request_id)

    async def _keep_looking(self) -> None:
        every_s = self._engine.look_every_s
        await asyncio.sleep(random.uniform(0.0, every_s))
        while True:
            self._begin(self._run(self._engine.look()), "look")
            await asyncio.sleep(every_s)

    async def _probe(self, broker: BrokerId) -> None:
        rtt_ms: float | None = None
        try:
            async with asyncio.timeout(PROBE_LIMIT_S):
                address = await self._host.resolve(broker)
                if address is not None:
                    rtt_ms = await handshake_ms(address, PROBE_LIMIT_S)
        except (OSError, TimeoutError) as error:
            log.debug("cannot find %s: %s", broker, error)
        self._host.handle(BrokerProbed(broker, rtt_ms))

    # --- errands -----------------------------------------------------------------------------

    async def _run(self, errand: Errand[None]) -> None:
        try:
            step = next(errand)
            while True:
                try:
                    answer = await self._do(step)
                except (DocumentError, OverlayError) as error:
                    step = errand.throw(DeploymentError(str(error)))
                else:
                    step = errand.send(answer)
        except StopIteration:
            pass
        except (DeploymentError, DocumentError) as error:
            log.info("cannot look after plans now: %s", error)
        finally:
            errand.close()

    async def _do(self, step: Step) -> Any:
        match step:
            case WaitFor(seconds):
                await asyncio.sleep(seconds)
                return time.monotonic()
            case HostExecutor():
                log.info("executing deployment %s", step.deployment)
                config = ExecutorConfig(self._overlay, executor_name())
                async with ExecutorHost(self._store.target, config) as executor:
                    report = await executor.wait_until(lambda seen: step.is_over(seen.deployment))
                return None if report is None else report.deployment
            case ExchangeEnded() | OrganizingPaused():
                log.info("%s", step)
                self._host.handle(step)
            case _:
                return await ask_connected(self._store, step)
