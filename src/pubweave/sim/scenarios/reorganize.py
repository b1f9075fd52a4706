"""The scenario `reorganize`: an overlay that organizes itself while everything fails.

As `transform`, but nobody has a plan: brokers tell their neighborhoods what they are interested
in, ask for links, agree, and have exchanges carried out through the store, several at once. In
some runs an operator applies plans of its own meanwhile. At the end of each round brokers are told
to leave the overlay as it is; then it must be the tree of what was committed, with tables that
equal the truth, and nothing lost, doubled or disordered since the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.deploy.commands import DeploymentError, submit
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.generate.topologies.latencies import Matrix
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.hosts.deployment import SimExecutor
from pubweave.sim.hosts.organizer import SimOrganizerHost
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.world import World
from pubweave.sim.scenarios.routing import RoutingSetting
from pubweave.sim.scenarios.transform import END_LIMIT_S, TransformScenario

QUIET_END_S = 2.0
"""Nothing fails in the last part of a round: what it costs then is compared."""
CALM_S = 2.0
"""If nothing was under way for so long, nothing will be."""
OPERATOR_EVERY_S = 3.0


class ReorganizeScenario(TransformScenario):
    """One run. ``fault`` is one of FAULTS, ``organizing`` how brokers organize themselves; None:
    drawn from the seed."""

    name = "reorganize"

    def __init__(
        self,
        seed: int,
        *,
        organizing: ReorganizeSetting | None = None,
        max_brokers: int = 14,
        **options: Any,
    ) -> None:
        self._organizing = organizing
        super().__init__(seed, max_brokers=max_brokers, **options)
        self.hosts = {
            name: SimOrganizerHost(
                self.store,
                node,
                self.layout,
                self.organizing.organize.lock_s,
                self._rtt_s,
                self._on_executor,
            )
            for name, node in self.overlay.brokers.items()
        }
        self._source = self.overlay.topology
        self._measured_from = 0.0
        self._operators: list[SimExecutor] = []

    def draw_setting(self, max_brokers: int, rtt: Matrix | None) -> RoutingSetting:
        setting = super().draw_setting(max_brokers, rtt)
        # Brokers that come and go are the business of `transform`.
        self.transform = replace(self.transform, spare_brokers=0)
        drawn = ReorganizeSetting.draw(self.world)
        self.organizing = self._organizing or drawn
        return setting

    def _config(self, broker: BrokerId) -> BrokerConfig:
        return replace(super()._config(broker), organize=self.organizing.organize)

    def _rtt_s(self, one: BrokerId, other: BrokerId) -> float | None:
        node = self.overlay.brokers[one]
        assert node.find_path is not None
        path, far = node.find_path(one, other)
        return 2 * path.latency_s if far.is_up() else None

    # --- life ------------------------------------------------------------------------------

    def run(self) -> RunResult:
        self._pause(True)
        for number in range(self.transform.steady_clients):
            self._join_steady(f"steady{number}")
        for _ in range(self.setting.clients):
            self._join()
        if self._come_to_rest():
            for _ in range(self.organizing.rounds):
                self._organize()
                if not self._come_to_rest():
                    break
                self._burst()
        return self._result()

    def _pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        for node in self.overlay.brokers.values():
            node.pause_organizing(is_paused)

    def _organize(self) -> None:
        """Let brokers do as they like for a while, under faults but for the end of it."""
        world = self.world
        self._pause(False)
        end = world.now + self.organizing.round_s
        self._end_faults_at = end - QUIET_END_S
        self._strike_control()
        next_plan_at = world.now + world.uniform(1.0, OPERATOR_EVERY_S)
        self._measured_from = end - QUIET_END_S
        while world.now < end:
            self._be_active()
            if world.now >= self._end_faults_at:
                self.faults.heal()
            self._pause(False)  # brokers that were restarted meanwhile do not know
            if self.organizing.has_operator and world.now >= next_plan_at:
                next_plan_at = world.now + OPERATOR_EVERY_S
                self._apply_plan()
            self._operate()
        self.faults.heal()
        self._pause(True)
        self._await_ends(world.now + END_LIMIT_S)

    def _await_ends(self, limit: float) -> None:
        """What was agreed before is carried out to its end; brokers that have agreed may be about
        to begin it."""
        calm_since = self.world.now
        while self.world.now < min(limit, calm_since + CALM_S):
            self.faults.heal()
            self._pause(True)
            self.world.run_until(self.world.now + 0.5)
            self._operate()
            if self._is_under_way():
                calm_since = self.world.now
        if self._is_under_way():
            self._violate(f"a change of the overlay never ends: {self.watch.deployment}")
        if not self.watch.topology.is_tree:
            self._violate("the topology is no tree any more")

    def _is_under_way(self) -> bool:
        is_running = self.watch.deployment is not None and not self._is_over()
        return is_running or any(host.is_executing for host in self.hosts.values())

    # --- the operator ----------------------------------------------------------------------

    def _apply_plan(self) -> None:
        """Hand over a plan, if nothing else is under way: that is what the operator is told."""
        plan = self._draw_plan()
        record = PlanRecord(plan, source_hash=topology_hash(self.watch.topology))
        try:
            self.store.run(submit(self.layout, record))
        except DeploymentError:
            self.tally["plans_refused"] += 1
        else:
            self.tally["plans_submitted"] += 1

    def _operate(self) -> None:
        """An executor of the operator lives as long as a plan of the operator does."""
        deployment = self.watch.deployment
        is_ours = deployment is not None and not deployment.by and not deployment.state.is_final
        self._operators = [executor for executor in self._operators if executor.is_alive]
        if is_ours and not self._operators:
            self._start_executor()
            self._operators.append(self.executors[-1])
        elif not is_ours:
            for executor in self._operators:
                executor.leave()
            self._operators.clear()

    def _start_executor_again(self) -> None:
        """Whoever hosts one that died starts another one."""

    def _on_executor(self, executor: SimExecutor) -> None:
        self.tally["executors"] += 1
        self.executors = [e for e in self.executors if e.is_alive]
        self.executors.append(executor)

    def _on_broker_crash(self, node: SimBroker) -> None:
        super()._on_broker_crash(node)
        self.hosts[node.name].crashed()

    # --- outcome ---------------------------------------------------------------------------

    def _result(self) -> RunResult:
        result = super()._result()
        statuses = [
            node.core.organizer.status()
            for node in self.overlay.brokers.values()
            if node.core is not None and node.core.organizer is not None
        ]
        names = ("proposed", "busy", "declined", "agreed", "done", "failed", "broadcasts_dropped")
        organized = [d for d in self.watch.deployments.values() if d.by]
        return replace(
            result,
            setting={**result.setting, **self.organizing.describe()},
            counts={
                **result.counts,
                **{name: sum(getattr(status, name) for status in statuses) for name in names},
                "organize_bytes": sum(status.bytes_out for status in statuses),
                "exchanges": len(organized),
                "exchanges_done": sum(d.state is DeploymentState.DONE for d in organized),
            },
            measures=self._costs(),
        )

    def _compared(self) -> dict[str, float]:
        return {}

    def _costs(self) -> dict[str, float]:
        """What the last publications cost on the tree at the beginning and on that at the end."""
        organize = self.organizing.organize
        is_hops = organize.link_price is LinkPrice.HOPS
        processing = organize.broker_price
        if processing is None:
            processing = 1.0 if is_hops else 1000.0 * self.setting.handling.per_match_s

        def communication(link: Link) -> float:
            rtt_s = self._rtt_s(*link)
            return 1.0 if is_hops else 500.0 * (rtt_s or 0.0)

        costs = DeliveryCosts(lambda broker: processing, communication)
        homes = self.overlay.homes
        interests = [
            (homes[publication.publisher], *(homes[client] for client in clients))
            for publication, clients in self.overlay.checker.receivers(self._measured_from)
        ]
        before = costs.of_all(self._source, interests)
        after = costs.of_all(self.watch.topology, interests)
        return {"cost_before": before, "cost_after": after, "cost_left": after / (before or 1.0)}


@dataclass(frozen=True)
class ReorganizeSetting:
    """What makes a run one of self-organization, beside what the other settings say."""

    organize: OrganizeConfig
    rounds: int
    round_s: float
    has_operator: bool
    """Somebody applies plans meanwhile."""

    @classmethod
    def draw(cls, world: World) -> ReorganizeSetting:
        heuristic = world.choice([Heuristic.CI, Heuristic.CI, Heuristic.MST, Heuristic.MIT])
        has_prices = world.chance(0.5)
        organize = OrganizeConfig(
            heuristic=heuristic,
            eta=world.integer(2, 5),
            interval_s=world.uniform(0.5, 1.3),
            estimate=world.choice([Estimate.SIDES] * 3 + [Estimate.OVERLAP, Estimate.CONJUNCTION]),
            cache_entries=world.choice([64, None, None]),
            bloom_bits=int(world.choice([1_024, 8_192, 100_000])),
            bloom_hashes=world.integer(1, 6),
            adapt_bloom=world.chance(0.5),
            damping=world.chance(0.3),
            least_gain=float(world.choice([0.0, 0.02, 0.05])),
            lock_s=world.uniform(1.0, 8.0),
            link_price=LinkPrice.RTT if has_prices else LinkPrice.HOPS,
            broker_price=world.uniform(0.0, 20.0) if world.chance(0.7) else None,
        )
        return cls(
            organize=organize,
            rounds=2 if world.chance(0.3) else 1,
            round_s=world.uniform(4.5, 7.5),
            has_operator=world.chance(0.25),
        )

    def describe(self) -> dict[str, Any]:
        organize = self.organize
        return {
            "heuristic": organize.heuristic.value,
            "eta": organize.eta,
            "interval_s": round(organize.interval_s, 3),
            "link_price": organize.link_price.value,
            "estimate": organize.estimate.value,
            "damping": organize.damping,
            "operator": self.has_operator,
        }


# What trees cost for publications that a run has seen: CI Eqs. 1 and 2 word for word.
#
# The slow and obvious form, on purpose: it judges brokers that decide by `design.ci.rules`, and
# shares no code with them.


class DeliveryCosts:
    """Prices of all brokers and links."""

    def __init__(
        self, processing: Callable[[BrokerId], float], communication: Callable[[Link], float]
    ) -> None:
        self._processing = processing
        self._communication = communication

    def of_all(self, topology: Topology, interests: Iterable[tuple[BrokerId, ...]]) -> float:
        """cost(N, T): each interest is V(n), the publisher's broker first. Eq. 2."""
        return sum(self.of_one(topology, brokers) for brokers in interests)

    def of_one(self, topology: Topology, brokers: tuple[BrokerId, ...]) -> float:
        """cost(n, T): the brokers and links of the smallest subtree with all of them. Eq. 1."""
        ways = [topology.path(brokers[0], broker) for broker in dict.fromkeys(brokers)]
        passed = {broker for way in ways for broker in way}
        links = {Link.between(*hop) for way in ways for hop in pairwise(way)}
        return sum(self._processing(broker) for broker in sorted(passed)) + sum(
            self._communication(link) for link in sorted(links)
        )
