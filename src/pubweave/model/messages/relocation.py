"""What brokers say to each other, and to a publisher, about where the publisher should be.

POP's and GRAPE's messages by the paper's names. All but the last two are sequenced messages
between neighbors; `ProbeRequest` and `ProbeReply` are between a broker and its client.
`core.relocation` says when each is said.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pubweave.model.ids import BrokerId, ClientId

TRACE_BYTES = 64
"""What a message about a trace is taken to weigh, reports and names aside."""

POP_TRACE = -1
"""`Publication.trace` of one that POP traces; GRAPE's is the first sequence of the session."""


class TraceResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """TRM (POP 3.1): so many subscribers at and behind the sender got a traced publication."""

    publisher: ClientId
    sequence: int
    subscribers: int
    size_bytes: ClassVar[int] = TRACE_BYTES


class RelocationRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """RRM (POP 3.2): ``subscribers`` are behind the link this came over; ``brokers`` are those it
    has passed, the closest first."""

    publisher: ClientId
    subscribers: float
    brokers: tuple[BrokerId, ...]

    @property
    def size_bytes(self) -> int:
        return TRACE_BYTES + 16 * len(self.brokers)


class RelocationAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """RAM (POP 3.2): the first of ``brokers`` is the closest one, the last has the publisher."""

    publisher: ClientId
    brokers: tuple[BrokerId, ...]

    @property
    def size_bytes(self) -> int:
        return TRACE_BYTES + 16 * len(self.brokers)


class TraceInformationRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """TIR (GRAPE 4.1): tell what you know of the session that began with this publication.
    ``with_subscribers``: a `PlacementRound` may follow, keep what it needs."""

    publisher: ClientId
    first_sequence: int
    with_subscribers: bool = False
    size_bytes: ClassVar[int] = TRACE_BYTES


class TraceReport(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One broker's payload of a TIA, the paper's seven figures, and where clients reach it.

    ``output_ms`` has the neighbors: the time in the queue towards each, and on the way to it."""

    broker: BrokerId
    output_ms: tuple[tuple[BrokerId, float], ...]
    bits: bytes
    deliveries: int
    input_ms: float
    matching_ms: float
    client_ms: float
    address: str = ""
    clients: int = 0
    """How many it has; for subscribers, who need room where they go."""

    @property
    def size_bytes(self) -> int:
        return 48 + 18 * len(self.output_ms) + len(self.bits) + len(self.address)


class TraceInformationAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """TIA (GRAPE 4.1): the reports of a broker and all behind it. Not ``is_whole``: some of them
    could not follow all of the session."""

    publisher: ClientId
    first_sequence: int
    reports: tuple[TraceReport, ...]
    is_whole: bool = True

    @property
    def size_bytes(self) -> int:
        return TRACE_BYTES + sum(report.size_bytes for report in self.reports)


class PlacementRound(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Goes round the brokers of a publisher's tree after a trace session whose publisher stays,
    depth first. Each broker places the publisher's subscribers attached to it and writes into the
    ``reports``, the first of which is that of the publisher's broker, what the next ones find.

    The rule is the publisher's: ``priority``, ``weight``, ``least_gain``. With ``is_shown_only``
    nobody moves; brokers keep what they would do for those who ask."""

    publisher: ClientId
    first_sequence: int
    rate_per_s: float
    priority: str
    weight: float
    least_gain: float
    is_shown_only: bool
    reports: tuple[TraceReport, ...]

    @property
    def size_bytes(self) -> int:
        return TRACE_BYTES + sum(report.size_bytes for report in self.reports)


class ProbeRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker asks a client how far brokers are from it; each with its address."""

    number: int
    brokers: tuple[tuple[BrokerId, str], ...]


class ProbeReply(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The client's answer: round trips in ms of those that answered it."""

    number: int
    rtt_ms: tuple[tuple[BrokerId, float], ...]


RelocationMessage = (
    TraceResult
    | RelocationRequest
    | RelocationAnswer
    | TraceInformationRequest
    | TraceInformationAnswer
    | PlacementRound
)
