"""The membership map of one broker: the newest record of every broker of the overlay.

Every broker renews its record at intervals; records that are not renewed are discarded.

The map reaches every broker, because all take part in the map's own topic, which has an empty name:
so the overlay as a whole stays connected, too. Two brokers are linked if one of them says so and
none has lost the other. A broker is gone if a reachable broker has lost it, and no reachable broker
is linked with it. Otherwise liveness is inferred from reachability: behind a crashed broker there
may be half of the overlay, which repair has to find again.

A lost broker counts as gone at once, even if others still name it as a neighbor, until there is a
newer record of it than the one that was lost: neighbors do not notice a crash at the same time, and
a link to a crashed broker costs more time than anything else. A broker that is alive learns that it
was lost, and announces itself.

Witnesses may crash, too. A broker that was gone stays gone without them, but is doubtful: it may be
behind one of them. Nobody waits for it, and one broker probes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from pubweave.model.ids import BrokerId
from pubweave.model.messages.topic_connected import BrokerRecord

MAP_TOPIC = ""
"""Every broker takes part in it; clients cannot name it."""


@dataclass(frozen=True)
class MembershipView:
    """The conclusions from the map at one instant."""

    present: Mapping[BrokerId, BrokerRecord]
    gone: frozenset[BrokerId]
    lost: Collection[tuple[BrokerId, BrokerId]]
    """Pairs of a broker and one that it has lost."""
    neighbors: Mapping[BrokerId, frozenset[BrokerId]]
    """Of the present brokers."""
    members: Mapping[str, tuple[BrokerId, ...]]
    """By topic: the brokers that take part and stay."""
    pieces: Mapping[str, Mapping[BrokerId, int]] = field(default_factory=dict)
    """By topic in several pieces: the piece of each broker."""
    doubtful: frozenset[BrokerId] = frozenset()
    """Gone brokers whose loss no reachable broker has witnessed."""
    prober: BrokerId = ""
    """The broker that probes these."""

    @property
    def is_connected(self) -> bool:
        return not self.pieces

    def may_link(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether none of two brokers has lost the other."""
        return (one, other) not in self.lost and (other, one) not in self.lost


