"""The scenario `transform`: plans are carried out on a random overlay while everything fails.

Real executors and agents, the memory store behind lines that break, the real broker core. Clients
do all they can do; some are steady (`SteadyScenario`). A plan ends in its target or, aborted, in
the tree of what was committed; then every broker has exactly the links of that tree, and tables
that equal the truth.

With crashed brokers, what only they held is lost and counted; so is what the clients of a crashed
broker were sending and about to receive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.deploy.commands import abort, create_topology, resume, submit
from pubweave.deploy.executor import ExecutorConfig
from pubweave.deploy.layout import Layout
from pubweave.deploy.topology_state import apply_actions
from pubweave.generate.topologies.latencies import LATENCY_RANGE_MS, Matrix
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Detach, Plan
from pubweave.model.publications import Publication
from pubweave.sim.checkers.deployment import DeploymentWatch
from pubweave.sim.hosts.deployment import SimAgent, SimExecutor
from pubweave.sim.kernel.faults import Faults
from pubweave.sim.kernel.nodes import SimBroker, SimClient
from pubweave.sim.kernel.random_content import random_filter
from pubweave.sim.kernel.random_plans import PlanDraw, one_by_one
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.store_links import SimStore
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.scenarios.crash_losses import Ends, Holdings
from pubweave.sim.scenarios.routing import REST_LIMIT_S, RoutingScenario, RoutingSetting
from pubweave.sim.scenarios.transform_measures import (
    FAULTS,
    Deliveries,
    TransformSetting,
    describe,
    draw_fault,
    draw_routing,
    measure,
)

# Scenarios with steady clients among those that come and go.
#
# What a steady client asked for stands from beginning to end, so what a steady publisher publishes
# is due to every steady subscriber that wants it, whatever the overlay is going through; unless the
# subscriber's broker crashed since all was last at rest.


BUSY_S = 0.03
"""A client that has to move looks so often whether all it said has arrived."""


class SteadyScenario(RoutingScenario):
    """A run with clients that stay put, on a topology that changes under them."""

    def __init__(self, seed: int, **options: Any) -> None:
        """As `RoutingScenario`."""
        self._steady: list[str] = []
        self._crashed: set[BrokerId] = set()
        """Since the last rest."""
        super().__init__(seed, **options)
        self.overlay.on_told_to_move = self._move_client

    def _join_steady(
        self, name: str, *, publishes: bool = True, subscribes: bool = True, can_move: bool = True
    ) -> None:
        world = self.world
        home, latency_s = world.choice(self.homes()), world.uniform(0.0005, 0.005)
        client = self.overlay.join(
            name, home, latency_s=latency_s, limits=self.setting.limits, can_move=can_move
        )
        self._steady.append(name)
        if publishes:
            client.core.advertise(random_filter(world))
        for _ in range(world.integer(1, 3) if subscribes else 0):
            self.overlay.subscribe(client, self.draw_filter())
        client.flush()

    def always_due(self, publisher: SimClient) -> Collection[str]:
        clients, crashed = self.overlay.clients, self._crashed
        if publisher.name not in self._steady:
            return ()
        return [name for name in self._steady if clients[name].home.name not in crashed]

    def _client(self) -> SimClient | None:
        """One of those that come and go."""
        names = [name for name in self.overlay.clients if name not in self._steady]
        return self.overlay.clients[self.world.choice(names)] if names else None

    def _move_client(self, client: SimClient) -> None:
        """Its broker leaves: it says goodbye there when all is said, and somebody joins anew."""
        if self.overlay.clients.get(client.name) is not client:
            return
        session = client.core.session
        if session.is_established and session.queue_messages:
            self.world.after(BUSY_S, self._move_client, client)
        else:
            self.overlay.leave(client.name)
            # Also one that was to stay: it had moved to a broker that a plan takes out since.
            self._steady = [name for name in self._steady if name != client.name]
            self._join()


OVERLAY = "sim"
UNDER_FAULTS_S = 15.0
"""Faults strike a plan for so long at most; then it has to come to its end."""
END_LIMIT_S = 180.0


class _MeasuredOverlay(TreeOverlay):
    """Notes when each delivery was made."""

    deliveries: Deliveries | None = None

    def _on_notification(self, client: SimClient, publication: Publication) -> None:
        super()._on_notification(client, publication)
        if self.deliveries is not None:
            home = self.homes[publication.publisher]
            self.deliveries.add((publication.published_at, self.world.now, home, client.home.name))


class TransformScenario(SteadyScenario):
    """One run. ``fault`` is one of FAULTS or None (drawn from the seed); ``serial`` carries the
    same plans out one action at a time."""

    name = "transform"
    overlay_type: type[_MeasuredOverlay] = _MeasuredOverlay
    overlay: _MeasuredOverlay

    def __init__(
        self,
        seed: int,
        *,
        fault: str | None = None,
        serial: bool = False,
        max_brokers: int = 60,
        rtt: Matrix | None = None,
        **options: Any,
    ) -> None:
        if fault is not None and fault not in FAULTS:
            raise ValueError(f"unknown fault {fault!r}: choose one of {', '.join(FAULTS)}")
        self._fault = fault
        self._serial = serial
        self._max_brokers = max_brokers
        self._rtt = rtt
        self._leaving: set[BrokerId] = set()
        self.tally: Counter[str] = Counter()
        super().__init__(seed, max_brokers=max_brokers, rtt=rtt, **options)
        transform = self.transform
        self.layout = Layout(OVERLAY)
        self.store = SimStore(
            self.world, latency_s=transform.store_s, session_limit_s=transform.session_limit_s
        )
        self.watch = DeploymentWatch(
            self.world, self.layout, self.overlay.topology, self.overlay.set_topology
        )
        self.store.run(create_topology(self.layout, self.overlay.topology))
        self.store.on_change = self.watch.changed
        self.deliveries = self.overlay.deliveries = Deliveries()
        self.agents = {
            name: SimAgent(self.store, node, OVERLAY, on_report=self.watch.reported)
            for name, node in self.overlay.brokers.items()
        }
        self.executors: list[SimExecutor] = []
        self.faults = Faults(
            self.world,
            self.setting.faults,
            list(self.overlay.brokers.values()),
            self.overlay.paths,
            on_crash=self._on_broker_crash,
        )

    def draw_setting(self, max_brokers: int, rtt: Matrix | None) -> RoutingSetting:
        fault = draw_fault(self.world)
        if self._fault is not None:
            fault = self._fault
        self.transform = TransformSetting.draw(self.world, fault)
        return draw_routing(self.world, fault, max_brokers, rtt)

    def spare_brokers(self) -> Collection[BrokerId]:
        return [f"x{number}" for number in range(self.transform.spare_brokers)]

    def homes(self) -> list[BrokerId]:
        return [name for name in self.overlay.topology.neighbors if name not in self._leaving]

    def latency_s(self, link: Link) -> float:
        return self.world.uniform(*LATENCY_RANGE_MS) / 1000.0

    def _config(self, broker: BrokerId) -> BrokerConfig:
        return replace(
            super()._config(broker), hold_limit_s=3.0, action_limit_s=8.0, clients_leave_s=3.0
        )

    # --- life ------------------------------------------------------------------------------

    def run(self) -> RunResult:
        for number in range(self.transform.steady_clients):
            self._join_steady(f"steady{number}")
        for _ in range(self.setting.clients):
            self._join()
        if self._come_to_rest():
            for _ in range(self.transform.plans):
                self._carry_out(self._draw_plan())
                if not self._come_to_rest():
                    break
                self._burst()
        return self._result()

    def _draw_plan(self) -> Plan:
        transform = self.transform
        draw = PlanDraw(
            self.world,
            disjoint=transform.disjoint,
            spare=self.spare_brokers(),
            stay={self.overlay.clients[name].home.name for name in self._steady},
            changes_brokers=transform.spare_brokers > 0,
        )
        plan = draw.plan(self.watch.topology, steps=transform.steps, actions=transform.actions)
        return one_by_one(plan) if self._serial else plan

    def _carry_out(self, plan: Plan) -> None:
        """Hand a plan over and let the world go on until it has come to its end."""
        world = self.world
        source = self.watch.topology
        self._leaving = {a.broker for a in plan.actions() if isinstance(a, Detach)}
        record = PlanRecord(plan, source_hash=topology_hash(source))
        pause_after = 1 if self.transform.pauses else None
        self.store.run(submit(self.layout, record, pause_after))
        for _ in range(self.transform.executors):
            self._start_executor()
        self._end_faults_at = world.now + UNDER_FAULTS_S
        self._strike_control()
        if self.transform.abort_after_s is not None:
            world.after(self.transform.abort_after_s, self._lose_patience)
        limit = world.now + UNDER_FAULTS_S + END_LIMIT_S
        while not self._is_over() and world.now < limit:
            if world.now < self._end_faults_at:
                self._be_active()
            else:
                self.faults.heal()
                world.run_until(world.now + 0.5)
            self._operate()
        self._check_end(plan, apply_actions(source, plan.actions()))

    def _is_over(self) -> bool:
        deployment = self.watch.deployment
        return deployment is not None and deployment.state.is_final

    def _operate(self) -> None:
        """What an operator does: goes on after a pause, and starts an executor if none lives."""
        deployment = self.watch.deployment
        if deployment is not None and deployment.state is DeploymentState.PAUSED:
            self.tally["pauses"] += 1
            self.store.run(resume(self.layout))
        self.executors = [executor for executor in self.executors if executor.is_alive]
        if not self.executors:
            self._start_executor()

    def _lose_patience(self) -> None:
        if not self._is_over():
            self.tally["aborts_asked"] += 1
            self.store.run(abort(self.layout, "the operator lost patience"))

    def _start_executor(self) -> None:
        self.tally["executors"] += 1
        name = f"e{self.tally['executors']}"
        config = ExecutorConfig(
            OVERLAY, name, step_timeout_s=20.0, missing_grace_s=6.0, retry_s=0.2
        )
        self.executors.append(SimExecutor(self.store, config))

    # --- faults ----------------------------------------------------------------------------

    def _strike_control(self) -> None:
        """Executors crash and lines to the store break, at random moments."""
        world = self.world
        for rate, fault in (
            (self.transform.executor_crash_per_s, self._crash_executor),
            (self.transform.line_break_per_s, self._break_line),
        ):
            for _ in range(int(world.rng.poisson(rate * UNDER_FAULTS_S))):
                world.at(world.uniform(world.now, self._end_faults_at), fault)

    def _crash_executor(self) -> None:
        living = [executor for executor in self.executors if executor.is_alive]
        if living and not self._is_over():
            self.tally["executor_crash"] += 1
            executor = self.world.choice(living)
            self.world.note("fault", f"executor_crash {executor.config.name}")
            executor.crash()
            self.world.after(self.world.uniform(0.05, 3.0), self._start_executor_again)

    def _start_executor_again(self) -> None:
        if not self._is_over():
            self._start_executor()

    def _break_line(self) -> None:
        lines = [agent.line for agent in self.agents.values() if agent.line is not None]
        lines += [executor.line for executor in self.executors if executor.is_alive]
        if lines and not self._is_over():
            self.tally["store_line_break"] += 1
            lasts_s = self.world.uniform(0.02, 0.5) if self.world.chance(0.6) else 4.0
            self.world.choice(lines).interrupt(lasts_s, arrives=self.world.chance(0.5))

    def _on_broker_crash(self, node: SimBroker) -> None:
        self.agents[node.name].crashed()
        if self.is_durable:
            return
        self._crashed.add(node.name)
        holdings = Holdings(self.overlay, node, self.ends())
        for publication, client in self.overlay.checker.undelivered():
            if not holdings.is_safe(publication, client):
                self.tally["lost_with_broker"] += 1
                self.overlay.checker.excuse_one(publication, client)

    def ends(self) -> Ends | None:
        """Between which brokers publications are under way at this instant, where clients move."""
        return None

    # --- checks ----------------------------------------------------------------------------

    def _check_end(self, plan: Plan, target: object) -> None:
        """A plan is done and the target reached, or aborted for a reason."""
        deployment = self.watch.deployment
        assert deployment is not None
        if not deployment.state.is_final:
            self._violate(f"the plan never ends: {deployment}")
        elif deployment.state is DeploymentState.DONE:
            self.tally["plans_done"] += 1
            if self.watch.topology != target:
                self._violate("the plan is done but its target was not reached")
        else:
            self.tally["plans_aborted"] += 1
            is_calm = self.transform.fault == "none" and not self.is_durable
            is_calm = is_calm and self.faults.long_pause_s is None
            if is_calm and self.transform.abort_after_s is None:
                self._violate(f"the plan was aborted without a fault: {deployment.reason}")
        if not self.watch.topology.is_tree:
            self._violate("the topology is no tree any more")

    def _has_heard_all(self, name: str) -> bool:
        """Whether an agent knows what is in the store, and its broker opens no link any more for an
        action that has been given up: its line to the store may come back late."""
        node = self.overlay.brokers.get(name)
        actions = None if node is None or node.core is None else node.core.actions
        return self.agents[name].is_ready and not (actions is not None and actions.expecting())

    def _come_to_rest(self) -> bool:
        for executor in self.executors:
            executor.crash()
        self.executors.clear()
        self.faults.heal()
        until = self.world.now + REST_LIMIT_S
        while waiting := [name for name in self.agents if not self._has_heard_all(name)]:
            if self.world.now >= until:
                self._violate(f"agents never get ready: {waiting[:5]}")
                return False
            self.world.run_until(self.world.now + 0.25)
        if not super()._come_to_rest():
            return False
        for name, neighbors in self.overlay.topology.neighbors.items():
            linked = tuple(sorted(self.overlay.brokers[name].broker.sessions.links))
            if linked != tuple(sorted(neighbors)):
                self._violate(f"{name} has links to {linked}, not to {neighbors}")
        self._crashed.clear()
        self._leaving.clear()
        return True

    def _result(self) -> RunResult:
        result = super()._result()
        actions = list(self.watch.actions.values())
        committed = [action for action in actions if action.committed_at is not None]
        return replace(
            result,
            violations=(*result.violations, *self.watch.violations),
            setting=describe(self.setting, self.transform),
            counts={
                **result.counts,
                **dict(sorted(self.tally.items())),
                "actions_committed": len(committed),
                **Counter(
                    f"{type(action.action).__name__.lower()}_committed" for action in committed
                ),
                "actions_aborted": sum(action.state.value == "aborted" for action in actions),
                "held_publications": sum(action.held_messages for action in actions),
                "store_requests": self.store.requests,
            },
            measures={**measure(self.watch, self.deliveries), **self._compared()},
        )

    def _compared(self) -> dict[str, float]:
        """How long the first plan took, and how long one action at a time: only where nothing
        disturbed it."""
        transform = self.transform
        is_calm = transform.fault == "none" and not self.is_durable
        if not is_calm or transform.pauses or transform.abort_after_s is not None:
            return {}
        first_s = self.watch.first_plan_s()
        if self._serial:
            return {"first_plan_s": first_s}
        twin = TransformScenario(
            self.world.seed, fault="none", serial=True, max_brokers=self._max_brokers, rtt=self._rtt
        )
        twin.transform = replace(twin.transform, plans=1)
        twin.run()
        return {"first_plan_s": first_s, "first_plan_serial_s": twin.watch.first_plan_s()}
