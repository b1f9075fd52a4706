"""Gossip of a placement cluster: every member sends its news to a collector, which sends all back.

Everybody telling everybody would be c(c - 1) messages per T_update; so it is 2(c - 1). The first by
name of the collectors that a broker is linked with is whom it tells; a collector that has none
before it *is* the one: it sends the whole digest to everybody. If it is gone, the next one is. No
election: somebody who cannot reach the first collector tells the second, which passes that on with
its own, and passes the digest back. Two at once only means that digests come from both.

Whoever has got the digest tells again after T_update, and the collector sends the next digest when
everybody has told, or after twice T_update. So news are as old as T_update and a message, and not
twice that. Old news are harmless: a user that is sent by them may fit less well than it could.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from pubweave.core.config.placement import PlacementConfig
from pubweave.core.routing.rendezvous.chord import SendToBroker
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import PlacementDigest, PlacementTold

DIGEST_BYTES = 256 * 1024
"""A longer digest is sent in parts: frames have a limit."""

News = dict[BrokerId, PlacementTold]


class PlacementGossip:
    """One broker's part; ``own`` returns its news, ``linked`` the established links."""

    def __init__(
        self,
        id_: BrokerId,
        config: PlacementConfig,
        send: SendToBroker,
        linked: Callable[[], Collection[BrokerId]],
        own: Callable[[], PlacementTold],
        now: float,
    ) -> None:
        self._id = id_
        self._config = config
        self._send_to = send
        self._linked = linked
        self._own = own
        self.known: News = {}
        """The other members of the cluster."""
        self._below: dict[BrokerId, News] = {}
        """By member that sends to us: its news of itself and of members that send to it."""
        self._fresh: set[BrokerId] = set()
        """Those of them that have sent news since the last digest."""
        self._coming: dict[BrokerId, News] = {}
        """By neighbor: the received parts of an incomplete digest."""
        self._collector: BrokerId | None = None
        self._sent_at = now
        self._announce_at = now
        self.messages = 0
        """Sent so far."""

    def collector(self) -> BrokerId | None:
        """The collector to send to: ourselves if we collect, None if there is none."""
        linked = self._linked()
        for name in self._config.collectors(self._id):
            if name == self._id or name in linked:
                return name
        return None

    def check(self, now: float) -> None:
        """Send news when they are due, or to a new collector. O(cluster x topics) then."""
        collector = self.collector()
        if collector != self._collector:
            self._collector, self._announce_at = collector, now
        if collector is None:
            self.known = {}
        if now < self._announce_at or collector is None:
            return
        self._sent_at = now
        self._announce_at = now + 2 * self._config.update_s
        if collector == self._id:
            self._pass_on(self._collected(), self._config.members)
        else:
            self._send(collector, self._collected())

    def check_soon(self) -> None:
        """Send news early: something has changed that cannot wait."""
        self._announce_at = self._sent_at

    def link_began(self, neighbor: BrokerId) -> None:
        if neighbor == self._collector:
            self.check_soon()

    def _collected(self) -> News:
        """The news of members that send to us, and of others what these said of them."""
        news: News = {}
        for member, heard in self._below.items():
            direct = {n: each for n, each in heard.items() if n == member or n not in self._below}
            news.update(direct)
        news[self._id] = self._own()
        return news

    def _pass_on(self, news: News, to: Collection[BrokerId]) -> None:
        linked = self._linked()
        self._fresh.clear()
        for member in to:
            if member in linked:
                self._send(member, news)

    def _send(self, member: BrokerId, news: News) -> None:
        for part in _parts(news):
            self.messages += 1
            self._send_to(member, part)

    # --- what comes ------------------------------------------------------------------------

    def receive(self, member: BrokerId, digest: PlacementDigest, now: float) -> None:
        """News or a digest of a neighbor."""
        if member not in self._config.members:
            return
        news = self._coming.setdefault(member, {})
        news.update(digest.told)
        if not digest.is_last:
            return
        del self._coming[member]
        if member == self.collector():
            self.known = self._of_others(news)
            self._announce_at = now + self._config.update_s
            self._pass_on(news, self._below)
        elif self._id in self._config.collectors(self._id) and self._id < member:
            self._take_below(member, news)
        else:  # somebody believes that it collects, and we do not
            self.known.update(self._of_others(news))

    def _of_others(self, news: News) -> News:
        return {name: one for name, one in news.items() if name != self._id and one.is_open}

    def _take_below(self, member: BrokerId, news: News) -> None:
        self._below[member] = news
        self._fresh.add(member)
        if self.collector() != self._id:
            return
        self.known = self._of_others(self._collected())
        if any(not one.is_open for one in news.values()):
            self.check_soon()
        elif self._fresh.issuperset(set(self._config.members).intersection(self._linked())):
            # Not more than twice as often as agreed, however fast others come and go.
            self._announce_at = min(self._announce_at, self._sent_at + self._config.update_s / 2)

    def lost(self, member: BrokerId) -> None:
        """A link is lost."""
        self.known.pop(member, None)
        self._below.pop(member, None)
        self._fresh.discard(member)
        self._coming.pop(member, None)

    def restored(self) -> None:
        """This broker was restored."""
        self._below.clear()
        self._fresh.clear()
        self._coming.clear()
        self._collector, self._sent_at = None, 0.0


def _parts(news: News) -> Iterator[PlacementDigest]:
    """Digests of bounded size; the last one says so."""
    part: list[tuple[BrokerId, PlacementTold]] = []
    size = 0
    for name, one in news.items():
        if part and size + one.size_bytes > DIGEST_BYTES:
            yield PlacementDigest(tuple(part), is_last=False)
            part, size = [], 0
        part.append((name, one))
        size += one.size_bytes
    yield PlacementDigest(tuple(part), is_last=True)
