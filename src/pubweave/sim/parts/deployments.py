"""Plans on a simulated overlay: the store, the agents of all brokers, executors, and who watches.

Agents and executors are the real ones, behind lines to the memory store; `DeploymentWatch` knows
what really happened, and `Deliveries` what it cost. Nothing is broken here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.deploy.commands import create_topology, resume, submit
from pubweave.deploy.documents import Layout
from pubweave.deploy.executor import ExecutorConfig
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId
from pubweave.model.plans import Detach, Plan
from pubweave.model.publications import Publication
from pubweave.sim.checkers.deployment import DeploymentWatch
from pubweave.sim.hosts.deployment import SimAgent, SimExecutor
from pubweave.sim.kernel.nodes import SimClient
from pubweave.sim.kernel.store_links import SimStore
from pubweave.sim.overlays.base import SimOverlay
from pubweave.sim.parts.plan_costs import Deliveries, measure

OVERLAY = "sim"


class SimDeployments:
    """All about plans in one run."""

    def __init__(
        self, overlay: SimOverlay, *, store_s: tuple[float, float], session_limit_s: float
    ) -> None:
        self.overlay = overlay
        self.world = overlay.world
        self.tally: Counter[str] = Counter()
        self.layout = Layout(OVERLAY)
        self.store = SimStore(self.world, latency_s=store_s, session_limit_s=session_limit_s)
        self.watch = DeploymentWatch(
            self.world, self.layout, overlay.topology, overlay.set_topology
        )
        self.store.run(create_topology(self.layout, overlay.topology))
        self.store.on_change = self.watch.changed
        self.deliveries = Deliveries()
        overlay.on_delivery = self._on_delivery
        self.agents = {
            name: SimAgent(self.store, node, OVERLAY, on_report=self.watch.reported)
            for name, node in overlay.brokers.items()
        }
        self.executors: list[SimExecutor] = []
        self.leaving: Collection[BrokerId] = ()
        """Brokers that the current plan takes out."""

    def _on_delivery(self, client: SimClient, publication: Publication) -> None:
        home = self.overlay.homes[publication.publisher]
        self.deliveries.add((publication.published_at, self.world.now, home, client.home.name))

    @property
    def is_over(self) -> bool:
        """Whether the current plan has come to an end."""
        deployment = self.watch.deployment
        return deployment is not None and deployment.state.is_final

    def submit(self, plan: Plan, pause_after: int | None = None) -> None:
        """Hand a plan over, as an operator does."""
        self.leaving = {a.broker for a in plan.actions() if isinstance(a, Detach)}
        record = PlanRecord(plan, source_hash=topology_hash(self.watch.topology))
        self.store.run(submit(self.layout, record, pause_after))

    def start_executor(self) -> None:
        self.tally["executors"] += 1
        name = f"e{self.tally['executors']}"
        config = ExecutorConfig(
            OVERLAY, name, step_timeout_s=20.0, missing_grace_s=6.0, retry_s=0.2
        )
        self.executors.append(SimExecutor(self.store, config))

    def operate(self) -> None:
        """What an operator does: goes on after a pause, and starts an executor if none lives."""
        deployment = self.watch.deployment
        if deployment is not None and deployment.state is DeploymentState.PAUSED:
            self.tally["pauses"] += 1
            self.store.run(resume(self.layout))
        self.executors = [executor for executor in self.executors if executor.is_alive]
        if not self.executors:
            self.start_executor()

    def dismiss_executors(self) -> None:
        for executor in self.executors:
            executor.crash()
        self.executors.clear()

    def unheard(self) -> list[BrokerId]:
        """Agents that do not know yet what is in the store, or whose brokers still open a link for
        an action that has been given up: a line to the store may come back late."""
        return [name for name in self.agents if not self._has_heard_all(name)]

    def _has_heard_all(self, name: BrokerId) -> bool:
        node = self.overlay.brokers.get(name)
        actions = None if node is None or node.core is None else node.core.part(ActionCoordinator)
        return self.agents[name].is_ready and not (actions is not None and actions.expecting())

    def wrong_end(self, target: object, *, is_calm: bool) -> Iterable[str]:
        """A plan is done and the target reached, or aborted for a reason: what else it is."""
        deployment = self.watch.deployment
        assert deployment is not None
        if not deployment.state.is_final:
            yield f"the plan never ends: {deployment}"
        elif deployment.state is DeploymentState.DONE:
            self.tally["plans_done"] += 1
            if self.watch.topology != target:
                yield "the plan is done but its target was not reached"
        else:
            self.tally["plans_aborted"] += 1
            if is_calm:
                yield f"the plan was aborted without a fault: {deployment.reason}"
        if not self.watch.topology.is_tree:
            yield "the topology is no tree any more"

    def wrong_links(self) -> Iterable[str]:
        """At rest: brokers that have other links than the topology says."""
        for name, neighbors in self.overlay.topology.neighbors.items():
            linked = tuple(sorted(self.overlay.brokers[name].broker.sessions.links))
            if linked != tuple(sorted(neighbors)):
                yield f"{name} has links to {linked}, not to {neighbors}"

    def counts(self) -> dict[str, int]:
        actions = list(self.watch.actions.values())
        committed = [action for action in actions if action.committed_at is not None]
        kinds = Counter(f"{type(action.action).__name__.lower()}_committed" for action in committed)
        return {
            **dict(sorted(self.tally.items())),
            "actions_committed": len(committed),
            **kinds,
            "actions_aborted": sum(action.state.value == "aborted" for action in actions),
            "held_publications": sum(action.held_messages for action in actions),
            "store_requests": self.store.requests,
        }

    def measures(self) -> dict[str, float]:
        return measure(self.watch, self.deliveries)
