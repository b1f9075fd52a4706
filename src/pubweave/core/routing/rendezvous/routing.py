"""The strategy `rendezvous`: publications go to their topic's rendezvous and down its tree.

Of whom a broker wants which topic is decided in `rendezvous/trees`; how it then gets everything
once and in order is the same as in a topic-connected overlay (`topic_connected/routing`), but that
there wishes are mutual and here they have a direction: a broker wants a topic of those below it
that have publications for the rendezvous, and of the one above it in the tree. Before a publication
a neighbor has got all that precede it, whatever links come and go; copies are dropped by publisher,
topic and sequence.
"""

from __future__ import annotations

from pubweave.core.routing.strategy import Send
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL


class RendezvousRouting(TopicRouting):
    """See `strategy.RoutingStrategy` for the contract of each method."""

    protocol = RENDEZVOUS_PROTOCOL

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self.published_lately: dict[str, None] = {}
        """Topics that clients may publish on, or could since the last check by maintenance."""

    def wants_of(self, link: Session, topic: str) -> bool:
        return topic in self.asked.get(link, ())

    def begin(self, topic: str) -> None:
        if topic not in self.topics:
            self.topics[topic] = None
            self.logs.begin(topic, self.now)
            self._changes += 1

    def end(self, topic: str) -> None:
        self._forget(topic)

    def hold(self, topic: str) -> None:
        self._claim(topic, self.subscribed)
        self._claim(topic, self.advertised)

    def release(self, topic: str) -> None:
        self._release(topic, self.subscribed)
        self._release(topic, self.advertised)

    def _claim(self, topic: str, among: dict[str, int]) -> None:
        """Subscribing and advertising differ here: each is told of."""
        super()._claim(topic, among)
        if among is self.advertised:
            self.published_lately[topic] = None
        if among[topic] == 1:
            self.on_change()

    def _release(self, topic: str, among: dict[str, int]) -> None:
        super()._release(topic, among)
        if topic not in among:
            self.on_change()

    def askers(self, topic: str) -> list[BrokerId]:
        """The neighbors that want a topic of us."""
        return [link.remote for link, wanted in self.wanted.items() if topic in wanted]
