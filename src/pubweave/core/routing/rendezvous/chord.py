"""Chord as a protocol: join, stabilise, fingers, lookups, leave; one version of one broker's ring.

A broker that knows any other one joins by looking itself up there; so do two rings that were apart
and have a link again. From then on it compares notes with its successor and predecessor, and looks
its fingers up. Everything is said again and again, so nothing is waited for, and a message that is
lost with a crash costs a round. Who is gone is told by links (`topic_connected/link_monitor`):
hearsay does not bring back whom we have lost, only its own word does.

A round costs O(1) messages for the neighbors and O(log^2 n) for the fingers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable

from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.design.dynatops.mapping.ring import RING_BITS, RING_SIZE
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import (
    ChordFound,
    ChordLeaving,
    ChordLookup,
    ChordMessage,
    ChordNeighbors,
    Occupant,
)
from pubweave.model.messages.session import SequencedMessage

MAX_HOPS = 40
"""A message that has made more was caught in a ring that is not in order yet."""

SendToBroker = Callable[[BrokerId, SequencedMessage], None]
"""Send a message to a neighbor; it is dropped if there is no session with it."""


class ChordMaintenance:
    """``send`` sends to a neighbor, ``is_lost`` says whom we have lost, ``linked`` whom we have a
    standing link with."""

    def __init__(
        self,
        version: int,
        table: ChordTable,
        config: RendezvousConfig,
        send: SendToBroker,
        is_lost: Callable[[BrokerId], bool],
        linked: Callable[[], Iterable[BrokerId]],
    ) -> None:
        self.version = version
        self.table = table
        self.is_default = True
        self._config = config
        self._send = send
        self._is_lost = is_lost
        self._linked = linked
        self.holds = False
        """Whether the position was given to us; if not, another one there may make us move."""
        self.met: set[BrokerId] = set()
        """Neighbors that have told us themselves where they are."""
        self._leaving: set[BrokerId] = set()
        self._stabilize_at = 0.0
        self._fingers_at = 0.0
        self._turns = 0
        self._seen: tuple[BrokerId, ...] = ()

    # --- what is said ----------------------------------------------------------------------

    def greet(self, neighbor: BrokerId, *, asks: bool = True) -> None:
        """Tell a neighbor who we are and whom we have around us; or that we leave."""
        version, table = self.version, self.table
        if table.is_leaving:
            self._send(neighbor, ChordLeaving(version, table.around(), self.is_default))
        else:
            flags = asks, self.is_default, self.holds
            self._send(neighbor, ChordNeighbors(version, table.own, table.around(), *flags))

    def leave(self) -> None:
        """Tell everybody that this broker is not to be counted on any more."""
        self.table.is_leaving = True
        for neighbor in self._linked():
            self.greet(neighbor)

    def look_up(self, key: int, through: BrokerId | None = None) -> None:
        """Find out who is responsible for a key; what is found is known from then on."""
        hop = self.table.next_hop(key) if through is None else None
        first = hop.broker if hop is not None else through
        if first is not None:
            self._send(first, ChordLookup(self.version, key, (self.table.own.broker,)))

    # --- what is heard ---------------------------------------------------------------------

    def receive(self, sender: BrokerId, message: ChordMessage) -> None:
        match message:
            case ChordNeighbors(_, own, around, asks):
                self._leaving.discard(sender)
                self.met.add(sender)
                self._meet(own, message.holds)
                self._receive(around)
                if asks:
                    self.greet(sender, asks=False)
            case ChordLookup(version, key, way):
                hop = self.table.next_hop(key)
                if hop is None:
                    self._send(sender, ChordFound(version, key, self.table.own, way))
                elif len(way) < MAX_HOPS:
                    self._send(hop.broker, ChordLookup(version, key, (*way, self.table.own.broker)))
            case ChordFound(version, key, found, way):
                if len(way) > 1:
                    self._send(way[-2], ChordFound(version, key, found, way[:-1]))
                self._receive((found,))
            case ChordLeaving(_, around):
                self._leaving.add(sender)
                self.table.discard(sender)
                self._receive(around)

    def _meet(self, occupant: Occupant, holds: bool) -> None:
        """A broker says itself where it is; of two at one position the one that was not given it
        gives way, or the larger id."""
        own = self.table.own
        is_taken = occupant.position == own.position and not self.holds
        if is_taken and (holds or occupant.broker < own.broker):
            self.move((own.position + 1) % RING_SIZE)
        self.table.know(occupant)

    def move(self, position: int) -> None:
        """Take another position. All neighbors are told: of its place each believes only the
        broker itself, and most of them it does not compare notes with."""
        self.table.move(position)
        for neighbor in self._linked():
            self.greet(neighbor, asks=False)

    def _receive(self, occupants: Iterable[Occupant]) -> None:
        for occupant in occupants:
            broker = occupant.broker
            if (
                broker != self.table.own.broker
                and self.table.get(broker) is None
                and broker not in self._leaving
                and not self._is_lost(broker)
            ):
                self.table.know(occupant)

    def lost(self, broker: BrokerId) -> None:
        """A link is lost: its far end counts as crashed until it says something."""
        self._leaving.discard(broker)
        self.met.discard(broker)
        self.table.discard(broker)

    def excuse(self) -> None:
        """This broker did not run: others may have closed the ring without it."""
        self._stabilize_at = self._fingers_at = 0.0

    # --- by the clock ----------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Compare notes and look fingers up, when it is time; at once after a change."""
        self._trim()
        around = tuple(occupant.broker for occupant in self.table.around())
        if self.table.is_leaving or (now < self._stabilize_at and around == self._seen):
            return
        has_changed, self._seen = around != self._seen, around
        self._stabilize_at = now + self._config.stabilize_every_s
        for neighbor in dict.fromkeys([*around[:1], *around[-1:]]):
            self.greet(neighbor)
        self._find_others()
        if has_changed or now >= self._fingers_at:
            self._fingers_at = now + self._config.fingers_every_s
            for start in self.table.finger_starts():
                self.look_up(start)

    def _find_others(self) -> None:
        """Look ourselves up through one neighbor after the other: whoever is in another ring, or
        lets us in, names a successor that we did not know. Each hears where we are, too: its link
        may have been down when we took this position."""
        linked = sorted(self._linked())
        if linked:
            self._turns += 1
            through = linked[self._turns % len(linked)]
            self.greet(through, asks=False)
            self.look_up((self.table.own.position + 1) % RING_SIZE, through)

    def _trim(self) -> None:
        """Forget who is neither needed nor linked: nobody would tell us that it is gone."""
        kept = {*self.table.needed(), *self._linked()}
        for occupant in list(self.table.known):
            if occupant.broker not in kept:
                self.table.discard(occupant.broker)


# What one broker knows of a Chord ring: who else is on it, as far as it has to know.
#
# All tables of Chord follow from the set of occupants it knows to be alive: its successors are
# the next ones clockwise, its predecessor the last one, and finger k is the first one at or after
# its position + 2^k. Each is right as soon as the right one is among those known, and whoever
# crashes has only to be forgotten. `ChordMaintenance` sees to it that the right ones are known.


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

    def discard(self, broker: BrokerId) -> None:
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
        """The finger that goes farthest without passing a position
        (`design.dynatops.mapping.ring`): trees are as `pubweave design dynatops` prices them. None:
        it is ours, or nobody's."""
        ahead = self.ahead(position)
        ways = [finger for finger in self.fingers() if self.ahead(finger.position) <= ahead]
        return ways[-1] if ways else None
