"""What one broker knows of a Chord ring: who else is on it, as far as it has to know.

All tables of Chord follow from the set of occupants it knows to be alive: its successors are the
next ones clockwise, its predecessor the last one, and finger k is the first one at or after its
position + 2^k. Each is right as soon as the right one is among those known, and whoever crashes
has only to be forgotten. `chord_upkeep` sees to it that the right ones are known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection

from pubweave.design.dynatops.ring import RING_BITS, RING_SIZE
from pubweave.model.ids import BrokerId
from pubweave.model.rendezvous_messages import Occupant


class ChordTable:
    """The ring as seen from ``own``.

    >>> table = ChordTable(Occupant(0, "b0"), successors=2)
    >>> for place in (1 << 30, 1 << 31, 3 << 30):
    ...     table.know(Occupant(place, f"b{place >> 30}"))
    >>> [each.broker for each in table.fingers()], table.predecessor().broker
    (['b1', 'b2'], 'b3')
    >>> table.next_hop((2 << 30) + 5).broker, table.next_hop((3 << 30) + 5)
    ('b2', None)
    """

    def __init__(self, own: Occupant, successors: int) -> None:
        self.own = own
        self.is_leaving = False
        """A broker that leaves is responsible for nothing, as long as there are others."""
        self._successor_count = successors
        self._known: dict[BrokerId, Occupant] = {}
        self._ring: list[Occupant] = []
        """Those known, clockwise from here."""
        self._ahead: list[int] = []
        """How far ahead each of them is; ascending."""
        self._fingers: list[Occupant] = []

    # --- who is known ----------------------------------------------------------------------

    @property
    def known(self) -> list[Occupant]:
        """Clockwise from here, without this broker."""
        return self._ring

    @property
    def brokers(self) -> Collection[BrokerId]:
        """Who is known."""
        return self._known.keys()

    def get(self, broker: BrokerId) -> Occupant | None:
        return self._known.get(broker)

    def know(self, occupant: Occupant) -> None:
        """Somebody is alive, at this position. O(known log known)."""
        if occupant.broker != self.own.broker and self._known.get(occupant.broker) != occupant:
            self._known[occupant.broker] = occupant
            self._sort()

    def forget(self, broker: BrokerId) -> None:
        """Somebody is gone. O(known log known)."""
        if self._known.pop(broker, None) is not None:
            self._sort()

    def move(self, position: int) -> None:
        """This broker takes another position."""
        self.own = Occupant(position, self.own.broker, self.own.address)
        self._sort()

    def _sort(self) -> None:
        self._ring = sorted(self._known.values(), key=lambda o: (self.ahead(o.position), o.broker))
        self._ahead = [self.ahead(occupant.position) for occupant in self._ring]
        places = {bisect_left(self._ahead, 1 << bit) for bit in range(RING_BITS)}
        self._fingers = [self._ring[place] for place in sorted(places) if place < len(self._ring)]

    def ahead(self, place: int) -> int:
        """How far a place of the ring is ahead of this broker."""
        return (place - self.own.position) % RING_SIZE

    # --- Chord's tables --------------------------------------------------------------------

    def successors(self) -> list[Occupant]:
        return self._ring[: self._successor_count]

    def predecessor(self) -> Occupant | None:
        return self._ring[-1] if self._ring else None

    def around(self) -> tuple[Occupant, ...]:
        """What others are told: successors and predecessor."""
        return tuple(dict.fromkeys([*self.successors(), *self._ring[-1:]]))

    def fingers(self) -> list[Occupant]:
        """The different fingers, clockwise; the successor is the first."""
        return self._fingers

    def finger_starts(self) -> list[int]:
        """For each different finger the first place it is meant for: if that place's lookup finds
        the finger, it is right for all."""
        starts: dict[int, int] = {}
        for bit in range(RING_BITS):
            starts.setdefault(bisect_left(self._ahead, 1 << bit), 1 << bit)
        return [(self.own.position + ahead) % RING_SIZE for ahead in starts.values()]

    def needed(self) -> dict[BrokerId, Occupant]:
        """Whom this broker needs links with."""
        chosen = [*self.successors(), *self._ring[-1:], *self.fingers()]
        return {occupant.broker: occupant for occupant in chosen}

    # --- routes ----------------------------------------------------------------------------

    def is_responsible(self, key: int) -> bool:
        """Whether nobody known is at the key's place or between it and here."""
        return self.next_hop(key) is None

    def next_hop(self, key: int) -> Occupant | None:
        """Whom to pass on what is meant for the one responsible for a key; None: it is us. Never
        beyond the key, but for the last hop. O(log known)."""
        if not self._ring:
            return None
        ahead = self.ahead(key)
        if ahead == 0 or self._ahead[-1] < ahead:
            return self._ring[0] if self.is_leaving else None
        place = bisect_right(self._ahead, ahead) - 1
        return self._ring[max(0, place)]

    def next_towards(self, position: int) -> Occupant | None:
        """The finger that goes farthest without passing a position (`design.dynatops.ring`): trees
        are as `pubweave design dynatops` prices them. None: it is ours, or nobody's."""
        ahead = self.ahead(position)
        ways = [finger for finger in self.fingers() if self.ahead(finger.position) <= ahead]
        return ways[-1] if ways else None
