"""Brokers of a ring that have journals and are away: what is published meanwhile is kept for them.

A ring has no map that says who is away (compare `topic_absence`), and no broker that could be
relied on to know it: a rendezvous may be killed with those it serves, and moves. So each broker
with a journal tells its neighbors what it wants, and when one of these loses it, everybody hears
of it (`DurableBroker`). Everybody has to: on its return the broker gets what it missed from
whoever is above it in the tree then, and what is not kept there it never gets.

Each broker keeps the topics of those who are away for as long as a topic-connected one does
(`TopicConfig.forget_after_s`, within ``keep_bytes``). Whoever is back has the time of any broken
link (``keep_s``) to find its place in the trees. What goes although it is missed is counted, by
the rendezvous of its topic; what goes for lack of room is counted by every broker that lets it
go, for the one who is away may come back below any of them.

Only a broker itself says that it is there again: it hears that it is taken for away, and tells
everybody with a larger number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pubweave.core.broker_config import BrokerConfig
from pubweave.core.chord_upkeep import Tell
from pubweave.model.ids import BrokerId
from pubweave.model.rendezvous_messages import DurableBroker


@dataclass
class Durable:
    """What is known of a broker that has a journal."""

    number: int
    topics: tuple[str, ...]
    is_away: bool = False
    since: float = 0.0
    """What was published from then on it may miss."""
    until: float = 0.0
    """Its topics are kept for so long: it is away, or has just come back."""

    @property
    def rank(self) -> tuple[int, bool]:
        return self.number, self.is_away


class RingAbsences:
    """Who is away and will come back, as one broker of a ring hears it. ``tell`` sends to a
    neighbor, ``neighbors`` are those on the ring."""

    def __init__(
        self, config: BrokerConfig, tell: Tell, neighbors: Callable[[], list[BrokerId]]
    ) -> None:
        self._id = config.id
        self._config = config.topics
        self._tell_every_s = config.rendezvous.retry_s
        self._silence_s = config.silence_limit_s
        self._tell = tell
        self._neighbors = neighbors
        self._number = 0
        """Of what was told of this broker last; 0: nothing was."""
        self._told: dict[str, None] = {}
        self._tell_at = 0.0
        self.known: dict[BrokerId, Durable] = {}
        """Neighbors, whoever is away, and those who have just come back."""
        self.missed: dict[str, float] = {}
        """The topics of those who are not there or have just come back, and since when."""
        self._lasting: dict[str, None] = {}
        """Those of them that are not let go by age."""

    # --- this broker -----------------------------------------------------------------------

    def look(self, subscribed: Collection[str], now: float) -> None:
        """Tell neighbors what this broker wants, if that has changed, but not all the time."""
        wanted = dict.fromkeys(subscribed)
        if self._config.is_durable and now >= self._tell_at and wanted.keys() != self._told.keys():
            self._told, self._tell_at = wanted, now + self._tell_every_s
            self._renew()

    def _renew(self, number: int = 0) -> None:
        """Tell of this broker anew, with a larger number than everything before."""
        self._number = max(self._number, number) + 1
        for neighbor in self._neighbors():
            self._tell(neighbor, self._own())

    def _own(self) -> DurableBroker:
        return DurableBroker(self._id, self._number, tuple(self._told))

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: that time does not count."""
        for known in self.known.values():
            known.since += seconds
            known.until += seconds

    def came_back(self, now: float) -> None:
        """This broker was away and is there again."""
        self._tell_at = now
        self._sum_up(now)
        if self._number:
            self._renew()

    # --- others ----------------------------------------------------------------------------

    def link_began(self, neighbor: BrokerId, now: float) -> None:
        """A neighbor knows nothing: it hears of this broker, of those away, and what is said of
        itself."""
        if self._number:
            self._tell(neighbor, self._own())
        for broker, known in self.known.items():
            if known.is_away or broker == neighbor:
                self._tell(neighbor, self._message(broker, now))

    def lost(self, neighbor: BrokerId, now: float) -> None:
        """A link is lost: unless its far end says otherwise, it was killed."""
        known = self.known.get(neighbor)
        if known is not None and not known.is_away and known.topics:
            self._take_away(known, 0.0, now)
            self._spread(neighbor, neighbor, now)

    def take(self, sender: BrokerId, message: DurableBroker, now: float) -> None:
        broker, is_away = message.broker, message.away_s is not None
        known = self.known.get(broker)
        if broker == self._id:
            self._hear_of_own(sender, message)
        elif known is None and not is_away and sender != broker:
            pass  # it is there, and no neighbor
        elif known is None or known.rank < (message.number, is_away):
            self._note(sender, message, known or Durable(0, ()), now)
        elif known.number > message.number:
            self._tell(sender, self._message(broker, now))

    def _hear_of_own(self, sender: BrokerId, message: DurableBroker) -> None:
        """What others say of this broker is out of date, or from an earlier life."""
        if message.number > self._number or (
            message.number == self._number and message.away_s is not None
        ):
            self._renew(message.number)
        elif message.number < self._number:
            self._tell(sender, self._own())

    def _note(self, sender: BrokerId, message: DurableBroker, known: Durable, now: float) -> None:
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

    def _take_away(self, known: Durable, away_s: float, now: float) -> None:
        """Somebody who had just come back may miss the same still."""
        if not known.is_away and now >= known.until:
            known.since = now - away_s
        known.is_away, known.until = True, now - away_s + self._config.forget_after_s
        self._sum_up(now)

    def _spread(self, broker: BrokerId, but: BrokerId, now: float) -> None:
        message = self._message(broker, now)
        for neighbor in self._neighbors():
            if neighbor != but:
                self._tell(neighbor, message)

    def _message(self, broker: BrokerId, now: float) -> DurableBroker:
        known = self.known[broker]
        gone_at = known.until - self._config.forget_after_s
        away_s = max(0.0, now - gone_at) if known.is_away else None
        return DurableBroker(broker, known.number, known.topics, away_s)

    # --- what is kept ----------------------------------------------------------------------

    def tidy(self, now: float) -> Collection[str]:
        """Forget who is away for too long, a while after its topics are let go: those are counted
        meanwhile. The topics that are kept however old they get. O(topics of those known)."""
        config, linked = self._config, set(self._neighbors())
        for broker, known in list(self.known.items()):
            over_at = known.until + config.keep_s if known.is_away else known.until
            if now > over_at and (known.is_away or broker not in linked):
                del self.known[broker]
        self._sum_up(now)
        return self._lasting

    def _sum_up(self, now: float) -> None:
        self.missed, self._lasting = {}, {}
        for known in self.known.values():
            is_kept = now < known.until
            if known.is_away or is_kept:
                for topic in known.topics:
                    self.missed[topic] = min(known.since, self.missed.get(topic, known.since))
            if is_kept:
                self._lasting.update(dict.fromkeys(known.topics))

    def lost_of(self, topic: str, times: Sequence[float], *, is_rendezvous: bool) -> int:
        """How many of the publications that went, by when they had come, this broker counts."""
        since = self.missed.get(topic)
        if since is None or not (is_rendezvous or topic in self._lasting):
            return 0
        # It may have taken as long as a silence lasts to notice the absence.
        return sum(at >= since - self._silence_s for at in times)
