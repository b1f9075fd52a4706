"""Tells clients when everything on the topics of their subscriptions comes here (`Confirmed`).

What that takes is up to the strategy, which says whether a topic is reached. An acknowledgement
may be given without it, when it has waited for long enough (`subscribe_barrier`); a confirmation
waits for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.model.ids import SubscriptionId
from pubweave.model.messages.session import Confirmed


class TopicConfirmations:
    """The subscriptions that are not confirmed yet, by topic."""

    def __init__(
        self, services: BrokerServices[TopicRouting], is_reached: Callable[[str], bool]
    ) -> None:
        self._services = services
        self._is_reached = is_reached
        self._open: dict[str, list[SubscriptionId]] = {}

    def subscribed(self, client: Session, topic: str, id_: SubscriptionId) -> None:
        """A client has subscribed."""
        if self._is_reached(topic):
            self._services.send(client, Confirmed((id_,)))
        else:
            self._open.setdefault(topic, []).append(id_)

    def check(self) -> None:
        """Confirm what is reached by now; forget what was withdrawn. O(open subscriptions)."""
        known = self._services.routing.subscriptions
        for topic, ids in list(self._open.items()):
            ids[:] = [id_ for id_ in ids if id_ in known]
            if ids and not self._is_reached(topic):
                continue
            del self._open[topic]
            for id_ in ids:
                self._services.send(known[id_].client, Confirmed((id_,)))
