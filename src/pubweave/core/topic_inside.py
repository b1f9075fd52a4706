"""What the repair of a topic-connected overlay may use of its broker."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.core.broker_config import BrokerConfig
from pubweave.core.counters import Counters
from pubweave.core.effects import Effect
from pubweave.core.endings import Endings
from pubweave.core.sending import Sending
from pubweave.core.session import Session
from pubweave.core.session_table import SessionTable
from pubweave.core.topic_routing import TopicRouting
from pubweave.model.messages import SequencedMessage


@dataclass(frozen=True)
class TopicInside:
    """`topic_repair` and `topic_link_watch` reach into the broker only through this."""

    config: BrokerConfig
    sessions: SessionTable
    routing: TopicRouting
    counters: Counters
    sending: Sending
    endings: Endings

    def send(self, session: Session, message: SequencedMessage) -> None:
        """Queue a message for a session; it leaves when the current event is done."""
        self.sending.send(session, message)

    def emit(self, effect: Effect) -> None:
        self.sending.effects.append(effect)
