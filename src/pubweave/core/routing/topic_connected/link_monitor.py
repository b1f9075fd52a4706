"""Link monitor: the failure detector of a topic-connected or rendezvous overlay.

A link is lost when it has no connection for too long, or never gets one. Then its session ends and
a new one replaces it: a broker that was only cut off reconnects, with an empty session. Of two
brokers the one with the smaller id dials; the other one, if it opens the link, dials once
(``dial_once``), and the connection is used like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import CloseLink, OpenLink
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId

Age = tuple[int, int]
"""Of a record (`BrokerRecord.age`)."""
NO_AGE: Age = (0, 0)


@dataclass
class WatchedLink:
    """The state of one link."""

    up_at: float
    """When it was last established, or created."""
    limit_s: float
    """How long it may be down."""
    has_stood: bool = False
    is_probe: bool = False
    """Opened to probe the far end: it does not count before it is established."""
    lost_at: float | None = None
    lost_age: Age = NO_AGE
    """Of the last record of the far end when it was lost."""
    dialed_once_at: float = 0.0
    dialed_at: str | None = None
    """The address that the driver was told to dial."""

    @property
    def is_lost(self) -> bool:
        return self.lost_at is not None


class LinkMonitor:
    """All links of a broker; ``address_of`` and ``age_of`` ask the map."""

    def __init__(
        self,
        services: BrokerServices[TopicRouting],
        address_of: Callable[[BrokerId], str],
        age_of: Callable[[BrokerId], Age] = lambda broker: NO_AGE,
    ) -> None:
        self._services = services
        self._config = services.config.topics
        self._address_of = address_of
        self._age_of = age_of
        self.links: dict[BrokerId, WatchedLink] = {}
        self.lasting: frozenset[BrokerId] = frozenset()
        """Neighbors that are never given up."""

    @property
    def own(self) -> BrokerId:
        return self._services.config.id

    def standing(self) -> tuple[BrokerId, ...]:
        """Links that are established, or about to be."""
        return tuple(
            sorted(
                neighbor
                for neighbor, link in self.links.items()
                if not link.is_lost and (link.has_stood or not link.is_probe)
            )
        )

    @property
    def has_strangers(self) -> bool:
        """Whether a neighbor has never answered: it is unknown what that one misses."""
        return any(not link.has_stood and not link.is_probe for link in self.links.values())

    def lost(self) -> tuple[tuple[BrokerId, int, int], ...]:
        """Lost links, each with the age of the far end's record at that time."""
        return tuple(
            sorted((name, *link.lost_age) for name, link in self.links.items() if link.is_lost)
        )

    # --- opening ---------------------------------------------------------------------------

    def added(self, neighbor: BrokerId, now: float) -> None:
        """The driver added a link; it dials by itself if that is up to us."""
        # The far end may not know of us: if it is to dial, we dial once at the next check.
        before = now - self._config.knock_after_s
        limit_s = self._config.start_limit_s
        self.links[neighbor] = WatchedLink(now, limit_s, dialed_once_at=before, dialed_at="")

    def accept(self, neighbor: BrokerId, now: float) -> None:
        """A broker that is not a neighbor sent Hello: it becomes one."""
        self._make_session(neighbor, now)
        self.links[neighbor] = WatchedLink(now, self._config.open_limit_s, dialed_once_at=now)

    def open(self, neighbor: BrokerId, now: float, *, is_probe: bool = False) -> None:
        """Open a link that repair has chosen, or a probe."""
        self._make_session(neighbor, now)
        link = WatchedLink(now, self._config.open_limit_s, is_probe=is_probe)
        self.links[neighbor] = link
        self._dial(neighbor, link, now)

    def _make_session(self, neighbor: BrokerId, now: float) -> None:
        session = self._services.sessions.add_link(neighbor)
        if session is not None:
            self._services.routing.link_added(session)
            self._services.teardown.link_changed(neighbor, True, now)

    def _dial(self, neighbor: BrokerId, link: WatchedLink, now: float) -> None:
        address = self._address_of(neighbor)
        if self.own > neighbor:
            link.dialed_once_at = now
            self._services.emit(OpenLink(neighbor, address, dial_once=True))
        elif link.dialed_at is None or (address and link.dialed_at not in ("", address)):
            link.dialed_at = address
            self._services.emit(OpenLink(neighbor, address))

    def excuse(self, seconds: float) -> None:
        """Extend all times by a local pause."""
        for link in self.links.values():
            link.up_at += seconds
            link.dialed_once_at += seconds
            if link.lost_at is not None:
                link.lost_at += seconds

    def restored(self, now: float) -> None:
        """This broker was restored: dial all links again, with full time limits."""
        for neighbor, link in self.links.items():
            link.up_at = now
            link.limit_s = max(link.limit_s, self._config.open_limit_s)
            link.lost_at = None if link.lost_at is None else now
            link.dialed_at = None
            self._dial(neighbor, link, now)

    def refused(self, neighbor: BrokerId, now: float) -> bool:
        """A neighbor refuses connections: it is lost at once, unless it may still be starting.
        Whether it is lost now."""
        link, session = self.links.get(neighbor), self._services.sessions.links.get(neighbor)
        if link is None or link.is_lost or session is None or session.is_established:
            return False
        if not link.has_stood and link.limit_s > self._config.open_limit_s:
            return False
        self._lose(neighbor, link, session, now)
        return True

    # --- by the clock ----------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Check which links are established and which are lost; O(links)."""
        for neighbor, link in list(self.links.items()):
            session = self._services.sessions.links.get(neighbor)
            if session is None:
                del self.links[neighbor]
            elif session.is_established:
                self._on_up(neighbor, link, session, now)
            elif link.lost_at is None and now - link.up_at > link.limit_s:
                self._lose(neighbor, link, session, now)
            elif self._is_given_up(neighbor, link, now):
                self.discard(neighbor, now)
            elif self._may_dial(neighbor, link, now):
                self._dial(neighbor, link, now)

    def _is_given_up(self, neighbor: BrokerId, link: WatchedLink, now: float) -> bool:
        if link.lost_at is None or neighbor in self.lasting:
            return False
        return now - link.lost_at > self._config.forget_after_s

    def _may_dial(self, neighbor: BrokerId, link: WatchedLink, now: float) -> bool:
        """Whether this broker dials now: the smaller id at once, the other one at intervals."""
        if self.own < neighbor:
            return bool(self._address_of(neighbor))
        every_s = self._config.knock_after_s * (5 if link.is_lost else 1)
        return now - link.dialed_once_at > every_s

    def _on_up(self, neighbor: BrokerId, link: WatchedLink, session: Session, now: float) -> None:
        link.up_at = now
        link.has_stood = True
        link.limit_s = self._config.lost_after_s
        link.lost_at = None
        if session.queue_bytes > self._config.queue_limit_bytes:
            sometimes(Branch.LINK_QUEUE_FULL)
            self._lose(neighbor, link, session, now)

    def _lose(self, neighbor: BrokerId, link: WatchedLink, session: Session, now: float) -> None:
        """Replace the session; what was queued for the neighbor is in the topic logs."""
        self._services.routing.link_removed(session)
        self._services.teardown.end(session, "the link is lost", now)
        self._make_session(neighbor, now)
        link.lost_at = now
        link.lost_age = self._age_of(neighbor)

    def discard(self, neighbor: BrokerId, now: float) -> None:
        """Remove the link for good."""
        session = self._services.sessions.links.get(neighbor)
        if session is not None:
            self._services.routing.link_removed(session)
            self._services.teardown.end(session, "the link is over", now)
        del self.links[neighbor]
        self._services.teardown.link_changed(neighbor, False, now)
        self._services.emit(CloseLink(neighbor))
