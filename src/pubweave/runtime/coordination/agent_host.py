"""A broker's agent at work: its core between the broker on this machine and the store.

The agent decides (`deploy.agent`); this module carries events to it and effects away, finds out
where other brokers listen, and hands over the broker's report now and then. It never holds up the
broker: while the store is away the broker routes on, only plans wait.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence

from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.vocabulary.effects import DecideAction, ReportAction, ReportRemap
from pubweave.core.vocabulary.events import RemapAnnounced
from pubweave.deploy.agent import Agent, AgentConfig, AgentEvent, CoreEvent, StatusTaken
from pubweave.deploy.documents import BrokerReport, DocumentError, Layout
from pubweave.deploy.remap.remapper import RemapAgent, Remapper, RemapperConfig, RemapProgress
from pubweave.deploy.store import StoreEvent, StoreRequest, TimerFired
from pubweave.model.ids import BrokerId
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import DeadlineTimer, UnixClock
from pubweave.runtime.store.session import read_address
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget

log = logging.getLogger(__name__)

HostEffect = StoreRequest | CoreEvent | RemapAnnounced | RemapProgress
REPORT_EVERY_S = 5.0
RESOLVE_LIMIT_S = 1.0


class AgentHost:
    """Runs the agent of one broker from `start`, after the broker listens, until `stop`."""

    def __init__(self, host: BrokerHost, target: ZooKeeperTarget, overlay: str) -> None:
        self._host = host
        self._overlay = overlay
        self._layout = Layout(overlay)
        self._clock = UnixClock()
        self._timer = DeadlineTimer(self._clock, lambda: self._hand_in(TimerFired()))
        self.store = ZooKeeperStore(target, self._hand_in)
        self._addresses: dict[BrokerId, Address] = {}
        self._events: deque[AgentEvent | ReportRemap] = deque()
        self._is_draining = False
        self._problems: list[str] = []
        self.on_problem: Callable[[str], None] = lambda problem: None
        """Hears that there is a problem with the store; by an empty one, that there is none."""
        self._reports: asyncio.Task[None] | None = None
        self.agent: Agent | None = None

    async def start(self) -> None:
        """Begin to connect; the broker gets its links as soon as the store tells them."""
        host = self._host
        actions = host.broker.part(ActionCoordinator)
        self.agent = Agent(
            AgentConfig(
                broker=host.config.id,
                overlay=self._overlay,
                address=str(host.config.advertise or host.address),
                epoch=self._clock.epoch(),
                remembers=host.is_back,
                expecting=() if actions is None else actions.expecting(),
                ended=() if actions is None else actions.reports(),
            )
        )
        host.resolve = self._resolve
        host.on_action = self._on_action
        self.store.start()
        self._reports = asyncio.create_task(self._report(), name="broker reports")

    async def stop(self) -> None:
        """Leave the store; the broker is left as it is."""
        self._timer.cancel()
        if self._reports is not None:
            self._reports.cancel()
        await self.store.stop()

    # --- to and from the agent ---------------------------------------------------------------

    def _on_action(self, effect: DecideAction | ReportAction | ReportRemap) -> None:
        # Later: the broker's other effects come first, and the agent may answer at once.
        asyncio.get_running_loop().call_soon(self._hand_in, effect)

    def _hand_in(self, event: AgentEvent | ReportRemap) -> None:
        self._events.append(event)
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._events:
                self._handle(self._events.popleft())
        finally:
            self._is_draining = False
        deadline = self._next_deadline()
        if deadline < math.inf:
            self._timer.arm(deadline)

    def _handle(self, event: AgentEvent | ReportRemap) -> None:
        try:
            effects = self._decide(event, self._clock.now())
        except DocumentError as error:
            log.warning("the agent of %s waits: %s", self._host.config.id, error)
            return
        except Exception:
            # A bug of ours: the broker must go on routing. What the agent had to say so far is
            # said with the next event.
            log.exception("the agent failed at %s", event)
            return
        for effect in effects:
            if isinstance(effect, StoreRequest):
                self.store.request(effect)
            elif isinstance(effect, RemapProgress):
                log.debug("%s", effect)
            else:
                log.info("%s", effect)
                self._host.handle(effect)
        if self.agent is not None:
            self._tell(self.agent.problem)

    def _decide(self, event: AgentEvent | ReportRemap, now: float) -> Sequence[HostEffect]:
        assert self.agent is not None, "start() first"
        assert not isinstance(event, ReportRemap), "only in rendezvous overlays"
        return self.agent.handle(event, now)

    def _tell(self, problem: str) -> None:
        """Say each problem once: what is denied is asked again and again."""
        if problem in self._problems or not (problem or self._problems):
            return
        if problem:
            self._problems.append(problem)
        else:
            self._problems.clear()
        log.warning("the agent of %s: %s", self._host.config.id, problem or "all well")
        if not problem or len(self._problems) == 1:
            self.on_problem(problem)

    def _next_deadline(self) -> float:
        assert self.agent is not None
        return self.agent.next_deadline()

    # --- what the broker needs, and what it tells --------------------------------------------

    async def _resolve(self, broker: BrokerId) -> Address | None:
        """Where a broker listens: as it says in the store, or said last, or as configured."""
        try:
            async with asyncio.timeout(RESOLVE_LIMIT_S):
                told = await read_address(self.store, self._layout, broker)
            if told is not None:
                self._addresses[broker] = told
        except TimeoutError:
            log.debug("the store did not tell in time where %s listens", broker)
        except (DocumentError, ValueError) as error:
            log.warning("%s", error)
        return self._addresses.get(broker) or await self._host.configured_address(broker)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            status = self._host.broker.status(self._clock.now())
            self._hand_in(StatusTaken(BrokerReport.of(status)))


class RemapAgentHost(AgentHost):
    """The agent of a broker of a rendezvous overlay, and beside it one that sees remappings
    through, if no other does: every broker stands by for that, so it goes on whoever dies. Both
    run from `start`, after the broker listens, until `stop`, over one session."""

    async def start(self) -> None:
        host = self._host
        epoch = self._clock.epoch()
        broker = host.config.id
        address = str(host.config.advertise or host.address)
        self._remap_agent = RemapAgent(AgentConfig(broker, self._overlay, address, epoch))
        self._remapper = Remapper(RemapperConfig(self._overlay, f"{broker}:{epoch:x}"))
        host.resolve = self._resolve
        host.on_action = self._on_action
        self.store.start()

    def _decide(self, event: AgentEvent | ReportRemap, now: float) -> Sequence[HostEffect]:
        assert isinstance(event, StoreEvent | ReportRemap), "only in trees"
        effects: list[HostEffect] = [*self._remap_agent.handle(event, now)]
        if isinstance(event, StoreEvent):
            effects += self._remapper.handle(event, now)
        return effects

    def _next_deadline(self) -> float:
        return min(self._remap_agent.next_deadline(), self._remapper.next_deadline())
