"""What brokers and clients say to each other over a connection.

Two kinds. *Sequenced* messages are the traffic, and among it what brokers say to each other about
an action they carry out or about the overlay they organize: a session numbers them by counting,
acknowledges them and sends them again after a dropped connection. *Session* messages (`Hello`,
`Login`, `Ack`, `Ping`, `Pong`, `Goodbye`, `Disconnect`, `Query`, `Answer`) keep that going, are not
counted and may get lost with a connection.
"""

from __future__ import annotations

import enum
from typing import ClassVar

import msgspec

from pubweave.model.filters.filter import Filter
from pubweave.model.ids import ActionId, AdvertisementId, BrokerId, ClientId, SubscriptionId
from pubweave.model.messages.migration import MigrationMessage, Redirect, RedirectReply
from pubweave.model.messages.relocation import ProbeReply, ProbeRequest, RelocationMessage
from pubweave.model.messages.rendezvous import RendezvousMessage
from pubweave.model.messages.topic_connected import TopicMessage
from pubweave.model.publications import Publication

PROTOCOL_VERSION = 2
TABLE_MESSAGE_BYTES = 128
"""What a table message is taken to weigh in a session's window."""
LEAVING_SUBJECT = "broker"
"""The subject of a `Refused` by which a broker that leaves the overlay tells clients to move."""


class _Weighed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A sequenced message that is no publication: it weighs the same whatever it says."""

    size_bytes: ClassVar[int] = TABLE_MESSAGE_BYTES


class Advertise(_Weighed, frozen=True, array_like=True, gc=False):
    """Publications matching ``filter`` may come from where this came from."""

    id: AdvertisementId
    filter: Filter


class Unadvertise(_Weighed, frozen=True, array_like=True, gc=False):
    """Takes an advertisement back."""

    id: AdvertisementId


class Subscribe(_Weighed, frozen=True, array_like=True, gc=False):
    """Publications matching ``filter`` are wanted where this came from."""

    id: SubscriptionId
    filter: Filter


class Unsubscribe(_Weighed, frozen=True, array_like=True, gc=False):
    """Takes a subscription back."""

    id: SubscriptionId


class SyncStage(enum.Enum):
    """What a side has finished telling after a session began anew."""

    ADVERTISEMENTS = "advertisements"
    SUBSCRIPTIONS = "subscriptions"
    PART = "part"
    """A part of the subscriptions; SUBSCRIPTIONS follows when the others are known."""
    COMPLETE = "complete"
    """The advertisements of all brokers that are reached through the sender."""


class Synced(_Weighed, frozen=True, array_like=True, gc=False):
    """All entries of a stage have been sent; what is left from before is stale."""

    stage: SyncStage


class Refused(_Weighed, frozen=True, array_like=True, gc=False):
    """A broker tells a client that something it sent was not accepted, and why."""

    subject: str
    reason: str


class Missed(_Weighed, frozen=True, array_like=True, gc=False):
    """A broker tells a client that so many publications, which it subscribes to, are lost to it;
    ``at_most``: the number is a bound. What comes next of the publisher on the topic comes after
    them. ``through``: the sequence of the last of them, if the client may have got them elsewhere;
    0: it has not."""

    topic: str
    publisher: ClientId
    count: int
    at_most: bool
    through: int = 0

    def beyond(self, seen: int) -> Missed | None:
        """What a client misses of it that has got the publisher's up to a sequence."""
        if self.through and seen >= self.through:
            return None
        if not (self.through and seen):
            return self
        count = min(self.count, self.through - seen)
        return Missed(self.topic, self.publisher, count, self.at_most, self.through)


class Confirmed(_Weighed, frozen=True, array_like=True, gc=False):
    """A broker tells a client that from now on everything reaches it that these subscriptions
    want: they are in place wherever it may be published."""

    ids: tuple[SubscriptionId, ...]


