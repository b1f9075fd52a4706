"""The topics' trees of one version of the control plane, as far as they concern one broker.

A broker whose clients subscribe to a topic says so to the topic's rendezvous, hop by hop along
the ring (`TreeJoin`). From there a `TreePath` comes down along the fingers; whoever it passes is
in the tree and has the one it came from above it. So the tree is the union of the greedy routes
from the rendezvous to the subscribers, as in DYNATOPS section 3, and joining costs O(log n)
messages each way. A broker with publications on a topic offers them to the next hop towards the
rendezvous (`TreeOffer`), which wants them, and offers them in turn.

All of it is soft state: said again now and then, at once where something broke, and over when it
is not said any more. What follows from it is `wanted_from`: of whom this broker wants a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.routing.rendezvous.chord import MAX_HOPS, ChordTable, SendToBroker
from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import (
    TreeBroken,
    TreeJoin,
    TreeMessage,
    TreeOffer,
    TreePath,
    TreePlaceEntry,
    TreeTables,
)

PLACES_PER_MESSAGE = 256


@dataclass
class TreePlace:
    """A broker's place in one topic's tree. Instants are those until which something holds."""

    key: int
    targets: dict[int, float] = field(default_factory=dict)
    """Positions that subscribe and are reached through here, or are here."""
    sources: dict[BrokerId, float] = field(default_factory=dict)
    """Brokers that offer publications for the rendezvous."""
    above: BrokerId | None = None
    """Whom the tree comes from; None at the rendezvous."""
    is_root: bool = False
    is_broken: bool = False
    """Whoever is above was lost, and no path has come since."""
    offered_to: BrokerId | None = None
    offer_at: float = 0.0
    """When to offer again."""
    join_at: float = 0.0
    """When to join again."""
    is_joined: bool = False
    """A path for this broker itself has come since it asked last."""
    asked: bool = False
    """Whether this broker itself has joined, for its clients."""

    @property
    def is_empty(self) -> bool:
        return not (self.targets or self.sources or self.asked)


class TopicTrees:
    """``send`` sends to a neighbor; ``has_asked`` says whether a neighbor wants a topic of us,
    ``askers`` which neighbors do."""

    def __init__(
        self,
        version: int,
        table: ChordTable,
        config: RendezvousConfig,
        send: SendToBroker,
        askers: Callable[[str], list[BrokerId]],
    ) -> None:
        self.version = version
        self.places: dict[str, TreePlace] = {}
        self._table = table
        self._config = config
        self._send = send
        self._askers = askers
        self.mapped: dict[int, BrokerId] = {}
        """Who was mapped to each position; a broker knows only a few of them by itself."""
        self.has_tables = False
        """Whether the places of this broker's position have come from whoever had it before."""

    def wanted_from(self, topic: str) -> set[BrokerId]:
        """Of whom this broker wants a topic: those who offer it, and whoever is above it."""
        place = self.places.get(topic)
        if place is None:
            return set()
        above = {place.above} if place.above is not None and place.targets else set()
        return {*place.sources, *above}

    def _place(self, topic: str) -> TreePlace:
        place = self.places.get(topic)
        if place is None:
            place = self.places[topic] = TreePlace(key_of(topic))
        return place

    # --- what is heard ---------------------------------------------------------------------

    def receive(self, sender: BrokerId, message: TreeMessage, now: float) -> None:
        match message:
            case TreeJoin(_, target, topics, joins, hops):
                self._pass_on(target, topics, joins, hops, now)
            case TreePath(_, target, topics, joins):
                self._take_path(sender, target, topics, joins, now)
            case TreeOffer(_, topics, offers):
                for topic in topics:
                    if offers:
                        until = now + self._config.expire_after_s
                        self._place(topic).sources[sender] = until
                    elif topic in self.places:
                        self.places[topic].sources.pop(sender, None)
            case TreeTables():
                self._take_tables(message, now)
            case TreeBroken(_, topics):
                broken = [t for t in topics if self._is_above(sender, t)]
                self._break(broken, now)

    def _is_above(self, broker: BrokerId, topic: str) -> bool:
        place = self.places.get(topic)
        return place is not None and place.above == broker and not place.is_broken

    def _pass_on(
        self, target: int, topics: Iterable[str], joins: bool, hops: int, now: float
    ) -> None:
        """Bring a join, or a leave, closer to the rendezvous of each topic."""
        here: list[str] = []
        onward: dict[BrokerId, list[str]] = {}
        for topic in topics:
            place = self.places.get(topic)
            key = key_of(topic) if place is None else place.key
            hop = self._table.next_hop(key)
            if hop is None:
                here.append(topic)
            else:
                onward.setdefault(hop.broker, []).append(topic)
        if here:
            self._take_path(None, target, tuple(here), joins, now)
        if hops < MAX_HOPS:
            for broker, some in onward.items():
                self._send(broker, TreeJoin(self.version, target, tuple(some), joins, hops + 1))

    def _take_path(
        self,
        above: BrokerId | None,
        target: int,
        topics: tuple[str, ...],
        joins: bool,
        now: float,
    ) -> None:
        """A path to ``target`` comes by, from ``above`` or from here, its rendezvous."""
        is_own = target == self._table.own.position
        for topic in topics:
            if not joins:
                if topic in self.places:
                    self.places[topic].targets.pop(target, None)
                continue
            place = self._place(topic)
            place.targets[target] = now + self._config.expire_after_s
            place.above, place.is_root = above, above is None
            place.is_broken = False
            if is_own:
                place.is_joined = True
                place.join_at = now + self._config.refresh_s
        hop = None if is_own else self._table.next_towards(target)
        if hop is not None:
            self._send(hop.broker, TreePath(self.version, target, topics, joins))

    def lost(self, broker: BrokerId, now: float) -> None:
        """A neighbor is gone: what came from it is over, what went to it goes elsewhere."""
        broken = [topic for topic in self.places if self._is_above(broker, topic)]
        for place in self.places.values():
            place.sources.pop(broker, None)
            if place.offered_to == broker:
                place.offered_to = None
                place.offer_at = now
        self._break(broken, now)

    def _break(self, topics: list[str], now: float) -> None:
        """Who is below may have to join on another way."""
        below: dict[BrokerId, list[str]] = {}
        for topic in topics:
            place = self.places[topic]
            place.is_broken, place.is_joined = True, False
            place.join_at = now
            for broker in self._askers(topic):
                if broker != place.offered_to:
                    below.setdefault(broker, []).append(topic)
        for broker, some in below.items():
            self._send(broker, TreeBroken(self.version, tuple(some)))

    # --- what is handed over ---------------------------------------------------------------

    def entries(self) -> list[TreePlaceEntry]:
        """This broker's places in the trees, in positions. O(places)."""
        table, found = self._table, []
        for topic, place in self.places.items():
            above = table.get(place.above) if place.above is not None else None
            if place.targets and (place.is_root or above is not None):
                position = None if place.is_root or above is None else above.position
                found.append(TreePlaceEntry(topic, position, tuple(place.targets)))
        return found

    def hand_over(self, position: int, entries: list[TreePlaceEntry], now: float) -> None:
        """Bring places to whoever has a position now, which may be here."""
        parts = range(0, max(1, len(entries)), PLACES_PER_MESSAGE)
        for start in parts:
            some = tuple(entries[start : start + PLACES_PER_MESSAGE])
            self._take_tables(TreeTables(self.version, position, some, start == parts[-1]), now)

    def _take_tables(self, tables: TreeTables, now: float) -> None:
        if tables.position != self._table.own.position:
            hop = self._table.next_towards(tables.position)
            if hop is not None:
                self._send(hop.broker, tables)
            return
        until = now + self._config.expire_after_s
        for entry in tables.places:
            place = self._place(entry.topic)
            place.targets.update(dict.fromkeys(entry.targets, until))
            place.above = None if entry.above is None else self.mapped.get(entry.above)
            place.is_root = entry.above is None
        self.has_tables = self.has_tables or tables.is_last

    def compare(self, subscribed: Collection[str], now: float) -> None:
        """Step 3.2: what the position is in the trees for, and this broker is not, is left; the
        rest has been joined already. `check` does the joins that are missing."""
        own = self._table.own.position
        for topic, place in self.places.items():
            place.targets = dict.fromkeys(place.targets, now + self._config.expire_after_s)
            if own in place.targets:
                place.asked = True
                place.is_joined = topic in subscribed and (place.is_root or place.above is not None)
                place.join_at = now + self._config.refresh_s if place.is_joined else now

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: what held holds as much longer, and all is said
        again at once."""
        for place in self.places.values():
            place.targets = {target: until + seconds for target, until in place.targets.items()}
            place.sources = {source: until + seconds for source, until in place.sources.items()}
            place.join_at = place.offer_at = 0.0

    # --- by the clock ----------------------------------------------------------------------

    def check(self, now: float, subscribed: Collection[str], offered: Collection[str]) -> None:
        """Say again what has to be said. O(topics)."""
        self._expire(now)
        self._hand_on(now)
        self._join(now, subscribed)
        self._offer(now, offered)
        for topic in [topic for topic, place in self.places.items() if place.is_empty]:
            if topic not in offered:
                del self.places[topic]

    def _expire(self, now: float) -> None:
        for place in self.places.values():
            for entries in (place.targets, place.sources):
                for name in [name for name, until in entries.items() if until < now]:
                    del entries[name]  # type: ignore[arg-type]

    def _hand_on(self, now: float) -> None:
        """Somebody else is the rendezvous now: it hears of all who have joined here."""
        for topic, place in self.places.items():
            if place.is_root and not self._table.is_responsible(place.key):
                place.is_root = False
                place.join_at = now
                soon = now + 4 * self._config.retry_s
                for target, until in place.targets.items():
                    self._pass_on(target, (topic,), True, 0, now)
                    place.targets[target] = min(until, soon)

    def _join(self, now: float, subscribed: Collection[str]) -> None:
        own = self._table.own.position
        joining, leaving = [], []
        for topic in subscribed:
            place = self._place(topic)
            place.asked = True
            if now >= place.join_at:
                joining.append(topic)
                place.is_joined = False
                place.join_at = now + self._config.retry_s
        for topic, place in self.places.items():
            if place.asked and topic not in subscribed:
                place.asked = place.is_joined = False
                place.join_at = 0.0
                leaving.append(topic)
        if joining:
            self._pass_on(own, joining, True, 0, now)
        if leaving:
            self._pass_on(own, leaving, False, 0, now)
            for topic in leaving:
                self.places[topic].targets.pop(own, None)

    def _offer(self, now: float, offered: Collection[str]) -> None:
        """Offer what has to go to its rendezvous to the next hop there, and to nobody else."""
        offers: dict[BrokerId, list[str]] = {}
        withdrawn: dict[BrokerId, list[str]] = {}
        for topic in offered:
            self._place(topic)
        for topic, place in self.places.items():
            has_any = bool(place.sources) or topic in offered
            hop = self._table.next_hop(place.key) if has_any else None
            to = None if hop is None else hop.broker
            if place.offered_to is not None and place.offered_to != to:
                withdrawn.setdefault(place.offered_to, []).append(topic)
            if to is not None and (to != place.offered_to or now >= place.offer_at):
                offers.setdefault(to, []).append(topic)
                is_heard = to in self._askers(topic)
                wait_s = self._config.refresh_s if is_heard else self._config.retry_s
                place.offer_at = now + wait_s
            place.offered_to = to
        for broker, topics in offers.items():
            self._send(broker, TreeOffer(self.version, tuple(topics), True))
        for broker, topics in withdrawn.items():
            self._send(broker, TreeOffer(self.version, tuple(topics), False))

    def is_settled(self, subscribed: Collection[str], offered: Collection[str]) -> bool:
        """Whether all that this broker asked and offered was answered."""
        return all(
            topic in self.places and self.places[topic].is_joined for topic in subscribed
        ) and all(
            place.offered_to is None or place.offered_to in self._askers(topic)
            for topic, place in self.places.items()
            if place.sources or topic in offered
        )
