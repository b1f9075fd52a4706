"""What a broker tells about itself when asked: the answer to ``Query("status")``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import add, sub

import msgspec

from pubweave.model.messages.topic_connected import BrokerRecord

STATUS_SUBJECT = "status"
RELOCATE_SUBJECT = "relocate"
"""Followed by a space and a `RelocateRequest` as JSON."""


class RelocateRequest(msgspec.Struct, frozen=True):
    """Asks the broker that a client is attached to to move it to another one."""

    client: str
    destination: str


RELOCATION_SUBJECT = "relocation"
"""Alone, or followed by a space and a `TraceRequest` as JSON; answered by `PublishersStatus`."""


class TraceRequest(msgspec.Struct, frozen=True):
    """Asks a broker to trace its publishers once, by GRAPE, and to move none of them."""

    priority: str
    weight: float
    publications: int = 100
    least_gain: float = 0.0
    """What a move has to promise, as a share."""
    subscribers: bool = False
    """Whether their subscribers are to be placed, too."""


class SessionStatus(msgspec.Struct, frozen=True):
    """One session of a broker, with a neighbor or a client."""

    remote: str
    state: str
    queue_messages: int
    queue_bytes: int
    received: int
    rtt_ms: float | None
    is_congested: bool


def _counted(meaning: str, unit: str, *, in_loads: bool = False) -> int:
    """Declares a counter; ``in_loads``: broker load samples of telemetry have it too."""
    metadata = {"meaning": meaning, "unit": unit, "in_loads": in_loads}
    return field(default=0, metadata=metadata)


@dataclass(slots=True)
class CounterStatus:
    """What a broker has counted since it started, or in some time.

    The one table of its counters: status, metrics, load samples and totals walk these fields. All
    are Prometheus metrics."""

    messages_in: int = _counted("sequenced messages received", "messages", in_loads=True)
    messages_out: int = _counted("sequenced messages sent", "messages", in_loads=True)
    publications_in: int = _counted(
        "of the messages in, publications", "publications", in_loads=True
    )
    publications_accepted: int = _counted(
        "of these, from attached clients", "publications", in_loads=True
    )
    deliveries: int = _counted(
        "of the messages out, notifications to clients", "notifications", in_loads=True
    )
    bytes_in: int = _counted("size of the messages in", "bytes", in_loads=True)
    bytes_out: int = _counted("size of the messages out", "bytes", in_loads=True)
    duplicates_dropped: int = _counted(
        "came again and went no further", "publications", in_loads=True
    )
    refused: int = _counted("of clients, not accepted", "messages", in_loads=True)
    protocol_errors: int = _counted("closed for what came over them", "connections", in_loads=True)
    clients_expired: int = _counted("given up", "clients", in_loads=True)
    notifications_lost: int = _counted(
        "for clients that were given up, which they will not get", "notifications", in_loads=True
    )
    notifications_lost_at_most: int = _counted(
        "that may be lost besides; an upper bound", "notifications"
    )
    records_dropped: int = _counted("of telemetry, given up", "records")
    holds: int = _counted("that others were held up for a congested session", "times")
    publications_lost_at_most: int = _counted(
        "that may be lost to some clients at least; an upper bound", "publications"
    )
    notifications_left: int = _counted(
        "that waited for clients when these left on purpose", "notifications"
    )
    publisher_waits_over: int = _counted(
        "that publishers waited too long for the tree to answer an advertisement", "times"
    )

    def __add__(self, other: CounterStatus) -> CounterStatus:
        return self._combined(add, other)

    def __sub__(self, other: CounterStatus) -> CounterStatus:
        return self._combined(sub, other)

    def _combined(
        self, operation: Callable[[int, int], int], other: CounterStatus
    ) -> CounterStatus:
        return CounterStatus(
            *(operation(getattr(self, f.name), getattr(other, f.name)) for f in COUNTERS)
        )

    @property
    def lost_in_words(self) -> str:
        """
        >>> CounterStatus(notifications_lost=3, publications_lost_at_most=7).lost_in_words
        '3 lost and at most 7 more'
        """
        more = self.notifications_lost_at_most + self.publications_lost_at_most
        return f"{self.notifications_lost:,} lost" + (f" and at most {more:,} more" if more else "")


COUNTERS = fields(CounterStatus)


class RateStatus(msgspec.Struct, frozen=True):
    """Counters per second over the last load window."""

    window_s: float = 0.0
    publications_in_per_s: float = 0.0
    publications_accepted_per_s: float = 0.0
    deliveries_per_s: float = 0.0
    messages_out_per_s: float = 0.0


class BrokerActionStatus(msgspec.Struct, frozen=True):
    """The action of a plan that a broker takes part in."""

    id: str
    action: str
    phase: str
    held_messages: int
    held_bytes: int
    seconds: float


class OrganizeStatus(msgspec.Struct, frozen=True):
    """A broker's part in a self-organizing overlay, since it started. Summed over all brokers,
    no request is counted twice: who asked counts it until it is agreed, who agreed from there."""

    heuristic: str
    eta: int
    interval_s: float
    known_brokers: int
    """How many brokers of the neighborhood it knows now."""
    proposed: int
    busy: int
    declined: int
    agreed: int
    done: int
    failed: int
    messages_out: int
    bytes_out: int
    broadcasts_dropped: int
    windows_overflowed: int = 0
    """How many windows had more publications than there is room to note; rings of this broker
    were not priced by them."""


class MoveStatus(msgspec.Struct, frozen=True):
    """A client's move away from a broker that ended."""

    client: str
    destination: str
    outcome: str
    reason: str
    hops: int
    paused_ms: float
    """How long nothing of the client was taken in."""


