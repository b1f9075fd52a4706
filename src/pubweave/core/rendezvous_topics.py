"""The topics of one rendezvous broker: which it takes part in, offers, asks for and gives up.

Ring and trees (`rendezvous_plane`) say where a topic goes; here is what follows from that for the
broker's own logs and wishes. A topic that nobody needs here any more ends when others have what is
kept of it; whatever could not be handed on in time is counted as lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from pubweave.core.rendezvous_clusters import AttachedClusters
from pubweave.core.rendezvous_plane import RendezvousPlane
from pubweave.core.rendezvous_routing import RendezvousRouting
from pubweave.core.topic_inside import TopicInside
from pubweave.design.dynatops.ring import key_of
from pubweave.model.ids import BrokerId

RETURNING_S = 10.0
"""A client that came from another broker has told its subscriptions again after so long."""


class RendezvousTopics:
    """``planes`` are the versions of the control plane, by number; ``clusters`` those who reach
    the ring through this broker."""

    def __init__(
        self,
        inside: TopicInside,
        routing: RendezvousRouting,
        planes: Mapping[int, RendezvousPlane],
        clusters: AttachedClusters,
    ) -> None:
        self._inside = inside
        self._routing = routing
        self._planes = planes
        self._clusters = clusters
        self._config = inside.config.topics
        self._published_at: dict[str, float] = {}
        """When clients could publish on a topic last."""
        self._fading: dict[str, float] = {}
        """Topics that nobody needs any more, since when."""
        self._offering: dict[str, None] = {}
        """Topics that were offered when this was looked at last."""

    @property
    def _live(self) -> list[RendezvousPlane]:
        return [plane for plane in self._planes.values() if plane.is_live]

    def is_handed_on(self, topic: str) -> bool:
        """Whether the next hop to the rendezvous gets what is kept of a topic, or it is here."""
        for plane in self._live:
            place = plane.trees.places.get(topic)
            hop = plane.table.next_hop(key_of(topic) if place is None else place.key)
            if hop is not None and hop.broker not in self._routing.askers(topic):
                return False
        return True

    def held(self, *, is_cut_off: bool) -> list[str]:
        """Topics of which something is kept here that others might lack."""
        kept = [t for t in self._routing.topics if self._routing.logs[t].kept]
        return [topic for topic in kept if is_cut_off or not self.is_handed_on(topic)]

    def came_back(self, away_s: float) -> None:
        """This broker was away: that time does not count."""
        self._published_at = {topic: at + away_s for topic, at in self._published_at.items()}
        self._fading = {topic: at + away_s for topic, at in self._fading.items()}

    def offered(self, now: float) -> dict[str, None]:
        """Topics that have to go to their rendezvous from here: clients publish on them, or
        something is kept of them that may be nowhere else."""
        routing = self._routing
        self._published_at.update(
            dict.fromkeys((*routing.advertised, *routing.published_lately), now)
        )
        routing.published_lately.clear()
        for topic, at in list(self._published_at.items()):
            is_over = now - at > self._config.linger_s and self.is_handed_on(topic)
            if topic not in routing.topics or is_over:
                del self._published_at[topic]
        kept = [topic for topic in self._fading if routing.logs[topic].kept]
        self._offering = dict.fromkeys([*self._published_at, *kept])
        return self._offering

    def _needed(self, topic: str) -> bool:
        return topic in self._routing.claimed or any(
            place.targets or place.sources
            for plane in self._live
            if (place := plane.trees.places.get(topic)) is not None
        )

    def look(self, now: float, *, is_alone: bool) -> None:
        """Take part in what is needed here; what is not ends when others have what is kept, or,
        if this broker ``is_alone``, when it is old. Then tell neighbors what is wanted of them."""
        routing = self._routing
        for plane in self._live:
            for topic, place in plane.trees.places.items():
                if place.targets or place.sources:
                    routing.begin(topic)
        for topic in list(routing.topics):
            if self._needed(topic):
                self._fading.pop(topic, None)
            else:
                self._fade(topic, now, is_alone)
        self._ask()

    def _fade(self, topic: str, now: float, is_alone: bool) -> None:
        kept = self._routing.logs[topic].kept
        age_s = now - self._fading.setdefault(topic, now) - self._config.linger_s
        if not kept:
            self._end(topic)
        elif is_alone:
            pass  # others may be found yet: it is kept as long as anything is
        elif age_s >= 0 and self.is_handed_on(topic):
            self._end(topic)
        elif age_s > self._config.hand_over_s:
            self._inside.counters.publications_lost += len(kept)
            self._end(topic)

    def _end(self, topic: str) -> None:
        self._routing.end(topic)
        del self._fading[topic]

    def _ask(self) -> None:
        """Tell neighbors what we want of them, and what no longer."""
        routing = self._routing
        wanted: dict[BrokerId, dict[str, None]] = {}
        for topic in routing.topics:
            for plane in self._live:
                for broker in plane.trees.wanted_from(topic):
                    wanted.setdefault(broker, {})[topic] = None
        for name, link in self._inside.sessions.links.items():
            now_wanted = wanted.get(name, {})
            if name in self._clusters.gateways:
                now_wanted = dict.fromkeys(t for t in routing.wanted[link] if t in routing.topics)
            for topic in now_wanted:
                routing.ask(link, topic, wants=True)
            for topic in [t for t in routing.asked.get(link, ()) if t not in now_wanted]:
                routing.ask(link, topic, wants=False)

    def is_fed(self, plane: RendezvousPlane) -> bool:
        """Whether all whom a version wants topics of have said that they send them."""
        links = self._inside.sessions.links
        return all(
            broker in links and self._routing.is_opened(links[broker], topic)
            for topic in plane.trees.places
            for broker in plane.trees.wanted_from(topic)
        )

    def tidy(self, now: float) -> None:
        """Forget what is old; whatever was offered and nobody wanted meanwhile counts as lost. What
        came from above is elsewhere, too."""
        config = self._config
        went = self._routing.logs.tidy(now, config.keep_s, config.keep_bytes)
        for topic, times in went.items():
            if topic in self._offering and not self.is_handed_on(topic):
                self._inside.counters.publications_lost += len(times)
        returning = self._routing.returning
        for name in [name for name, at in returning.items() if now - at > RETURNING_S]:
            del returning[name]
        for client in list(self._inside.sessions.clients.values()):
            if client.queue_bytes > config.queue_limit_bytes:
                self._inside.endings.expire(client, "too slow: its queue is full", now)
