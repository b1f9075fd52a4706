"""Absent brokers of a ring: publications are kept for them.

A ring has no map that says who is away (compare `topic_connected/absent_brokers`), and no broker
that could be relied on to know it: a rendezvous may be killed with those it serves, and moves. So
each broker tells its neighbors what it wants, and when one of these loses it, everybody hears of it
(`RingMember`). Everybody has to: on its return the broker gets what it missed from whoever is above
it in the tree then, and what is not kept there it never gets.

Each broker keeps the topics of those who are away for as long as a topic-connected one does
(`TopicConfig.forget_after_s`, within ``keep_bytes``). Whoever is back has the time of any broken
link (``keep_s``) to find its place in the trees.

Only a broker itself says that it is there again: it hears that it is taken for away, and tells
everybody with a larger number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.routing.rendezvous.chord import SendToBroker
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import RingMember


@dataclass
class Member:
    """The known state of a broker."""

    number: int
    topics: tuple[str, ...]
    is_away: bool = False
    until: float = 0.0
    """Until then its topics are kept: it is absent, or has just returned."""

    @property
    def rank(self) -> tuple[int, bool]:
        return self.number, self.is_away


class RingAbsences:
    """Who is away and will come back, as one broker of a ring hears it. ``send`` sends to a
    neighbor, ``neighbors`` are those on the ring."""

    def __init__(
        self, config: BrokerConfig, send: SendToBroker, neighbors: Callable[[], list[BrokerId]]
    ) -> None:
        self._id = config.id
        self._config = config.topics
        self._announce_every_s = config.rendezvous.retry_s
        self._send = send
        self._neighbors = neighbors
        self._number = 0
        """The number of this broker's last announcement; 0 if there was none."""
        self._announced: dict[str, None] = {}
        self._announce_at = 0.0
        self.known: dict[BrokerId, Member] = {}
        """Neighbors, absent brokers, and those that have just returned."""
        self.missed: dict[str, None] = {}
        """The topics of absent and just returned brokers, of which nothing expires."""

    # --- this broker -----------------------------------------------------------------------

    def check(self, subscribed: Collection[str], now: float) -> None:
        """Announce to neighbors what this broker wants, if that has changed, not too often."""
        wanted = dict.fromkeys(subscribed)
        if now >= self._announce_at and wanted.keys() != self._announced.keys():
            self._announced, self._announce_at = wanted, now + self._announce_every_s
            self._renew()

    def _renew(self, number: int = 0) -> None:
        """Announce this broker again, with a larger number than before."""
        self._number = max(self._number, number) + 1
        for neighbor in self._neighbors():
            self._send(neighbor, self._own())

    def _own(self) -> RingMember:
        return RingMember(self._id, self._number, tuple(self._announced))

    def excuse(self, seconds: float) -> None:
        """Extend all times by a local pause."""
        for known in self.known.values():
            known.until += seconds

    def restored(self, now: float) -> None:
        """This broker was restored."""
        self._announce_at = now
        self._sum_up(now)
        if self._number:
            self._renew()

    # --- others ----------------------------------------------------------------------------

    def link_began(self, neighbor: BrokerId, now: float) -> None:
        """A neighbor knows nothing: it hears of this broker, of those away, and what is said of
        itself."""
        if self._number:
            self._send(neighbor, self._own())
        for broker, known in self.known.items():
            if known.is_away or broker == neighbor:
                self._send(neighbor, self._message(broker, now))

    def lost(self, neighbor: BrokerId, now: float) -> None:
        """A link is lost: unless its far end is heard of again, it has crashed."""
        known = self.known.get(neighbor)
        if known is not None and not known.is_away and known.topics:
            self._take_away(known, 0.0, now)
            self._spread(neighbor, neighbor, now)

    def receive(self, sender: BrokerId, message: RingMember, now: float) -> None:
        broker, is_away = message.broker, message.away_s is not None
        known = self.known.get(broker)
        if broker == self._id:
            self._hear_of_own(sender, message)
        elif known is None and not is_away and sender != broker:
            pass  # it is there, and no neighbor
        elif known is None or known.rank < (message.number, is_away):
            self._note(sender, message, known or Member(0, ()), now)
        elif known.number > message.number:
            self._send(sender, self._message(broker, now))

    def _hear_of_own(self, sender: BrokerId, message: RingMember) -> None:
        """What others say of this broker is outdated, or of an earlier incarnation."""
        if message.number > self._number or (
            message.number == self._number and message.away_s is not None
        ):
            self._renew(message.number)
            sometimes(Branch.TAKEN_FOR_ABSENT)
        elif message.number < self._number:
            self._send(sender, self._own())

    def _note(self, sender: BrokerId, message: RingMember, known: Member, now: float) -> None:
        was_away = known.is_away
        known.number, known.topics = message.number, message.topics
        self.known[message.broker] = known
        if message.away_s is not None:
            self._take_away(known, message.away_s, now)
        elif was_away:
            known.is_away, known.until = False, now + self._config.keep_s
            self._sum_up(now)
        if was_away or known.is_away:
            self._spread(message.broker, sender, now)

    def _take_away(self, known: Member, away_s: float, now: float) -> None:
        known.is_away, known.until = True, now - away_s + self._config.forget_after_s
        self._sum_up(now)

    def _spread(self, broker: BrokerId, but: BrokerId, now: float) -> None:
        message = self._message(broker, now)
        for neighbor in self._neighbors():
            if neighbor != but:
                self._send(neighbor, message)

    def _message(self, broker: BrokerId, now: float) -> RingMember:
        known = self.known[broker]
        gone_at = known.until - self._config.forget_after_s
        away_s = max(0.0, now - gone_at) if known.is_away else None
        return RingMember(broker, known.number, known.topics, away_s)

    # --- what is kept ----------------------------------------------------------------------

    def clean_up(self, now: float) -> Collection[str]:
        """Forget who is away for too long. The topics that are kept however old they get.
        O(topics of those known)."""
        linked = set(self._neighbors())
        for broker, known in list(self.known.items()):
            if now > known.until and (known.is_away or broker not in linked):
                del self.known[broker]
        self._sum_up(now)
        return self.missed

    def _sum_up(self, now: float) -> None:
        self.missed = {}
        for known in self.known.values():
            if now < known.until:
                self.missed.update(dict.fromkeys(known.topics))