class MigrationStatus(msgspec.Struct, frozen=True):
    """The migrations of clients: those that began at a broker, and its part in them and others."""

    begun: int = 0
    done: int = 0
    refused: int = 0
    busy: int = 0
    failed: int = 0
    under_way: int = 0
    messages_out: int = 0
    seeks_out: int = 0
    """Messages that looked for the way to a destination; they reach every broker."""
    last: str = ""
    """How the last one that began here ended, in words."""
    last_hops: int = 0
    last_paused_ms: float = 0.0
    """How long its client was paused here."""
    hops: int = 0
    """Of all that were done, added up; likewise the pauses of their clients."""
    paused_ms: float = 0.0
    longest_paused_ms: float = 0.0


class CandidateStatus(msgspec.Struct, frozen=True):
    """A broker that a publisher could be at; `design.relocation.rules.Candidate`."""

    broker: str
    delay_ms: float
    message_rate: int
    normalized: float
    kept: bool


class SelectionStatus(msgspec.Struct, frozen=True):
    """Where a publisher should be, as its broker decided last, and by what rule: ``pop``, or
    GRAPE's ``load100``. POP looks at no candidates but neighbors."""

    publisher: str
    rule: str
    publisher_at: str
    choice: str
    reason: str
    at: float
    has_pings: bool = False
    candidates: tuple[CandidateStatus, ...] = ()


class RelocationStatus(msgspec.Struct, frozen=True):
    """A broker's part in relocating publishers, since it started."""

    mode: str
    preference: str
    decided: int
    deciding_s: float
    """From the last traced publication to the decision, pings included, over all decisions."""
    moves: int
    given_up: int
    """Traces that came to nothing, because answers were late or the tree changed."""
    without_pings: int
    """Decisions for which the publisher told no ping times: all were taken as 0."""
    messages_out: int
    bytes_out: int
    memory_bytes: int
    rounds: int = 0
    """Placement rounds of subscribers that began here."""
    subscriber_moves: int = 0


class PublishersStatus(msgspec.Struct, frozen=True):
    """A broker's publishers, and where each should be as far as that has been decided."""

    relocation: RelocationStatus
    publishers: tuple[str, ...]
    selections: tuple[SelectionStatus, ...]
    subscribers: tuple[SelectionStatus, ...] = ()
    """The same for attached subscribers; each stands where a publisher does."""
    moves: tuple[MoveStatus, ...] = ()
    """The last that ended of those that began here."""


