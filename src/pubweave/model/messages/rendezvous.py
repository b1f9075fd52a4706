"""What brokers of a rendezvous overlay tell each other (`core.routing.rendezvous`).

`Chord...` keep the ring, `Tree...` the topics' trees. Each of these belongs to one version of the
control plane: while brokers are remapped to other positions there are two (DYNATOPS section 5.1.2).
How publications are asked for on a link is said as in `messages/topic_connected`.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pubweave.model.ids import BrokerId
from pubweave.model.messages.topic_connected import ENTRY_BYTES

RENDEZVOUS_PROTOCOL = "rendezvous"
"""What neighbors and clients of such an overlay are told that it routes by."""


class Occupant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker at its position on the ring; ``address`` is where it is reached."""

    position: int
    broker: BrokerId
    address: str = ""


class ChordNeighbors(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender and whom it has around it on the ring; it ``asks`` for the same in return.

    ``is_default`` says that publications travel by this version, ``holds`` that the sender was
    mapped to its position, which it does not leave to anybody."""

    version: int
    own: Occupant
    around: tuple[Occupant, ...]
    """Its successors and its predecessor."""
    asks: bool
    is_default: bool
    holds: bool = False

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (3 + 2 * len(self.around))


class ChordLookup(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On its way to the position that is responsible for ``key``, past the brokers of ``way``."""

    version: int
    key: int
    way: tuple[BrokerId, ...]

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (3 + len(self.way))


class ChordFound(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers a lookup, back along its way; ``way`` ends with the receiver."""

    version: int
    key: int
    found: Occupant
    way: tuple[BrokerId, ...]

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (5 + len(self.way))


class ChordLeaving(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender leaves the ring; ``around`` are those it had around it, ``is_default`` whether it
    was its version that counts: whoever stays behind must not stay at an older one."""

    version: int
    around: tuple[Occupant, ...]
    is_default: bool = False

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (1 + 2 * len(self.around))


class TreeJoin(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On its way to the rendezvous of ``topics``: the position ``target`` joins their trees, or
    leaves them. ``hops`` it has made."""

    version: int
    target: int
    topics: tuple[str, ...]
    joins: bool
    hops: int = 0

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (2 + len(self.topics))


class TreePath(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the rendezvous down to ``target``: whoever gets it is on the way of ``topics`` there
    and has the sender above it; or, if the target leaves, no more."""

    version: int
    target: int
    topics: tuple[str, ...]
    joins: bool

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (2 + len(self.topics))


class TreeOffer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender has publications on ``topics`` for their rendezvous, to which the receiver is
    closer; or has them no more."""

    version: int
    topics: tuple[str, ...]
    offers: bool

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (1 + len(self.topics))


class TreeBroken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender has lost whom it had above it in the trees of ``topics``: join again."""

    version: int
    topics: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (1 + len(self.topics))


class TreePlaceEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place in one topic's tree, in positions: they stay when brokers move."""

    topic: str
    above: int | None
    targets: tuple[int, ...]


class TreeTables(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On its way to the broker that takes ``position``: the places it had in the trees under the
    broker before (step 3.1 of DYNATOPS' reconfiguration). Several parts; the last one says so."""

    version: int
    position: int
    places: tuple[TreePlaceEntry, ...]
    is_last: bool

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * sum(3 + len(place.targets) for place in self.places) + ENTRY_BYTES


class LinkUnused(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender has no use for the link, in any version: close it if the receiver has none."""

    size_bytes: ClassVar[int] = ENTRY_BYTES


class RingMember(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``broker`` wants ``topics`` for its clients. It tells its neighbors; if one of those loses
    it, all brokers hear that it is away and for how long. ``number`` is the broker's own: the
    larger one is news, and of two alike the one that says it is away."""

    broker: BrokerId
    number: int
    topics: tuple[str, ...]
    away_s: float | None = None
    """None: it is there."""

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (3 + len(self.topics))


class PlacementTold(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a broker wants for its clients and how many subscriptions these have, for others of its
    placement cluster (DYNATOPS section 4); clients reach it at ``address``, if it ``is_open``."""

    topics: tuple[str, ...]
    subscriptions: int
    address: str
    is_open: bool
    users: tuple[int, ...] = ()
    """By topic, how many subscriptions name it; left away if one does."""
    key: str = ""
    """Whom a token was made for with this was sent there by one of the cluster."""

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (4 + len(self.topics) + len(self.users))


class PlacementDigest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the sender knows of itself and was told by others, on the way to the collector of a
    placement cluster; or of the whole cluster, on the way back. ``is_last`` ends it."""

    told: tuple[tuple[BrokerId, PlacementTold], ...]
    is_last: bool

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES + sum(ENTRY_BYTES + told.size_bytes for _, told in self.told)


ChordMessage = ChordNeighbors | ChordLookup | ChordFound | ChordLeaving
TreeMessage = TreeJoin | TreePath | TreeOffer | TreeBroken | TreeTables
RendezvousMessage = ChordMessage | TreeMessage | LinkUnused | PlacementDigest | RingMember


class TreeStatus(msgspec.Struct, frozen=True):
    """A broker's place in one topic's tree."""

    topic: str
    above: BrokerId | None
    """Whom publications come from; None at the rendezvous, and where nothing comes down."""
    is_rendezvous: bool
    is_subscribed: bool
    """Whether its own clients subscribe to the topic; if not, and it is in the tree, it relays."""
    is_in_tree: bool
    below: tuple[BrokerId, ...]
    """Who wants the topic from here, the way to the rendezvous included."""
    publications_per_s: float = 0.0
    """How many came here lately; at the rendezvous these are all."""


class RendezvousStatus(msgspec.Struct, frozen=True):
    """One broker's place on the ring and in the trees, in the version that counts."""

    version: int
    versions: tuple[int, ...]
    """Those there are: two while brokers are remapped."""
    own: Occupant
    predecessor: Occupant | None
    successors: tuple[Occupant, ...]
    fingers: tuple[Occupant, ...]
    trees: tuple[TreeStatus, ...]
    gateways: tuple[BrokerId, ...] = ()
    """Of clusters that reach the ring through this broker."""
