"""What the repair of a topic-connected overlay may use of its broker."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.teardown import SessionTeardown
from pubweave.core.metering.counters import Counters
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import Effect
from pubweave.model.messages.session import SequencedMessage


@dataclass(frozen=True)
class TopicServices:
    """The interface of `topic_connected/repair` and `topic_connected/link_monitor` to their
    broker."""

    config: BrokerConfig
    sessions: SessionTable
    routing: TopicRouting
    counters: Counters
    outgoing: OutgoingQueue
    teardown: SessionTeardown

    def send(self, session: Session, message: SequencedMessage) -> None:
        """Queue a message for a session; it is sent at the end of the current event."""
        self.outgoing.send(session, message)

    def emit(self, effect: Effect) -> None:
        self.outgoing.effects.append(effect)