TOPICS_SUBJECT = "topics"
"""Answered by `TopicsStatus` where brokers route by topic."""


class TopicsStatus(msgspec.Struct, frozen=True):
    """A broker's map of a topic-connected overlay, and its part in keeping it so."""

    topics: tuple[str, ...]
    """Those that it takes part in."""
    records: tuple[BrokerRecord, ...]
    """Of all brokers that it takes for alive."""
    gone: tuple[str, ...]
    broken: tuple[str, ...]
    """Topics that are in pieces as far as it knows."""
    repairs: int
    """Links that it opened."""
    widened: int
    """How often it had to look beyond a shadow set."""
    gateway: str | None = None
    """The overlay's gateway to a ring; None: it has none, or is cut off."""


class JournalStatus(msgspec.Struct, frozen=True):
    """The journal of a broker: what waits for the disk, and why it does."""

    problem: str = ""
    """Why the disk takes nothing: nobody gets an acknowledgement so long. Empty: it does."""
    problem_s: float = 0.0
    waiting_bytes: int = 0
    journal_bytes: int = 0
    """Since the last snapshot; what a restart would have to go through."""
    snapshots: int = 0
    recovered_events: int = 0
    recovery_s: float = 0.0


class AccessStatus(msgspec.Struct, frozen=True):
    """How a broker is secured, its limits, and whom it turned away since it started."""

    tls: bool
    rules: bool
    anonymous: bool
    """Whether clients need not prove who they are."""
    limits: dict[str, int | float]
    refused: dict[str, int]
    """By limit or right (`core.session.admission.Rejection`)."""


class MqttStatus(msgspec.Struct, frozen=True):
    """A broker's door for MQTT clients."""

    connections: int
    sessions: int
    waiting: int
    """QoS 1 and 2 publications that wait for their clients."""
    dropped: int
    """Those that were lost with sessions which got more than they may keep, or were lost."""
    qos0_dropped: int
    """QoS 0 publications for clients that did not read fast enough."""
    retained: int
    redirected: int
    overrun: int = 0
    """Sessions that were ended because more came for them than they may keep."""
    echoes: int = 0
    """Publications that bridges brought back, which were taken no further."""
    too_large: int = 0
    """Publications that were refused because of their size."""
    lost: int = 0
    """Sessions that were to last and ended with the broker's part in the overlay, or because it
    let their clients go."""
    gaps: int = 0
    """Gaps in what sessions were sent, of which no broker had told; with QoS 1 or 2 they ended."""
    unconfirmed: int = 0
    """Subscribes that were answered before everything they want was sure to come."""
    copies: int = 0
    """Publications that were published again for wildcards, where brokers route by topics."""
    loops: int = 0
    """How often a client of this broker was noticed to bring back what a bridge was sent."""
    loops_refused: int = 0
    """How often a bridge was disconnected for it."""
    loop: str = ""
    """The last of these in words, with both bridges and the cure; empty: none lately."""


class BrokerStatus(msgspec.Struct, frozen=True):
    """A broker at one instant."""

    broker: str
    strategy: str
    uptime_s: float
    subscriptions: int
    advertisements: int
    forwarded: int
    links: tuple[SessionStatus, ...]
    client_count: int
    clients: tuple[SessionStatus, ...]
    """At most the first hundred, the most queued first."""
    queue_bytes: int
    counters: CounterStatus
    rates: RateStatus
    action: BrokerActionStatus | None = None
    organizing: OrganizeStatus | None = None
    relocation: RelocationStatus | None = None
    migrations: MigrationStatus | None = None
    journal: JournalStatus | None = None
    """None: all that the broker has is in memory, and a crash takes it along."""
    access: AccessStatus | None = None
    mqtt: MqttStatus | None = None
    """None: the broker lets no MQTT clients in."""
