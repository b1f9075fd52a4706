"""A plan carried out in simulation before it is carried out in earnest.

The overlay as it is, the traffic as it was recorded, played over and over while the real executor
and agents walk through the plan on the real broker core. Nothing is broken on purpose: this shows
what the plan costs when all goes well, and that nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from statistics import median

from pubweave.core.config.session import SessionLimits
from pubweave.generate.topologies.latencies import Matrix
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Append, Plan
from pubweave.model.records.recorded_traffic import RecordedPublication, RecordedTraffic
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.overlays.base import DEFAULT_LATENCY_MS
from pubweave.sim.scenarios.routing import RoutingSetting
from pubweave.sim.scenarios.transform import TransformScenario
from pubweave.sim.scenarios.transform_measures import QUIET, TransformSetting

CLIENT_LATENCY_S = 0.001
STORE_S = (0.001, 0.003)
HANDLING = HandlingTime(0.0001, 0.0002)
AROUND_S = 1.0
"""How long traffic flows before the plan begins, and after it has ended."""


class Rehearsal(TransformScenario):
    """One plan on one topology under recorded traffic: ``Rehearsal(...).run()``.

    ``measures`` of the result tell what it costs; ``violations`` what went wrong, if anything."""

    name = "rehearsal"

    def __init__(
        self, topology: Topology, plan: Plan, traffic: RecordedTraffic, *, seed: int = 0
    ) -> None:
        self._plan = plan
        self._traffic = traffic
        known = traffic.latency_ms
        self._usual_ms = median(known.values()) if known else DEFAULT_LATENCY_MS
        self._given = replace(
            topology,
            latency_ms={link: known.get(link, self._usual_ms) for link in topology.links},
        )
        self._is_over_at: float | None = None
        super().__init__(seed, fault="none", max_brokers=len(topology.brokers))

    # --- the setting is given, not drawn -----------------------------------------------------

    def draw_setting(self, max_brokers: int, rtt: Matrix | None) -> RoutingSetting:
        self.transform = TransformSetting(
            fault="none",
            plans=1,
            steps=self._plan.step_count,
            actions=self._plan.action_count,
            disjoint=False,
            executors=1,
            store_s=STORE_S,
            session_limit_s=8.0,
        )
        return RoutingSetting(
            topology=self._given,
            covering=False,
            limits=SessionLimits(),
            handling=HANDLING,
            faults=QUIET,
            clients=0,
            rounds=1,
            round_s=0.5,
            actions_per_round=0,
        )

    def spare_brokers(self) -> Collection[BrokerId]:
        appended = (a.broker for a in self._plan.actions() if isinstance(a, Append))
        return sorted(set(appended) - self._given.brokers)

    def latency_s(self, link: Link) -> float:
        return self._traffic.latency_ms.get(link, self._usual_ms) / 1000.0

    def _draw_plan(self) -> Plan:
        return self._plan

    def _compared(self) -> dict[str, float]:
        return {}

    # --- life --------------------------------------------------------------------------------

    def run(self) -> RunResult:
        self.overlay.on_told_to_move = self._let_go
        for recorded in self._traffic.clients:
            self.overlay.join_recorded(
                recorded, latency_s=CLIENT_LATENCY_S, limits=self.setting.limits
            )
        if self._come_to_rest():
            self._play()
            self.world.run_until(self.world.now + AROUND_S)
            self._carry_out(self._draw_plan())
            self.world.run_until(self.world.now + AROUND_S)
            self._is_over_at = self.world.now
            self._come_to_rest()
        return self._result()

    def _be_active(self) -> None:
        self.world.run_until(self.world.now + self.setting.round_s)

    def _let_go(self, client: SimClient) -> None:
        """A client whose broker leaves has to move; where to is not for a rehearsal to know."""
        if client.name in self.overlay.clients:
            self.overlay.leave(client.name)

    def _play(self) -> None:
        """Publish as it was recorded, and again from the beginning, until the plan is over."""
        if self._is_over_at is not None:
            return
        for publication in self._traffic.publications:
            self.world.after(publication.at_s, self._publish_recorded, publication)
        if self._traffic.publications:
            self.world.after(max(self._traffic.window_s, AROUND_S), self._play)

    def _publish_recorded(self, recorded: RecordedPublication) -> None:
        client = self.overlay.clients.get(recorded.publisher)
        if client is None or self._is_over_at is not None or client.core.session.is_congested:
            return
        # Nobody subscribes or leaves meanwhile: who wants it gets it, whatever the tables say.
        self.overlay.publish(
            client, recorded.topic, dict(recorded.attributes), is_quiet=True, may_be_lost=False
        )
