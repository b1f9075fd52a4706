"""A topic-connected overlay whose clients lose their brokers: what stays due to them, and whether
subscriptions are acknowledged too early.

Clients that come to another broker get there what was published meanwhile, so nothing is excused.
And an acknowledged subscription means that its broker is connected in the topic: that is held
against the truth whenever nothing has happened to the overlay for a while.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pubweave.core.routing.topic_connected.membership_map import pieces_of
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.core.vocabulary.events import Event
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Ack
from pubweave.model.publications import Publication
from pubweave.sim.kernel.nodes import SimBroker, SimClient
from pubweave.sim.overlays.topic_connected import (
    TopicOverlay,
    TopicSimBroker,
    repair_of,
    routing_of,
)

CALM_S = 2.0
"""Maps are true after so long without anything new."""
SETTLED_S = 1.0
"""A broker that has wanted a topic for so long is known to all."""


class ChurnSimBroker(TopicSimBroker):
    """A broker whose acknowledgements are looked at."""

    overlay: ChurnOverlay

    def core_effects(self, event: Event, now: float) -> list[Effect]:
        given_up = repair_of(self.broker).waits.given_up
        effects = super().core_effects(event, now)
        if repair_of(self.broker).waits.given_up == given_up:
            for effect in effects:
                if isinstance(effect, Transmit) and any(type(m) is Ack for m in effect.messages):
                    session = self.broker.sessions.of(effect.connection)
                    if session is not None and session.is_client:
                        self.overlay.acknowledged(self, session, now)
        return effects


class ChurnOverlay(TopicOverlay):
    """Brokers and clients of one run of the scenario `churn`."""

    broker_type: type[SimBroker] = ChurnSimBroker

    def __init__(self, *args: Any, **options: Any) -> None:
        """As `SimOverlay`."""
        self._heard: dict[str, set[str]] = {}
        """By client that lost a broker: the subscriptions which that one had taken in."""
        self._established_at: dict[str, BrokerId] = {}
        self._acknowledged: set[tuple[str, str]] = set()
        """Subscriptions that have been acknowledged, with the broker that did."""
        super().__init__(*args, **options)

    # --- clients without a broker ----------------------------------------------------------

    def bereave(self, client: SimClient) -> None:
        """What a client has subscribed to at the broker that it loses stays due."""
        core = client.home.known_core
        heard = () if core is None else routing_of(core).subscriptions
        known = self._heard.setdefault(client.name, set())
        known.update(id_ for id_ in client.core.subscriptions if id_ in heard)

    def _on_session(self, client: SimClient, resumed: bool) -> None:
        """Nothing is excused: a client that comes to another broker gets there what it missed.
        Lost is a session of a client that has stayed where it was."""
        before = self._established_at.get(client.name)
        self.sessions_lost += not resumed and before == client.home.name
        self._established_at[client.name] = client.home.name

    def _is_heard(self, name: str, publication: Publication) -> bool:
        """Also if a broker has heard it that is gone."""
        before: Collection[str] = self._heard.get(name, ())
        return super()._is_heard(name, publication) or any(
            id_ in before and filter_.matches(publication)
            for id_, filter_ in self.clients[name].core.subscriptions.items()
        )

    # --- acknowledgements ------------------------------------------------------------------

    def acknowledged(self, broker: SimBroker, client: Session, now: float) -> None:
        """A client's subscriptions are acknowledged: is its broker connected in their topics?"""
        found = routing_of(broker.broker).subscriptions.items()
        topics = {
            claim.topic
            for id_, claim in found
            if claim.client is client and (id_, broker.name) not in self._acknowledged
        }
        self._acknowledged.update((id_, broker.name) for id_, c in found if c.client is client)
        if now - self.calm_since < CALM_S:
            return
        for topic in sorted(topics):
            others = [b for b in self.brokers if self._wants_long(topic, b, now)]
            self.acknowledgements_checked += any(other != broker.name for other in others)
            pieces = self._pieces_around(broker, topic)
            if any(pieces.get(other) != pieces[broker.name] for other in others):
                self.early.append(
                    f"{now:.3f} {broker.name} acknowledges {client.remote}'s subscription to "
                    f"{topic} before it is connected with {sorted(others)}"
                )

    def _pieces_around(self, broker: SimBroker, topic: str) -> dict[BrokerId, int]:
        """The pieces of a topic if links count that others are opening: what is published
        meanwhile comes over them, and a broker cannot see from afar that they do not stand."""
        taking = [
            name
            for name, node in self.brokers.items()
            if node.core is not None and topic in routing_of(node.core).topics
        ]
        ways = {
            name: [o for o in taking if self._flows(name, o, topic) and self._flows(o, name, topic)]
            for name in taking
        }
        for one in taking:
            for other in repair_of(self.brokers[one].broker).own.links:
                if other in ways and broker.name not in (one, other):
                    ways[one].append(other)
                    ways[other].append(one)
        return pieces_of(taking, ways)

    def _flows(self, near: BrokerId, far: BrokerId, topic: str) -> bool:
        """Whether what one broker gets of a topic goes to another, now or as soon as their session
        has a connection again: it may just be changing from one to the next."""
        core = self.brokers[near].broker
        session = core.sessions.links.get(far)
        return session is not None and topic in routing_of(core).wanted.get(session, ())

    def _wants_long(self, topic: str, broker: BrokerId, now: float) -> bool:
        since = self.wanted_since.get((topic, broker))
        return since is not None and now - since > SETTLED_S
