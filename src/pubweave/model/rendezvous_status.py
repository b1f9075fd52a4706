"""What a broker of a rendezvous overlay tells about itself: the answer to ``Query("topics")``."""

from __future__ import annotations

import msgspec

from pubweave.model.ids import BrokerId
from pubweave.model.rendezvous_messages import Occupant


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
