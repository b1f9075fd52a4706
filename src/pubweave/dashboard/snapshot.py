"""What a dashboard is shown: one overlay at one instant, as frozen values.

Whoever watches the overlay makes snapshots; nothing here knows how. Everything is level, never
edge: a snapshot says how things are, so one that is skipped is no loss. Instants are seconds since
1970. A figure that nobody has measured is None, never 0.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from pubweave.model.decisions import AutopilotStatus, DecisionRecord, DecisionState
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Step
from pubweave.model.records.status import CounterStatus
from pubweave.model.topology import Topology


class Severity(enum.Enum):
    """How much a trouble matters to who looks at the page."""

    NOTE = "note"
    """Something is not there, and nothing is wrong."""
    WARNING = "warning"
    ERROR = "error"


class Alert(msgspec.Struct, frozen=True):
    """Something that keeps the page from being complete, in words."""

    kind: str
    """Names it for programs; one trouble of a kind at a time."""
    severity: Severity
    text: str
    since: float


class BrokerView(msgspec.Struct, frozen=True):
    """A broker at this instant; all rates 0 and ``counters`` None if it is down."""

    id: BrokerId
    is_up: bool
    clients: int = 0
    subscriptions: int = 0
    publications_per_s: float = 0.0
    """Handled, from clients and neighbors."""
    deliveries_per_s: float = 0.0
    queue_bytes: int = 0
    queue_messages: int = 0
    is_congested: bool = False
    uptime_s: float = 0.0
    held_messages: int = 0
    """Kept back for the action it takes part in."""
    counters: CounterStatus | None = None


class LinkView(msgspec.Struct, frozen=True):
    """A link at this instant, both directions together."""

    a: BrokerId
    b: BrokerId
    is_up: bool
    messages_per_s: float = 0.0
    rtt_ms: float | None = None
    queue_messages: int = 0
    queue_bytes: int = 0

    @property
    def link(self) -> Link:
        return Link.between(self.a, self.b)


class LatencyView(msgspec.Struct, frozen=True):
    """From publishing to delivery, of the notifications recorded in the last seconds."""

    deliveries: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


class ActionView(msgspec.Struct, frozen=True):
    """An action of the step under way."""

    text: str
    state: ActionState
    reason: str = ""
    held_messages: int = 0
    waits_for: tuple[BrokerId, ...] = ()


class DeploymentView(msgspec.Struct, frozen=True):
    """The plan that the overlay is walked through, or the last one."""

    id: str
    state: DeploymentState
    steps: tuple[Step, ...]
    steps_done: int
    actions: tuple[ActionView, ...] = ()
    """Of the step under way, in its order; empty if none is."""
    reason: str = ""
    """Why it was given up."""
    purpose: str = ""
    """Why it is done."""
    by: str = ""
    executor: str | None = None
    missing: tuple[BrokerId, ...] = ()

    @property
    def is_in_motion(self) -> bool:
        """It has not ended, though it may rest."""
        return not self.state.is_final

    @property
    def is_under_way(self) -> bool:
        """A step is being taken, or undone."""
        return self.state in (DeploymentState.RUNNING, DeploymentState.ABORTING)


class Snapshot(msgspec.Struct, frozen=True):
    """An overlay at one instant. ``brokers`` and ``links`` are in the order of their ids."""

    taken_at: float
    overlay: str
    strategy: str = ""
    brokers: tuple[BrokerView, ...] = ()
    links: tuple[LinkView, ...] = ()
    latency: LatencyView | None = None
    cost_per_s: float | None = None
    totals: CounterStatus = msgspec.field(default_factory=CounterStatus)
    publications_per_s: float | None = None
    deliveries_per_s: float | None = None
    deployment: DeploymentView | None = None
    decisions: tuple[DecisionRecord, ...] = ()
    """The latest first."""
    autopilot: AutopilotStatus | None = None
    """None if none runs, or nobody knows."""
    troubles: tuple[Alert, ...] = ()

    @property
    def queue_bytes(self) -> int:
        return sum(broker.queue_bytes for broker in self.brokers)

    @property
    def queue_messages(self) -> int:
        return sum(broker.queue_messages for broker in self.brokers)

    @property
    def brokers_up(self) -> int:
        return sum(broker.is_up for broker in self.brokers)

    @property
    def links_up(self) -> int:
        return sum(link.is_up for link in self.links)

    @property
    def waiting(self) -> DecisionRecord | None:
        """The latest decision that waits for a person."""
        return next((d for d in self.decisions if d.state is DecisionState.WAITING), None)


# Where snapshots come from, and who does what a person asks for: two protocols.
#
# The page's server knows only these. An implementation watches a real overlay; tests have one
# that makes overlays up.


Positions = dict[BrokerId, tuple[float, float]]
"""Where brokers are in a picture, each coordinate within [-1, 1]."""
Placer = Callable[[Sequence[Topology], Positions | None], Positions]
"""Finds places that suit all the topologies, near the places given if any are."""


class CommandError(ValueError):
    """What a person asked for cannot be done now; the message says why."""


class SnapshotSource(Protocol):
    """Watches one overlay."""

    async def snapshot(self) -> Snapshot:
        """How things are now. Troubles are in the snapshot; it does not raise for them."""
        ...

    async def wait_for_news(self, limit_s: float) -> None:
        """Until something has happened that is worth a look at once, or the time is over."""
        ...


class Commands(Protocol):
    """What a person with the token can ask for. Each raises CommandError where it cannot be
    done, and returns what was done, in words."""

    async def approve(self, decision: str) -> str: ...

    async def reject(self, decision: str) -> str: ...

    async def pause(self, deployment: str) -> str: ...

    async def abort(self, deployment: str) -> str: ...
