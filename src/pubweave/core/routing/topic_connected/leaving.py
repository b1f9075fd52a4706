"""When a broker may go from a topic, or altogether: nothing stays behind that only it has.

A broker that leaves says so first, so that the others connect without it. What it keeps of a
topic has come to others as soon as a neighbor wants that topic. If nobody does, but the map knows
brokers that take part (cut off for a while, or linked with others only), it stays for them and
seeks a link with one of them. It does not stay for ever: what it takes with it then is counted.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.topic_connected.link_monitor import LinkMonitor
from pubweave.core.routing.topic_connected.membership_map import MembershipMap, MembershipView
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication


class TopicLeaving:
    """One broker's going; ``view`` is what its map says now, ``is_missed`` as in
    `topic_connected/gateway`."""

    def __init__(
        self,
        services: BrokerServices[TopicRouting],
        links: LinkMonitor,
        map_: MembershipMap,
        view: Callable[[], MembershipView],
        is_missed: Callable[[str], bool],
    ) -> None:
        self._services = services
        self._config = services.config.topics
        self._links = links
        self._map = map_
        self._view = view
        self._is_missed = is_missed
        self.began_at: float | None = None
        """When this broker was asked to go."""

    def begin(self, now: float) -> bool:
        """The broker is to go; whether that is news."""
        if self.began_at is not None:
            return False
        self.began_at = now
        name = self._services.config.id
        self._services.sessions.closed_reason = f"broker {name!r} leaves the overlay"
        return True

    def cancel(self) -> None:
        """Whoever has started the broker again wants it to stay."""
        self.began_at = None
        self._services.sessions.closed_reason = ""

    def may_go(self, now: float) -> bool:
        """Whether everybody is connected without this broker, and has what it had to send.
        O(topics x links); `count_left_behind` belongs to going."""
        if self.began_at is None or now - self.began_at < 4 * self._config.settle_s:
            return False
        if now - self.began_at > self._config.linger_s + self._config.hand_over_s:
            sometimes(Branch.LEAVES_UNFINISHED)
            return True
        links = self._services.sessions.links.values()
        if any(link.queue_messages or link.pending for link in links):
            return False
        view, own = self._view(), self._map.records[self._services.config.id]
        is_expected = view.is_connected and own.is_leaving
        return is_expected and not self._held() and self._has_company_or_nothing

    @property
    def _has_company_or_nothing(self) -> bool:
        routing = self._services.routing
        return any(
            link.is_established for link in self._services.sessions.links.values()
        ) or not any(routing.logs[topic].kept for topic in routing.topics)

    def count_left_behind(self) -> None:
        """The broker goes: what nobody else has of it is lost. O(kept + what is under way)."""
        routing = self._services.routing
        for topic in routing.topics:
            if self._others(topic) or self._is_missed(topic):
                left = routing.logs[topic].keys.copy()
                for link in self._wanting(topic):
                    left &= {message.key for message in _under_way(link, topic)}
                self._services.counters.publications_lost_at_most += len(left)

    def seek(self, now: float) -> None:
        """Open links to those for whom this broker stays."""
        if self.began_at is None:
            return
        present = self._view().present
        for topic in self._held():
            there = [broker for broker in self._others(topic) if broker in present]
            if there and not any(broker in self._links.links for broker in there):
                self._links.open(there[0], now)

    # --- one topic ---------------------------------------------------------------------------

    def is_through(self, topic: str) -> bool:
        """Whether what was published here has come to others, or there is nothing, or nobody:
        a publisher that has left does not ask any more. O(links + what is under way)."""
        routing = self._services.routing
        if not routing.logs[topic].kept:
            return True
        if self._is_missed(topic) or self.holds(topic) or not self._has_asked(topic):
            return False
        return topic not in self._view().pieces and not any(
            _under_way(link, topic) for link, wanted in routing.wanted.items() if topic in wanted
        )

    def _has_asked(self, topic: str) -> bool:
        """Whether a neighbor has answered for a topic: what it wants itself, and the map, it has
        told before. A broker that was alone so far knows of nobody, but that may be its ignorance.
        """
        routing = self._services.routing
        return any(
            link.is_established and routing.is_opened(link, topic) for link in routing.wanted
        )

    def holds(self, topic: str) -> bool:
        """Whether publications are kept here for brokers of which none is a neighbor now, or for
        the ring."""
        if not self._services.routing.logs[topic].kept or self._wanting(topic):
            return False
        return bool(self._others(topic)) or self._is_missed(topic)

    def _held(self) -> list[str]:
        return [topic for topic in self._services.routing.topics if self.holds(topic)]

    def _wanting(self, topic: str) -> list[Session]:
        """Links that stand to brokers that take part in a topic."""
        wanted = self._services.routing.wanted.items()
        return [link for link, topics in wanted if link.is_established and topic in topics]

    def _others(self, topic: str) -> list[BrokerId]:
        """Who else takes part in a topic and stays, as far as anybody has told; also those gone:
        they may only be cut off."""
        own = self._services.config.id
        return sorted(
            broker
            for broker, record in self._map.records.items()
            if broker != own and not record.is_leaving and topic in record.topics
        )


def _under_way(link: Session, topic: str) -> list[Publication]:
    """What the far end of a link has yet to confirm of a topic."""
    return [
        message
        for message in (*link.unacked, *link.waiting, *link.pending)
        if isinstance(message, Publication) and message.topic == topic
    ]
