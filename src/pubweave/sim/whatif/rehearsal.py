"""A plan carried out in simulation before it is carried out in earnest.

The overlay as it is, the traffic as it was recorded, played over and over while the real executor
and agents walk through the plan on the real broker core. Nothing is broken on purpose: this shows
what the plan costs when all goes well, and that nothing is lost on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.deploy.topology_state import apply_actions
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Append, Plan
from pubweave.model.records.recorded_traffic import RecordedPublication, RecordedTraffic
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.base import DEFAULT_LATENCY_MS
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.parts.deployments import SimDeployments

CLIENT_LATENCY_S = 0.001
STORE_S = (0.001, 0.003)
HANDLING = HandlingTime(0.0001, 0.0002)
AROUND_S = 1.0
"""How long traffic flows before the plan begins, and after it has ended."""
LOOK_EVERY_S = 0.5
SESSION_LIMIT_S = 8.0
PLAN_LIMIT_S = 195.0
REST_LIMIT_S = 180.0


@dataclass(frozen=True)
class RehearsalSetting:
    """How a plan is rehearsed."""

    seed: int = 0
    handling: HandlingTime = HANDLING
    store_s: tuple[float, float] = STORE_S
    """One way to the store."""


def rehearse(topology: Topology, plan: Plan, traffic: RecordedTraffic) -> RunResult:
    """Carry a plan out on a topology under recorded traffic.

    ``measures`` of the result tell what it costs; ``violations`` what went wrong, if anything."""
    return Rehearsal(topology, plan, traffic).run()


class Rehearsal:
    """One plan on one topology under recorded traffic; `run` may be called once."""

    def __init__(
        self,
        topology: Topology,
        plan: Plan,
        traffic: RecordedTraffic,
        setting: RehearsalSetting | None = None,
    ) -> None:
        setting = setting or RehearsalSetting()
        self._plan = plan
        self._traffic = traffic
        self._seed = setting.seed
        known = traffic.latency_ms
        self._usual_ms = median(known.values()) if known else DEFAULT_LATENCY_MS
        given = {link: known.get(link, self._usual_ms) for link in topology.links}
        appended = {a.broker for a in plan.actions() if isinstance(a, Append)}
        self.world = World(setting.seed)
        self.overlay = TreeOverlay(
            self.world,
            replace(topology, latency_ms=given),
            make_config=_config,
            handling=setting.handling,
            latency_s=self.latency_s,
            spare=sorted(appended - topology.brokers),
        )
        self.overlay.on_told_to_move = self._let_go
        self.deployments = SimDeployments(
            self.overlay, store_s=setting.store_s, session_limit_s=SESSION_LIMIT_S
        )
        self._violations: list[str] = []
        self._is_over = False

    def latency_s(self, link: Link) -> float:
        """Of a link that a plan makes."""
        return self._traffic.latency_ms.get(link, self._usual_ms) / 1000.0

    def run(self) -> RunResult:
        limits = SessionLimits()
        for recorded in self._traffic.clients:
            self.overlay.join_recorded(recorded, latency_s=CLIENT_LATENCY_S, limits=limits)
        if self._comes_to_rest():
            self._play()
            self.world.run_until(self.world.now + AROUND_S)
            self._carry_out()
            self.world.run_until(self.world.now + AROUND_S)
            self._is_over = True
            self._comes_to_rest()
        return self._result()

    def _carry_out(self) -> None:
        world, deployments = self.world, self.deployments
        target = apply_actions(deployments.watch.topology, self._plan.actions())
        deployments.submit(self._plan)
        deployments.start_executor()
        limit = world.now + PLAN_LIMIT_S
        while not deployments.is_over and world.now < limit:
            world.run_until(world.now + LOOK_EVERY_S)
            deployments.operate()
        for problem in deployments.wrong_end(target, is_calm=True):
            self._violate(problem)

    def _comes_to_rest(self) -> bool:
        world, deployments = self.world, self.deployments
        deployments.dismiss_executors()
        until = world.now + REST_LIMIT_S
        while deployments.unheard() and world.now < until:
            world.run_until(world.now + LOOK_EVERY_S / 2)
        if not self.overlay.run_until_quiet(REST_LIMIT_S):
            self._violate("the overlay does not come to rest")
            return False
        self.overlay.check_deliveries()
        for problem in (*self.overlay.check_tables(), *deployments.wrong_links()):
            self._violate(problem)
        return True

    def _violate(self, text: str) -> None:
        self._violations.append(f"{self.world.now:.3f} {text}")

    def _let_go(self, client: SimClient) -> None:
        """A client whose broker leaves has to move; where to is not for a rehearsal to know."""
        if client.name in self.overlay.clients:
            self.overlay.leave(client.name)

    def _play(self) -> None:
        """Publish as it was recorded, and again from the beginning, until the plan is over."""
        if self._is_over:
            return
        for publication in self._traffic.publications:
            self.world.after(publication.at_s, self._publish, publication)
        if self._traffic.publications:
            self.world.after(max(self._traffic.window_s, AROUND_S), self._play)

    def _publish(self, recorded: RecordedPublication) -> None:
        client = self.overlay.clients.get(recorded.publisher)
        if client is None or self._is_over or client.core.session.is_congested:
            return
        self.overlay.publish(client, recorded.topic, dict(recorded.attributes))

    def _result(self) -> RunResult:
        overlay, deployments = self.overlay, self.deployments
        judge, counters = overlay.judge, [n.broker.counters for n in overlay.brokers.values()]
        refused = [f"refused: {text}" for text in overlay.refusals]
        violations = (*self._violations, *judge.violations, *refused)
        return RunResult(
            scenario="rehearsal",
            seed=self._seed,
            violations=(*violations, *deployments.watch.violations),
            setting={"brokers": len(overlay.topology.brokers)},
            counts={
                "publications": judge.publications,
                "deliveries": judge.deliveries,
                "due": judge.due,
                "duplicates_dropped": sum(each.duplicates_dropped for each in counters),
                "events": self.world.steps,
                **deployments.counts(),
            },
            measures=deployments.measures(),
            virtual_s=round(self.world.now, 3),
        )


def _config(broker: BrokerId) -> BrokerConfig:
    return BrokerConfig(
        id=broker,
        stale_grace_s=3.0,
        ping_every_s=2.0,
        silence_limit_s=5.0,
        hold_limit_s=3.0,
        action_limit_s=8.0,
        clients_leave_s=3.0,
    )
