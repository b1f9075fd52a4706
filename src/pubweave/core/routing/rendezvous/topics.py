"""The topics of one rendezvous broker: which it takes part in, offers, asks for and gives up.

Ring and trees (`rendezvous/control_plane`) say where a topic goes; here is what follows from that
for the broker's own logs and wishes. A topic that nobody needs here any more ends when others have
what is kept of it; whatever could not be handed on in time is counted as lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.rendezvous.absent_brokers import RingAbsences
from pubweave.core.routing.rendezvous.clusters import AttachedClusters
from pubweave.core.routing.rendezvous.control_plane import ControlPlane
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.model.ids import BrokerId

RETURNING_S = 10.0
"""A client that came from another broker has told its subscriptions again after so long."""


class RendezvousTopics:
    """``planes`` are the versions of the control plane, by number; ``clusters`` those who reach
    the ring through this broker, ``absences`` those who miss something."""

    def __init__(
        self,
        services: BrokerServices[RendezvousRouting],
        planes: Mapping[int, ControlPlane],
        clusters: AttachedClusters,
        absences: RingAbsences,
    ) -> None:
        self._services = services
        self._routing = services.routing
        self._planes = planes
        self._clusters = clusters
        self._absences = absences
        self._config = services.config.topics
        self._published_at: dict[str, float] = {}
        """When clients could publish on a topic last."""
        self._fading: dict[str, float] = {}
        """Topics that nobody needs any more, since when."""
        self._offering: dict[str, None] = {}
        """Topics that were offered when this was looked at last."""
        self._handed: dict[str, tuple[BrokerId, ...]] = {}
        """Of topics that are missed: who was closest to the rendezvous and has got what is kept."""

        self._alone_at = -math.inf
        """When this broker knew of nobody else last."""

    @property
    def _live(self) -> list[ControlPlane]:
        return [plane for plane in self._planes.values() if plane.is_live]

    def is_handed_on(self, topic: str) -> bool:
        """Whether the next hop to the rendezvous gets what is kept of a topic, or it is here."""
        askers = self._routing.askers(topic)
        return all(hop in askers for hop in self._hops(topic))

    def _hops(self, topic: str) -> tuple[BrokerId, ...]:
        """The next hops to the rendezvous of a topic; none where it is here."""
        hops = []
        for plane in self._live:
            place = plane.trees.places.get(topic)
            hop = plane.table.next_hop(key_of(topic) if place is None else place.key)
            if hop is not None:
                hops.append(hop.broker)
        return tuple(hops)

    def _is_rendezvous(self, topic: str) -> bool:
        """Whether a topic's rendezvous is here, in one version at least."""
        return len(self._hops(topic)) < len(self._live)

    def stuck(self) -> list[str]:
        """Topics that are on their way to the rendezvous and cannot go there yet."""
        return [topic for topic in self._offering if not self.is_handed_on(topic)]

    def held(self, *, is_cut_off: bool) -> list[str]:
        """Topics of which something is kept here that others might lack."""
        kept = [t for t in self._routing.topics if self._routing.logs[t].kept]
        return [topic for topic in kept if is_cut_off or not self.is_handed_on(topic)]

    def excuse(self, seconds: float) -> None:
        """This broker was away: that time does not count."""
        self._published_at = {topic: at + seconds for topic, at in self._published_at.items()}
        self._fading = {topic: at + seconds for topic, at in self._fading.items()}
        self._alone_at += seconds

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
        self._offering = dict.fromkeys([*self._published_at, *kept, *self._missing_above()])
        return self._offering

    def _missing_above(self) -> list[str]:
        """Topics that are missed by those who are away, and that have another way to the
        rendezvous since what is kept here was handed on: another broker is the rendezvous, and
        whoever comes back is served from there."""
        offered, handed = [], {}
        for topic in self._absences.missed:
            log = self._routing.logs.get(topic)
            if log is None or not log.kept:
                continue
            hops = self._hops(topic)
            if self._handed.get(topic) == hops or self.is_handed_on(topic):
                handed[topic] = hops
            else:
                offered.append(topic)
        self._handed = handed
        return offered

    def lost(self, neighbor: BrokerId, now: float) -> None:
        """Nobody knows what of that which was handed on it has taken in: it goes to whoever is
        next to the rendezvous now."""
        logs = self._routing.logs
        self._published_at.update({t: now for t in self._routing.topics if logs[t].kept})
        self._handed = {t: hops for t, hops in self._handed.items() if neighbor not in hops}

    def _needed(self, topic: str) -> bool:
        return (
            topic in self._routing.claimed
            or any(
                place.targets or place.sources
                for plane in self._live
                if (place := plane.trees.places.get(topic)) is not None
            )
            or self._is_missed_here(topic)
        )

    def _is_missed_here(self, topic: str) -> bool:
        """Whether this broker, the rendezvous, keeps what somebody misses who is away."""
        if topic not in self._absences.missed or not self._routing.logs[topic].kept:
            return False
        return self._is_rendezvous(topic)

    def check(self, now: float, *, is_alone: bool) -> None:
        """Take part in what is needed here; what is not ends when others have what is kept, or,
        if this broker ``is_alone``, when it is old. Then tell neighbors what is wanted of them."""
        routing = self._routing
        if is_alone:
            self._alone_at = now
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
            self._fading[topic] = now  # others may be found yet, and then it takes time to hand on
        elif age_s >= 0 and self.is_handed_on(topic):
            self._end(topic)
        elif age_s > self._config.forget_after_s:
            self._services.counters.publications_lost_at_most += len(kept)
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
        for name, link in self._services.sessions.links.items():
            now_wanted = wanted.get(name, {})
            if name in self._clusters.gateways:
                now_wanted = dict.fromkeys(t for t in routing.wanted[link] if t in routing.topics)
            for topic in now_wanted:
                routing.ask(link, topic, wants=True)
            for topic in [t for t in routing.asked.get(link, ()) if t not in now_wanted]:
                routing.ask(link, topic, wants=False)

    def is_fed(self, plane: ControlPlane) -> bool:
        """Whether all whom a version wants topics of have said that they send them."""
        links = self._services.sessions.links
        return all(
            broker in links and self._routing.is_opened(links[broker], topic)
            for topic in plane.trees.places
            for broker in plane.trees.wanted_from(topic)
        )

    def _keep_s(self, now: float, *, has_strangers: bool) -> float:
        """One that has joined while all others were away has heard of nobody who is missing."""
        config = self._config
        is_new = has_strangers or now - self._alone_at < config.keep_s
        return max(config.keep_s, config.forget_after_s) if is_new else config.keep_s

    def clean_up(self, now: float, *, has_strangers: bool) -> None:
        """Forget what is old, unless somebody misses it who is away, or it is on its way to the
        rendezvous and could not go there yet."""
        config = self._config
        lasting = {*self._absences.clean_up(now), *self._clusters.missed, *self.stuck()}
        keep_s = self._keep_s(now, has_strangers=has_strangers)
        self._routing.logs.clean_up(now, keep_s, config.keep_bytes, lasting)
        returning = self._routing.returning
        for name in [name for name, at in returning.items() if now - at > RETURNING_S]:
            del returning[name]
        for client in list(self._services.sessions.clients.values()):
            if client.queue_bytes > config.queue_limit_bytes:
                self._services.teardown.expire(client, "too slow: its queue is full", now)
