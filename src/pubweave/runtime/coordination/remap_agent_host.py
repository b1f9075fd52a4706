"""The agent of a broker of a rendezvous overlay at work, and beside it one that sees remappings
through, if no other does: every broker stands by for that, so it goes on whoever dies."""

from __future__ import annotations

import logging
import math

from pubweave.core.vocabulary.effects import ReportRemap
from pubweave.core.vocabulary.events import RemapAnnounced
from pubweave.deploy.agent import AgentConfig, AgentEvent
from pubweave.deploy.documents import DocumentError
from pubweave.deploy.remap.remapper import RemapAgent, Remapper, RemapperConfig, RemapProgress
from pubweave.deploy.store import StoreEvent
from pubweave.runtime.coordination.agent_host import AgentHost

log = logging.getLogger(__name__)


class RemapAgentHost(AgentHost):
    """Runs both from `start`, after the broker listens, until `stop`; over one session."""

    async def start(self) -> None:
        host = self._host
        epoch = self._clock.epoch()
        broker = host.config.broker.id
        address = str(host.config.advertised or host.address)
        self._remap_agent = RemapAgent(AgentConfig(broker, self._overlay, address, epoch))
        self._remapper = Remapper(RemapperConfig(self._overlay, f"{broker}:{epoch:x}"))
        host.resolve = self._resolve
        host.on_action = self._on_action
        self._store.start()

    def _handle(self, event: AgentEvent | ReportRemap) -> None:
        now = self._clock.now()
        try:
            if isinstance(event, ReportRemap):
                effects = [*self._remap_agent.handle(event, now)]
            else:
                assert isinstance(event, StoreEvent)
                effects = [*self._remap_agent.handle(event, now)]
                effects += self._remapper.handle(event, now)  # type: ignore[arg-type]
        except DocumentError as error:
            log.warning("the agent of %s waits: %s", self._remap_agent.config.broker, error)
            return
        except Exception:
            # A bug of ours: the broker must go on routing.
            log.exception("the agent failed at %s", event)
            return
        for effect in effects:
            if isinstance(effect, RemapAnnounced):
                log.info("remapping %s: %s", effect.version, effect.step.value)
                self._host.handle(effect)
            elif isinstance(effect, RemapProgress):
                log.debug("%s", effect)
            else:
                self._store.request(effect)

    def _arm(self) -> None:
        deadline = min(self._remap_agent.next_deadline(), self._remapper.next_deadline())
        if deadline < math.inf:
            self._timer.arm(deadline)
