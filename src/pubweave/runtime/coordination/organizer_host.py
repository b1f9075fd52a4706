"""What a self-organizing broker needs of the world: probes, and exchanges carried out.

The core decides (`core.self_organizing`); an exchange that was agreed here is handed over to the
store as a plan (`deploy.link_exchange`), and this process hosts an executor until it is over. If it
dies meanwhile, another self-organizing broker finds the plan abandoned and finishes it. A plan of
an operator goes before everything: while one is under way this broker asks for nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.vocabulary.effects import OrganizeEffect, ProbeBroker, ProposeExchange
from pubweave.core.vocabulary.events import BrokerProbed, ExchangeEnded
from pubweave.deploy.commands import DeploymentError
from pubweave.deploy.documents import DeploymentDocument, DocumentError
from pubweave.deploy.executor import ExecutorConfig, ExecutorReport
from pubweave.deploy.layout import Layout
from pubweave.deploy.link_exchange import (
    RETRY_S,
    ExchangeBusy,
    find_abandoned,
    is_operated,
    patience_s,
    submit_exchange,
)
from pubweave.model.deployment import DeploymentState
from pubweave.model.ids import BrokerId
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.coordination.agent_host import AgentHost
from pubweave.runtime.coordination.executor_host import ExecutorHost, executor_name
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.rtt_probe import handshake_ms
from pubweave.runtime.store.zookeeper_target import Coordination

log = logging.getLogger(__name__)

PROBE_LIMIT_S = 1.0
LOOK_EVERY_INTERVALS = 4
TROUBLES = (DeploymentError, DocumentError, OverlayError)
"""What may stand in the way: another plan, a foreign document, a store that does not answer."""


class OrganizerHost:
    """Beside one broker and its agent, from `start` until `stop`."""

    def __init__(
        self,
        host: BrokerHost,
        agent: AgentHost,
        coordination: Coordination,
        config: OrganizeConfig,
    ) -> None:
        self._host = host
        self._agent = agent
        self._coordination = coordination
        self._config = config
        self._layout = Layout(coordination.overlay)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_executing = False

    def start(self) -> None:
        self._host.on_organize = self._on_effect
        self._begin(self._keep_looking(), "look after plans")

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_effect(self, effect: OrganizeEffect) -> None:
        match effect:
            case ProbeBroker(broker):
                self._begin(self._probe(broker), f"probe {broker}")
            case ProposeExchange():
                self._begin(self._carry_out(effect), effect.request_id)

    # --- exchanges ---------------------------------------------------------------------------

    async def _carry_out(self, effect: ProposeExchange) -> None:
        done, reason = False, "another exchange is under way here"
        if not self._is_executing:
            self._is_executing = True
            try:
                done, reason = await self._exchange(effect)
            except TROUBLES as error:
                reason = str(error)
            finally:
                self._is_executing = False
        outcome = "done" if done else f"not done: {reason}"
        log.info("exchange of %s on %s: %s", effect.removed, "-".join(effect.ring), outcome)
        self._host.handle(ExchangeEnded(effect.request_id, done, reason))

    async def _exchange(self, effect: ProposeExchange) -> tuple[bool, str]:
        submitted = await self._submit(effect)
        report = await self._execute(submitted.deployment)
        ended = None if report is None else report.deployment
        if ended is None or ended.deployment != submitted.deployment:
            return False, "another plan came after it, its end was missed"
        return ended.state is DeploymentState.DONE, ended.reason

    async def _submit(self, effect: ProposeExchange) -> DeploymentDocument:
        """Hand an exchange over, after those that are under way; DeploymentError if that takes
        longer than the ring is locked for, or cannot be at all."""
        own = self._host.config.broker.id
        until = time.monotonic() + patience_s(self._config.lock_s)
        while True:
            script = submit_exchange(self._layout, effect.ring, effect.removed, own)
            try:
                return await self._agent.run(script)
            except ExchangeBusy:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _execute(self, deployment: str) -> ExecutorReport | None:
        """Host an executor until a deployment is over."""

        def is_over(report: ExecutorReport) -> bool:
            seen = report.deployment
            return seen is not None and (seen.deployment != deployment or seen.state.is_final)

        config = ExecutorConfig(self._coordination.overlay, executor_name())
        async with ExecutorHost(self._coordination.target, config) as executor:
            return await executor.wait_until(is_over)

    # --- what others do ----------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        """Stand aside for operators, and finish what a broker that died has left."""
        while True:
            await asyncio.sleep(LOOK_EVERY_INTERVALS * self._config.interval_s)
            if self._is_executing:
                continue
            self._is_executing = True
            try:
                await self._look()
            except TROUBLES as error:
                log.info("cannot look after plans now: %s", error)
            finally:
                self._is_executing = False

    async def _look(self) -> None:
        self._host.pause_organizing(await self._agent.run(is_operated(self._layout)))
        found = await self._agent.run(find_abandoned(self._layout))
        if not found:
            return
        # Whoever submitted it may be about to start its executor.
        await asyncio.sleep(self._config.interval_s)
        if await self._agent.run(find_abandoned(self._layout)) == found:
            log.warning("nobody carries deployment %s out: finishing it", found)
            await self._execute(found)

    # --- probes --------------------------------------------------------------------------------

    async def _probe(self, broker: BrokerId) -> None:
        address: Address | None = None
        try:
            async with asyncio.timeout(PROBE_LIMIT_S):
                address = await self._host.resolve(broker)
        except (OSError, TimeoutError) as error:
            log.debug("cannot find %s: %s", broker, error)
        rtt_ms = None if address is None else await handshake_ms(address, PROBE_LIMIT_S)
        self._host.handle(BrokerProbed(broker, rtt_ms))
