"""Brokers that organize their overlay themselves, while everything fails.

Nobody has a plan: brokers tell their neighborhoods what they are interested in, ask for links,
agree, and have exchanges carried out through the store, several at once. In some runs an operator
applies plans meanwhile. At the end of each round brokers are told to leave the overlay as it is;
then it must be the tree of what was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.core.self_organizing.organizer import Organizer
from pubweave.deploy.commands import DeploymentError
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.model.deployment import DeploymentState
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.hosts.deployment import SimExecutor
from pubweave.sim.hosts.organizer import SimOrganizerHost
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.plans import END_LIMIT_S, PlansUnderFaults
from pubweave.sim.parts.run import SimPart, SimRun

QUIET_END_S = 2.0
"""Nothing fails in the last part of a round: what it costs then is compared."""
CALM_S = 2.0
"""If nothing was under way for so long, nothing will be."""
OPERATOR_EVERY_S = 3.0


class Organizing(SimPart):
    """A host beside every broker; `organize` is a round."""

    def __init__(self, run: SimRun, plans: PlansUnderFaults, setting: ReorganizeSetting) -> None:
        self.run = run
        self.world = run.world
        self.setting = setting
        self._plans = plans
        self._deployments = deployments = plans.deployments
        self._watch = plans.watch
        plans.restarts_executors = False  # whoever hosts one that died starts another one
        self.hosts = {
            name: SimOrganizerHost(
                deployments.store,
                node,
                deployments.layout,
                setting.organize,
                self._rtt_s,
                self._on_executor,
            )
            for name, node in run.overlay.brokers.items()
        }
        self._source = run.overlay.topology
        self._measured_from = 0.0
        self._operators: list[SimExecutor] = []

    def _rtt_s(self, one: BrokerId, other: BrokerId) -> float | None:
        node = self.run.overlay.brokers[one]
        assert node.find_path is not None
        path, far = node.find_path(one, other)
        return 2 * path.latency_s if far.is_up() else None

    # --- life ------------------------------------------------------------------------------

    def start(self) -> None:
        self.pause(True)

    def pause(self, is_paused: bool) -> None:
        for host in self.hosts.values():
            host.pause(is_paused)

    def organize(self) -> None:
        """Let brokers do as they like for a while, under faults but for the end of it."""
        world, faults = self.world, self.run.faults
        self.pause(False)
        end = world.now + self.setting.round_s
        self._plans.strike_control(end - QUIET_END_S)
        next_plan_at = world.now + world.uniform(1.0, OPERATOR_EVERY_S)
        self._measured_from = end - QUIET_END_S
        while world.now < end:
            self.run.be_active()
            if world.now >= self._measured_from:
                faults.heal()
            self.pause(False)  # brokers that were restarted meanwhile do not know
            if self.setting.has_operator and world.now >= next_plan_at:
                next_plan_at = world.now + OPERATOR_EVERY_S
                self._apply_plan()
            self._operate()
        faults.heal()
        self.pause(True)
        self._await_ends(world.now + END_LIMIT_S)

    def _await_ends(self, limit: float) -> None:
        """What was agreed before is carried out to its end; brokers that have agreed may be about
        to begin it."""
        calm_since = self.world.now
        while self.world.now < min(limit, calm_since + CALM_S):
            self.run.faults.heal()
            self.pause(True)
            self.world.run_until(self.world.now + 0.5)
            self._operate()
            if self._is_under_way():
                calm_since = self.world.now
        if self._is_under_way():
            self.run.violate(f"a change of the overlay never ends: {self._watch.deployment}")
        if not self._watch.topology.is_tree:
            self.run.violate("the topology is no tree any more")

    def _is_under_way(self) -> bool:
        is_running = self._watch.deployment is not None and not self._deployments.is_over
        return is_running or any(host.is_executing for host in self.hosts.values())

    def crashed(self, broker: SimBroker) -> None:
        self.hosts[broker.name].crashed()

    # --- the operator ----------------------------------------------------------------------

    def _apply_plan(self) -> None:
        """Hand over a plan, if nothing else is under way: that is what the operator is told."""
        try:
            self._deployments.submit(self._plans.draw())
        except DeploymentError:
            self._plans.tally["plans_refused"] += 1
        else:
            self._plans.tally["plans_submitted"] += 1

    def _operate(self) -> None:
        """An executor of the operator lives as long as a plan of the operator does."""
        deployment = self._watch.deployment
        is_ours = deployment is not None and not deployment.by and not deployment.state.is_final
        self._operators = [executor for executor in self._operators if executor.is_alive]
        if is_ours and not self._operators:
            self._deployments.start_executor()
            self._operators.append(self._deployments.executors[-1])
        elif not is_ours:
            for executor in self._operators:
                executor.leave()
            self._operators.clear()

    def _on_executor(self, executor: SimExecutor) -> None:
        deployments = self._deployments
        deployments.tally["executors"] += 1
        living = [e for e in deployments.executors if e.is_alive]
        deployments.executors = [*living, executor]

    # --- outcome ---------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        return self.setting.describe()

    def counts(self) -> dict[str, int]:
        cores = [node.core for node in self.run.overlay.brokers.values() if node.core is not None]
        organizers = [core.part(Organizer) for core in cores]
        statuses = [organizer.counted() for organizer in organizers if organizer is not None]
        names = ("proposed", "busy", "declined", "agreed", "done", "failed", "broadcasts_dropped")
        organized = [d for d in self._watch.deployments.values() if d.by]
        return {
            **{name: sum(getattr(status, name) for status in statuses) for name in names},
            "organize_bytes": sum(status.bytes_out for status in statuses),
            "exchanges": len(organized),
            "exchanges_done": sum(d.state is DeploymentState.DONE for d in organized),
        }

    def measures(self) -> dict[str, float]:
        """What the last publications cost on the tree at the beginning and on that at the end."""
        organize = self.setting.organize
        is_hops = organize.link_price is LinkPrice.HOPS
        processing = organize.broker_price
        if processing is None:
            processing = 1.0 if is_hops else 1000.0 * self.run.setting.handling.per_match_s

        def communication(link: Link) -> float:
            rtt_s = self._rtt_s(*link)
            return 1.0 if is_hops else 500.0 * (rtt_s or 0.0)

        costs = DeliveryCosts(lambda broker: processing, communication)
        homes = self.run.overlay.homes
        interests = [
            (homes[publication.publisher], *(homes[client] for client in clients))
            for publication, clients in self.run.overlay.judge.receivers(self._measured_from)
        ]
        before = costs.of_all(self._source, interests)
        after = costs.of_all(self._watch.topology, interests)
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