class MembershipMap:
    """Records by broker; ``own`` is the broker that holds the map."""

    def __init__(self, own: BrokerId) -> None:
        self.own = own
        self.records: dict[BrokerId, BrokerRecord] = {}
        self._heard_at: dict[BrokerId, float] = {}
        self._buried: dict[BrokerId, tuple[int, int]] = {}
        """The ages of discarded records: older copies are not accepted again."""
        self._gone: dict[BrokerId, tuple[int, int]] = {}
        """Gone brokers, with the ages of their last records."""

    def receive(self, record: BrokerRecord, now: float) -> bool:
        """Enter a record; False if it is not newer."""
        broker = record.broker
        known = self.records.get(broker)
        newest = self._buried.get(broker) if known is None else known.age
        if newest is not None and newest >= record.age:
            return False
        self.records[broker] = replace(record, silent_s=0.0) if record.silent_s else record
        self._heard_at[broker] = now - record.silent_s
        self._buried.pop(broker, None)
        return True

    def record_of(self, broker: BrokerId, now: float) -> BrokerRecord:
        """A record to send to a neighbor, with the time since its renewal: otherwise each broker
        that joins would keep the records of crashed brokers for longer."""
        silent_s = 0.0 if broker == self.own else max(0.0, now - self._heard_at[broker])
        return replace(self.records[broker], silent_s=silent_s)

    def excuse(self, seconds: float) -> None:
        """A local pause does not count as silence of others."""
        self._heard_at = {broker: at + seconds for broker, at in self._heard_at.items()}

    def forget_silent(self, now: float, after_s: float) -> list[BrokerRecord]:
        """Discard brokers whose records are not renewed any more; returns records for brokers that
        were paused, and would discard them later."""
        silent = [b for b, at in self._heard_at.items() if now - at > after_s and b != self.own]
        return [replace(self._bury(broker), silent_s=after_s) for broker in silent]

    def _bury(self, broker: BrokerId) -> BrokerRecord:
        record = self.records.pop(broker)
        self._buried[broker] = record.age
        self._gone.pop(broker, None)
        del self._heard_at[broker]
        return record

    def has_forgotten(self, record: BrokerRecord) -> bool:
        """Whether a record was discarded here; its sender was paused and has not discarded it."""
        buried = self._buried.get(record.broker)
        return buried is not None and buried >= record.age

    def discard(self, record: BrokerRecord) -> bool:
        """Another broker has discarded a record; whether that is news."""
        known = self.records.get(record.broker)
        if known is None or known.age > record.age:
            return False
        self._bury(record.broker)
        return True

    def _lost(self) -> set[tuple[BrokerId, BrokerId]]:
        """Pairs of a broker and one that it has lost in its current incarnation."""
        records = self.records
        return {
            (broker, name)
            for broker, record in records.items()
            for name, incarnation, _ in record.lost
            if name not in records or incarnation >= records[name].incarnation
        }

    def view(self) -> MembershipView:
        """O(records, links and topics of all brokers)."""
        lost = self._lost()
        neighbors = self._neighbors(lost)
        silent = self._silent(reach([self.own], neighbors.__getitem__))
        reached = reach([self.own], lambda broker: neighbors[broker] - silent)
        witnessed = {
            name: self.records[name].age
            for broker, name in lost
            if name in silent
            or (broker in reached and name not in reached and name in self.records)
        }
        doubtful = frozenset(
            name
            for name, age in self._gone.items()
            if name not in reached and name not in witnessed and self.records[name].age == age
        )
        self._gone = witnessed | {name: self._gone[name] for name in doubtful}
        gone = frozenset(self._gone)
        present = {b: record for b, record in sorted(self.records.items()) if b not in gone}
        here = {b: frozenset(n - gone) for b, n in neighbors.items() if b not in gone}
        members = _members(present)
        pieces: dict[str, Mapping[BrokerId, int]] = {}
        for topic, brokers in members.items():
            labels = pieces_of(brokers, here)
            if any(labels.values()):
                pieces[topic] = labels
        return MembershipView(present, gone, lost, here, members, pieces, doubtful, min(reached))

    def _silent(self, reached: Collection[BrokerId]) -> set[BrokerId]:
        """Brokers that a reachable broker has lost, without a newer record since."""
        records = self.records
        return {
            name
            for broker in reached
            for name, *age in records[broker].lost
            if name in records and records[name].age <= tuple(age) and name != self.own
        }

    def _neighbors(
        self, lost: Collection[tuple[BrokerId, BrokerId]]
    ) -> dict[BrokerId, set[BrokerId]]:
        neighbors: dict[BrokerId, set[BrokerId]] = {broker: set() for broker in self.records}
        for broker, record in self.records.items():
            for other in record.links:
                if (
                    other in neighbors
                    and (broker, other) not in lost
                    and (other, broker) not in lost
                ):
                    neighbors[broker].add(other)
                    neighbors[other].add(broker)
        return neighbors


def _members(present: Mapping[BrokerId, BrokerRecord]) -> dict[str, tuple[BrokerId, ...]]:
    members: dict[str, list[BrokerId]] = {}
    for broker, record in present.items():
        if not record.is_leaving:
            for topic in (MAP_TOPIC, *record.topics):
                members.setdefault(topic, []).append(broker)
    return {topic: tuple(brokers) for topic, brokers in members.items()}


def reach(
    starts: Iterable[BrokerId], neighbors: Callable[[BrokerId], Collection[BrokerId]]
) -> set[BrokerId]:
    """All brokers reachable from these. O(links)."""
    waiting = list(starts)
    reached = set(waiting)
    while waiting:
        for other in neighbors(waiting.pop()):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def pieces_of(
    brokers: Collection[BrokerId], neighbors: Mapping[BrokerId, Collection[BrokerId]]
) -> dict[BrokerId, int]:
    """The pieces in which these brokers are if only they count, numbered from 0.

    >>> pieces_of(["a", "b", "c"], {"a": ["b"], "b": ["a", "d"], "c": ["d"], "d": ["b", "c"]})
    {'a': 0, 'b': 0, 'c': 1}
    """
    among = set(brokers)
    labels: dict[BrokerId, int] = {}
    count = 0
    for broker in brokers:
        if broker not in labels:
            for found in sorted(reach([broker], lambda b: among.intersection(neighbors[b]))):
                labels[found] = count
            count += 1
    return labels
