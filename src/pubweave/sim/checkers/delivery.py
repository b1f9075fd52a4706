"""The judge of deliveries: what is due follows from the history of the clients alone.

A delivery is *wanted* if its client has asked for it. It is *due* if the client's subscription had
been confirmed when the publication was made, and the publication was acknowledged to its publisher
in the end. What is due comes exactly once, in publisher order; what nobody asked for never comes.

What is due and did not come is a violation, unless one of three things *excuses* it: the client
was told how much it missed; a broker that died with its memory held it; or the client's session
began anew, which the client sees, and which may happen only when such a broker was the client's or
brokers have counted a session as expired. And what is missing between two publications that came is
never missing in silence: the client was told of a gap there. No table of a broker is asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pubweave.model.filters.filter import Filter, topic_of
from pubweave.model.ids import BrokerId, ClientId, SubscriptionId
from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication
from pubweave.sim.checkers.history import (
    Acknowledged,
    Assured,
    AtRest,
    Attached,
    Crashed,
    Delivered,
    Event,
    Key,
    Left,
    Lost,
    Published,
    Subscribed,
    ToldGap,
    ToldMissed,
    ToldToMove,
    Withdrawing,
    Withdrawn,
)


@dataclass(eq=False, slots=True)
class Wish:
    """A subscription as its client sees it."""

    client: ClientId
    filter: Filter
    confirmed_at: float | None = None
    is_withdrawn: bool = False
    """The client took it back: nothing is due for it any more."""
    gone_at: float | None = None
    """When the broker had acknowledged that: nothing published later may come for it."""

    @property
    def is_whole(self) -> bool:
        """Everything on one topic is wanted: whoever gets it can see that something is missing."""
        return topic_of(self.filter) is not None and len(self.filter.predicates) == 1


class WishIndex:
    """Which wishes a publication matches; those that name one topic are found by it."""

    def __init__(self) -> None:
        self._by_topic: dict[str | None, dict[Wish, Filter]] = defaultdict(dict)
        """With what is left to be matched; under None those that name no topic."""

    def add(self, wish: Wish) -> None:
        topic = topic_of(wish.filter)
        rest = wish.filter
        if topic is not None:
            others = (p for p in rest.predicates if p.attribute != TOPIC_ATTRIBUTE)
            rest = Filter(tuple(others))
        self._by_topic[topic][wish] = rest

    def discard(self, wish: Wish) -> None:
        self._by_topic[topic_of(wish.filter)].pop(wish, None)

    def matching(self, publication: Publication) -> list[Wish]:
        """O(wishes for its topic, and for no topic)."""
        return [
            wish
            for topic in (publication.topic, None)
            for wish, rest in self._by_topic.get(topic, {}).items()
            if not rest.predicates or rest.matches(publication)
        ]


@dataclass(slots=True)
class _Record:
    publication: Publication
    at: float
    asked: set[ClientId]
    """Who had asked for it when it was made."""
    delivered: set[ClientId] = field(default_factory=set)


class DeliveryJudge:
    """Takes the events of a history in their order; `violations` are in words.

    ``by_topic``: order holds for each publisher and topic, for topics have routes of their own.
    ``keeps_subscriptions``: what a client has asked for outlives its session, because it gets at
    another broker what it missed. ``keeps_little``: brokers may drop what somebody lacks before
    anything fails; then they tell as many as they count.
    """

    def __init__(
        self,
        *,
        by_topic: bool = False,
        keeps_subscriptions: bool = False,
        keeps_little: bool = False,
    ) -> None:
        self.violations: list[str] = []
        self.publications = 0
        self.deliveries = 0
        self.wanted = 0
        self.due = 0
        self.tally: Counter[str] = Counter()
        """Deliveries that were due and did not come, by what explains them."""
        self.counted = 0
        """What brokers have counted as lost, up to the last rest."""
        self.sessions_lost = 0
        """Sessions that began anew against their clients' wish."""
        self._by_topic = by_topic
        self._keeps_subscriptions = keeps_subscriptions
        self._keeps_little = keeps_little
        self._told_in_all = 0
        self._wishes: dict[ClientId, dict[SubscriptionId, Wish]] = defaultdict(dict)
        self._index = WishIndex()
        self._published: dict[Key, _Record] = {}
        self._open: dict[ClientId, dict[Key, list[Wish]]] = defaultdict(dict)
        """What is due to each client and has not come yet, and for the sake of which wishes."""
        self._last: dict[tuple[str, ...], int] = {}
        self._acknowledged: dict[ClientId, int] = {}
        self._attached: dict[ClientId, tuple[BrokerId, float]] = {}
        self._stands_since: dict[ClientId, float] = {}
        """When each client's session was last seen to be whole."""
        self._anew_at: dict[ClientId, float] = {}
        self._crashed_at: dict[BrokerId, float] = {}
        self._unexplained: list[str] = []
        """Sessions that began anew though no broker of theirs had died."""
        self._lost: set[Key] = set()
        self._told: dict[tuple[ClientId, ClientId, str], list[ToldMissed]] = defaultdict(list)
        """Since the last rest."""
        self._gaps: dict[tuple[ClientId, ClientId, str], list[ToldGap]] = defaultdict(list)
        self._unchecked_gaps: list[ToldGap] = []
        self._silent: list[tuple[ClientId, _Record, float]] = []
        """Excused, and nobody was told so far: a later publication has to show it. With the instant
        since when the client was to get the whole topic."""
        self._take = {
            Subscribed: self._subscribed,
            Assured: self._confirmed,
            Withdrawing: self._withdrawing,
            Withdrawn: self._withdrawn,
            Published: self._on_published,
            Acknowledged: self._on_acknowledged,
            Delivered: self._on_delivered,
            ToldMissed: self._told_missed,
            ToldGap: self._told_gap,
            Attached: self._on_attached,
            ToldToMove: self._on_redirected,
            Left: self._left,
            Crashed: self._crashed,
            Lost: self._on_lost,
            AtRest: self._rest,
        }

    @property
    def excused(self) -> int:
        return sum(self.tally.values())

    def take(self, event: Event) -> None:
        """The next event. O(wishes for its topic) for a publication, O(open) at rest, else O(1)."""
        self._take[type(event)](event)  # type: ignore[operator]

    # --- what clients want -----------------------------------------------------------------

    def _subscribed(self, event: Subscribed) -> None:
        wish = Wish(event.client, event.filter)
        self._wishes[event.client][event.id] = wish
        self._index.add(wish)

    def _confirmed(self, event: Assured) -> None:
        wishes = self._wishes[event.client]
        for id_ in event.ids:
            wishes[id_].confirmed_at = event.at

    def _withdrawing(self, event: Withdrawing) -> None:
        wish = self._wishes[event.client][event.id]
        wish.is_withdrawn = True
        waiting = self._open[event.client]
        for key in [key for key, wishes in waiting.items() if wish in wishes]:
            waiting[key].remove(wish)
            if not waiting[key]:
                del waiting[key]

    def _withdrawn(self, event: Withdrawn) -> None:
        wish = self._wishes[event.client][event.id]
        wish.gone_at = event.at
        self._index.discard(wish)

    def _left(self, event: Left) -> None:
        """What is on its way to a client that left is nobody's concern any more."""
        for wish in self._wishes.pop(event.client, {}).values():
            self._index.discard(wish)
        self._open.pop(event.client, None)

    # --- publications ----------------------------------------------------------------------

    def _on_published(self, event: Published) -> None:
        publication = event.publication
        key = publication.key
        self.publications += 1
        asked, wanting, due = set(), set(), set()
        for wish in self._index.matching(publication):
            client = wish.client
            asked.add(client)
            if wish.is_withdrawn:
                continue
            wanting.add(client)
            if wish.confirmed_at is not None and event.advertisement:
                due.add(client)
                self._open[client].setdefault(key, []).append(wish)
        self.wanted += len(wanting)
        self.due += len(due)
        self._published[key] = _Record(publication, event.at, asked)

    def _on_acknowledged(self, event: Acknowledged) -> None:
        self._acknowledged[event.publisher] = event.through

    def _on_delivered(self, event: Delivered) -> None:
        client, publication = event.client, event.publication
        key = publication.key
        self.deliveries += 1
        record = self._published.get(key)
        if record is None:
            self._violation(event.at, f"{client} got {_name(key)}, which nobody published")
            return
        if client in record.delivered:
            self._violation(event.at, f"{client} got {_name(key)} twice")
        record.delivered.add(client)
        order = (client, key[0], publication.topic) if self._by_topic else (client, key[0])
        last = self._last.get(order, 0)
        if key[1] < last:
            self._violation(event.at, f"{client} got {_name(key)} after #{last}: out of order")
        else:
            self._last[order] = key[1]
        if client not in record.asked and not self._has_asked_since(client, record):
            self._violation(event.at, f"{client} got {_name(key)}, which it did not ask for")
        self._open[client].pop(key, None)

    def _has_asked_since(self, client: ClientId, record: _Record) -> bool:
        return any(
            (wish.gone_at is None or wish.gone_at > record.at)
            and wish.filter.matches(record.publication)
            for wish in self._wishes[client].values()
        )

    # --- what may explain a loss -----------------------------------------------------------

    def _told_missed(self, event: ToldMissed) -> None:
        self._told_in_all += event.count
        self._told[event.client, event.publisher, event.topic].append(event)

    def _told_gap(self, event: ToldGap) -> None:
        self._gaps[event.client, event.publisher, event.topic].append(event)
        self._unchecked_gaps.append(event)

    def _crashed(self, event: Crashed) -> None:
        self._crashed_at[event.broker] = event.at

    def _on_lost(self, event: Lost) -> None:
        self._lost |= event.keys

    def _on_redirected(self, event: ToldToMove) -> None:
        if self._keeps_subscriptions:  # so it may come back to where it was
            self._attached.pop(event.client, None)

    def _on_attached(self, event: Attached) -> None:
        """A session that begins anew at a broker where the client was before, or, unless wishes
        outlive sessions, at any other, is lost."""
        client = event.client
        before = self._attached.get(client)
        self._attached[client] = event.broker, event.at
        if before is None or event.is_resumed:
            self._stands_since[client] = event.at
            return
        broker, since = before
        if broker != event.broker:  # what moved there was perhaps the session before the crash
            since = self._stands_since[client]
        if self._keeps_subscriptions and broker != event.broker:
            return
        self.sessions_lost += 1
        brokers = (broker, event.broker)
        if all(self._crashed_at.get(each, -1.0) < since for each in brokers):
            self._unexplained.append(f"{client} at {event.broker}")
        if not self._keeps_subscriptions:
            self._anew_at[client] = event.at
            for wish in self._wishes[client].values():
                wish.confirmed_at = None

    # --- rest ------------------------------------------------------------------------------

    def _rest(self, event: AtRest) -> None:
        missing: dict[tuple[ClientId, ClientId, str], list[tuple[_Record, list[Wish]]]]
        missing = defaultdict(list)
        for client, waiting in self._open.items():
            for key, wishes in waiting.items():
                if key[1] <= self._acknowledged.get(key[0], 0):
                    record = self._published[key]
                    missing[client, key[0], record.publication.topic].append((record, wishes))
            waiting.clear()
        for of, records in missing.items():
            told = sum(each.count for each in self._told.get(of, ()))
            self.tally["told"] += min(told, len(records))
            for record, wishes in records[told:]:
                self._explain(record, wishes, event.at)
        self._check_told(event.at)
        self._check_gaps(event.at)
        self._check_counted(event)
        self._told.clear()
        self._lost.clear()

    def _explain(self, record: _Record, wishes: list[Wish], now: float) -> None:
        key, client = record.publication.key, wishes[0].client
        if record.at <= self._anew_at.get(client, -1.0):
            self.tally["with_session"] += 1
        elif key in self._lost:
            self.tally["with_broker"] += 1
            whole = [w.confirmed_at for w in wishes if w.confirmed_at is not None and w.is_whole]
            if whole:
                self._silent.append((client, record, min(whole)))
        else:
            self.tally["unexplained"] += 1
            self._violation(now, f"{client} never got {_name(key)}, published at {record.at:.3f}")

    def _check_told(self, now: float) -> None:
        """Whether nobody was told of more than it misses, as far as a number was to be exact."""
        for (client, publisher, topic), told in self._told.items():
            count = sum(missed.count for missed in told)
            never = sum(client not in record.delivered for record in self._of(publisher, topic))
            if count > never and not any(missed.at_most for missed in told):
                self._violation(
                    now, f"{client} was told of {count} lost of {publisher} on {topic}, not {never}"
                )

    def _check_gaps(self, now: float) -> None:
        """Whether there is something in every gap, and no gap without a word."""
        for gap in self._unchecked_gaps:
            if not any(
                gap.after < record.publication.sequence < gap.before
                and gap.client not in record.delivered
                and (gap.client in record.asked or self._has_asked_since(gap.client, record))
                for record in self._of(gap.publisher, gap.topic)
            ):
                between = f"between #{gap.after} and #{gap.before} of {gap.publisher}"
                self._violation(now, f"{gap.client} saw a gap {between}, where nothing is missing")
        self._unchecked_gaps.clear()
        silent, self._silent = self._silent, []
        for client, record, since in silent:
            publisher, sequence = record.publication.key
            topic = record.publication.topic
            told = self._gaps.get((client, publisher, topic), ())
            anew_at = self._anew_at.get(client, -1.0)
            if anew_at > record.at or any(gap.after < sequence < gap.before for gap in told):
                continue
            of = self._of(publisher, topic, client)
            got = [r.publication.sequence for r in of if r.at > since]
            if not got or max(got) < sequence:
                self._silent.append((client, record, since))
            elif min(got) < sequence:
                name = _name(record.publication.key)
                self._violation(now, f"{client} never heard that it missed {name}")

    def _of(
        self, publisher: ClientId, topic: str, got_by: ClientId | None = None
    ) -> Iterator[_Record]:
        """A publisher's publications on a topic. O(all), but few are ever asked for."""
        return (
            record
            for record in self._published.values()
            if record.publication.publisher == publisher
            and record.publication.topic == topic
            and (got_by is None or got_by in record.delivered)
        )

    def _check_counted(self, event: AtRest) -> None:
        """Whether sessions were lost only with brokers, or counted, and nothing for no reason."""
        self.counted = event.lost
        if len(self._unexplained) > event.expired:
            self._violation(
                event.at,
                f"{len(self._unexplained)} sessions began anew though no broker of theirs had died "
                f"({', '.join(self._unexplained)}), {event.expired} had expired",
            )
        explained = self._told_in_all if self._keeps_little else 0
        if event.lost > explained and not self._crashed_at and not event.expired:
            self._violation(event.at, f"{event.lost} counted as lost though nothing has failed")

    def receivers(self, since: float) -> list[tuple[Publication, list[ClientId]]]:
        """What was published from an instant on, and which clients have got it so far."""
        return [
            (record.publication, sorted(record.delivered))
            for record in self._published.values()
            if record.at >= since
        ]

    def undelivered(self) -> list[Publication]:
        """What is due to somebody and has not come yet."""
        keys = {key: None for waiting in self._open.values() for key in waiting}
        return [self._published[key].publication for key in keys]

    def _violation(self, now: float, text: str) -> None:
        self.violations.append(f"{now:.3f} {text}")


def judge(history: Iterable[Event], **rules: bool) -> DeliveryJudge:
    """The judge after a whole history; ``rules`` as `DeliveryJudge` has them."""
    judged = DeliveryJudge(**rules)
    for event in history:
        judged.take(event)
    return judged


def _name(key: Key) -> str:
    return f"{key[0]}#{key[1]}"
