"""What really happened to a deployment in a run: the truth that its outcome is held against.

It hears every accepted write in the order of the store, so it knows each decision when it is
taken: the topology that should be is the source with all committed actions. States that change
off their tables, or without a broker's word, are violations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pubweave.core.vocabulary.effects import ReportAction
from pubweave.deploy.documents import (
    ActionDocument,
    DeploymentDocument,
    Layout,
    TopologyDocument,
    decode,
)
from pubweave.deploy.store import ANY_VERSION, Create, StoreRequest, Write
from pubweave.deploy.topology_state import apply_action
from pubweave.model.deployment import ACTION_CHANGES, DEPLOYMENT_CHANGES, ActionState
from pubweave.model.ids import ActionId, BrokerId, Link
from pubweave.model.plans import Action, Shift
from pubweave.model.topology import Topology
from pubweave.sim.kernel.world import World


@dataclass
class ActionHistory:
    """One action: when it began to run, how it was decided, what its brokers said."""

    id: ActionId
    action: Action
    state: ActionState
    running_at: float = 0.0
    committed_at: float | None = None
    over_at: float | None = None
    reports: dict[BrokerId, ReportAction] = field(default_factory=dict)
    hold_began_at: float = float("inf")
    hold_ended_at: float = 0.0

    @property
    def held_s(self) -> float:
        """The longest hold of one of its brokers."""
        return max((report.held_s for report in self.reports.values()), default=0.0)

    @property
    def held_messages(self) -> int:
        return sum(report.held_messages for report in self.reports.values())

    @property
    def held_links(self) -> tuple[Link, ...]:
        """The links whose traffic it holds."""
        if isinstance(self.action, Shift):
            return (self.action.removed_link, self.action.pivot_link)
        return (Link.between(*self.action.brokers),)


class DeploymentWatch:
    """Hears of everything about plans in one run."""

    def __init__(
        self,
        world: World,
        layout: Layout,
        topology: Topology,
        on_topology: Callable[[Topology], None],
    ) -> None:
        self.violations: list[str] = []
        self.actions: dict[ActionId, ActionHistory] = {}
        self.deployments: dict[str, DeploymentDocument] = {}
        self.running_at: dict[str, float] = {}
        self.over_at: dict[str, float] = {}
        self.topology = topology
        """What should be: the source with every committed action."""
        self.topologies: list[tuple[float, Topology]] = [(0.0, topology)]
        """Each from when on it holds."""
        self._world = world
        self._layout = layout
        self._on_topology = on_topology

    @property
    def deployment(self) -> DeploymentDocument | None:
        """The current one."""
        return next(reversed(self.deployments.values()), None)

    def first_plan_s(self) -> float:
        """How long the first plan took, from the moment its actions were laid out."""
        name = next(iter(self.over_at), None)
        return 0.0 if name is None else round(self.over_at[name] - self.running_at[name], 4)

    def changed(self, request: StoreRequest) -> None:
        """A write was accepted."""
        assert isinstance(request, Create | Write)
        path = request.path
        if path == self._layout.plan:
            self._refuse_blind(request)
            self._on_deployment(decode(request.data, DeploymentDocument, path))
        elif path == self._layout.topology:
            self._refuse_blind(request)
            self._on_stored_topology(decode(request.data, TopologyDocument, path))
        elif path.startswith(self._layout.plans + "/"):
            id_ = path.removeprefix(self._layout.plans + "/")
            if id_.count("/") == 2:
                self._refuse_blind(request)
                self._on_action(id_, decode(request.data, ActionDocument, path))

    def reported(self, broker: BrokerId, report: ReportAction) -> None:
        """A broker says that its part of an action is over."""
        history = self.actions[report.action_id]
        is_committed = history.committed_at is not None
        if report.done != is_committed:
            self._complain(f"{broker} reports {report} but {history.id} is {history.state.value}")
        history.reports[broker] = report
        if report.held_s:
            now = self._world.now
            history.hold_began_at = min(history.hold_began_at, now - report.held_s)
            history.hold_ended_at = max(history.hold_ended_at, now)

    def _complain(self, text: str) -> None:
        self.violations.append(f"{self._world.now:.3f} {text}")

    def _refuse_blind(self, request: Create | Write) -> None:
        if isinstance(request, Write) and request.version == ANY_VERSION:
            self._complain(f"a blind write to {request.path}")

    def _on_deployment(self, document: DeploymentDocument) -> None:
        name = document.deployment
        before = self.deployments.get(name)
        if before is None:
            self.deployments[name] = document
            return
        if (
            document.state is not before.state
            and document.state not in DEPLOYMENT_CHANGES[before.state]
        ):
            self._complain(f"deployment {name}: {before.state.value} to {document.state.value}")
        if document.steps_done not in (before.steps_done, before.steps_done + 1):
            self._complain(f"deployment {name}: steps {before.steps_done}, {document.steps_done}")
        self.deployments[name] = document
        self.running_at.setdefault(name, self._world.now)
        if document.state.is_final:
            self.over_at[name] = self._world.now

    def _on_action(self, id_: ActionId, document: ActionDocument) -> None:
        now = self._world.now
        history = self.actions.get(id_)
        if history is None:
            self.actions[id_] = ActionHistory(id_, document.action(), document.state)
            return
        if document.state not in ACTION_CHANGES[history.state]:
            self._complain(f"{id_}: {history.state.value} to {document.state.value}")
        history.state = document.state
        if document.state is ActionState.RUNNING:
            history.running_at = now
        elif document.state is ActionState.COMMITTED:
            history.committed_at = now
            self.topology = apply_action(self.topology, history.action)
            self.topologies.append((now, self.topology))
            self._on_topology(self.topology)
        elif document.state is ActionState.DONE or document.state is ActionState.ABORTED:
            history.over_at = now
        self._world.note("store", f"{id_} {history.action} {document.state.value} by {document.by}")

    def _on_stored_topology(self, document: TopologyDocument) -> None:
        if document.topology() != self.topology:
            self._complain("the stored topology is not the source with what was committed")
        if not self.topology.is_tree:
            self._complain("the stored topology is no tree")