class ConfirmRequest(_Weighed, frozen=True, array_like=True, gc=False):
    """Asks a neighbor whether a subscription, or one that covers it, is in place from there on
    towards all publishers. It follows the subscription; ``number`` is the asker's."""

    id: SubscriptionId
    filter: Filter
    number: int


class ConfirmReply(_Weighed, frozen=True, array_like=True, gc=False):
    """It is in place: the answer to the request of this number."""

    number: int


class Signal(enum.Enum):
    """What one broker of an action tells another; `core.transformation.shift` says when."""

    RESERVED = "reserved"
    """The sender takes part and is in no other action."""
    LINKED = "linked"
    """The new link carries messages both ways."""
    BUSY = "busy"
    """The sender cannot take part now, but may later."""
    REFUSED = "refused"
    """The sender cannot take part at all."""
    QUIET = "quiet"
    """The receiver is to hold what would go over the affected links."""
    MARKER = "marker"
    """The last frame on this link before the decision."""
    READY = "ready"
    """The sender has all it needs to switch."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """The decision; what follows on this link is said under it."""


class ActionKind(enum.Enum):
    """The kind of an action whose brokers a message names."""

    SHIFT = "shift"
    APPEND = "append"
    DETACH = "detach"


class ActionReserve(_Weighed, frozen=True, array_like=True, gc=False):
    """Asks a broker to take part in an action; ``brokers`` in the order of its definition."""

    action_id: ActionId
    kind: ActionKind
    brokers: tuple[BrokerId, ...]
    attempt: int = 1


class ActionSignal(_Weighed, frozen=True, array_like=True, gc=False):
    """One of the closed set of things that brokers of an action tell each other."""

    action_id: ActionId
    signal: Signal
    attempt: int = 0
    reason: str = ""


class ShiftTables(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Entries that the new peer of a shift needs, from the old peer; several parts, the last one
    says so. `core.transformation.shift_tables` says what each field is for."""

    action_id: ActionId
    from_mover: tuple[tuple[SubscriptionId, Filter], ...]
    from_old_peer: tuple[tuple[SubscriptionId, Filter], ...]
    known_to_mover: tuple[tuple[SubscriptionId, Filter], ...]
    advertised_by_mover: tuple[AdvertisementId, ...]
    is_last: bool

    @property
    def size_bytes(self) -> int:
        entries = len(self.from_mover) + len(self.from_old_peer) + len(self.known_to_mover)
        return TABLE_MESSAGE_BYTES * (1 + entries + len(self.advertised_by_mover) // 8)


class InterestBroadcast(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a broker's clients were interested in during one window, as a Bloom filter, on its way
    through the neighborhood (CI section 4.3.1).

    ``brokers`` are those it has passed, its origin first, each with its processing cost; between
    them the communication costs of the links and the common interest of their ends. Where rings
    are priced by sides it tells of the way alone: ``bits`` is 0, and there is no filter. Its
    origin takes part in no exchange for about ``busy_s``, and has just agreed to one that saves
    ``gain``."""

    window: int
    hops_left: int
    brokers: tuple[BrokerId, ...]
    processing: tuple[float, ...]
    link_costs: tuple[float, ...]
    link_commons: tuple[float, ...]
    bits: int
    hashes: int
    filter: bytes
    busy_s: float = 0.0
    gain: float = 0.0

    @property
    def size_bytes(self) -> int:
        return TABLE_MESSAGE_BYTES + len(self.filter) + 32 * len(self.brokers)


class ExchangeRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first broker of a ring asks the last one for a link, on the way that they have now (CI
    section 4.3.2). ``link_costs`` of the ring, the new link last.

    ``rule`` says what the brokers that have been asked so far have added: ``costs``, what the
    removal of each link would leave them to pay; or their ``sides`` of the ``slices`` up to
    ``last_slice``, one filter of ``bits`` bits each (`core.self_organizing`)."""

    request_id: str
    rule: str
    brokers: tuple[BrokerId, ...]
    processing: tuple[float, ...]
    link_costs: tuple[float, ...]
    costs: tuple[float, ...] = ()
    last_slice: int = 0
    slices: int = 0
    bits: int = 0
    sides: tuple[bytes, ...] = ()

    @property
    def size_bytes(self) -> int:
        return TABLE_MESSAGE_BYTES + 56 * len(self.brokers) + sum(map(len, self.sides))


class Verdict(enum.Enum):
    """What became of a request; all but AGREED are its end."""

    BUSY = "busy"
    """A broker of the ring cannot take part now."""
    DECLINED = "declined"
    """It would not pay, or somebody knows too little to tell."""
    AGREED = "agreed"
    """The exchange was handed over to be carried out."""
    DONE = "done"
    FAILED = "failed"
    """It was agreed, but could not be carried out, or only in part."""


class ExchangeReply(_Weighed, frozen=True, array_like=True, gc=False):
    """Goes back to whoever asked, and lets the brokers on the way go. ``removed`` is the number
    of the ring's link that went, if it is known. BUSY says who is, and in how
    many seconds that broker expects to be free."""

    request_id: str
    verdict: Verdict
    reason: str = ""
    removed: int = -1
    by: BrokerId = ""
    free_in_s: float = 0.0


class Role(enum.Enum):
    """Who is at the far end of a session."""

    BROKER = "broker"
    CLIENT = "client"


class Hello(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first message of each side on a new connection.

    ``epoch`` is this side's incarnation, ``remote_epoch`` the incarnation of the other side whose
    session it would continue (0: none), ``received`` how many sequenced messages of that session
    it has taken in. Both sides continue exactly if each names the other's incarnation.
    ``last_sequence`` tells a client the last publication of it that the broker knows of.
    ``routing`` is the routing protocol a broker speaks; neighbors must speak the same.
    ``attempt`` counts the connections a side has dialed, so that a Hello that was long under way
    does not take the place of a newer one. ``can_move`` says that a client understands `Redirect`;
    ``token`` is that of the redirection that brought it here.
    """

    version: int
    role: Role
    id: str
    epoch: int
    remote_epoch: int
    received: int
    window_bytes: int
    last_sequence: int = 0
    routing: str = ""
    attempt: int = 0
    can_move: bool = False
    token: str = ""


class Login(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Said by a client before Hello, where a password proves who it is. Only ever over TLS, or
    within one machine."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r}, ...)"


class Ack(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first ``received`` sequenced messages of this session were taken in.

    Withheld while the receiver is congested: the sender's window is the back-pressure.
    """

    received: int


class Ping(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Asks for a `Pong`; ``sent_at`` comes back unchanged."""

    sent_at: float


class Pong(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers a `Ping` after everything that came before it was handled."""

    sent_at: float


class Goodbye(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client leaves for good: its session is over. Only its application can want that."""

    reason: str


class Disconnect(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender ends this connection and says why; the session waits for the next one."""

    reason: str


class Query(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Asks a broker about itself; ``subject`` is one of the closed set in
    `model.records.status`."""

    number: int
    subject: str


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers the `Query` of the same number with a JSON document."""

    number: int
    document: bytes


TableMessage = Advertise | Unadvertise | Subscribe | Unsubscribe
ActionMessage = ActionReserve | ActionSignal | ShiftTables
OrganizeMessage = InterestBroadcast | ExchangeRequest | ExchangeReply
ConfirmMessage = ConfirmRequest | ConfirmReply
SequencedMessage = (
    TableMessage
    | Synced
    | Refused
    | Missed
    | Confirmed
    | ConfirmMessage
    | ActionMessage
    | OrganizeMessage
    | MigrationMessage
    | RelocationMessage
    | TopicMessage
    | RendezvousMessage
    | Publication
)
SessionMessage = (
    Hello
    | Login
    | Ack
    | Ping
    | Pong
    | Goodbye
    | Disconnect
    | Query
    | Answer
    | Redirect
    | RedirectReply
    | ProbeRequest
    | ProbeReply
)
Message = SequencedMessage | SessionMessage
