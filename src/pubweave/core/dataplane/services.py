"""What the parts of a broker may use of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.dataplane.grace import GracePeriods
from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.publishing import RouteCache
from pubweave.core.dataplane.sequences import PublisherSequences
from pubweave.core.dataplane.tables import TableIntake
from pubweave.core.dataplane.teardown import SessionTeardown
from pubweave.core.metering.counters import Counters
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.mqtt.gateway import MqttGateway
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Hello, SequencedMessage

R_co = TypeVar("R_co", bound=RoutingStrategy, covariant=True)


@dataclass(frozen=True, kw_only=True)
class BrokerServices(Generic[R_co]):
    """All that a part can do to its broker. ``routing`` is what its own strategy made."""

    config: BrokerConfig
    epoch: int
    started_at: float
    routing: R_co
    sessions: SessionTable
    outgoing: OutgoingQueue
    flow: FlowControl
    teardown: SessionTeardown
    tables: TableIntake
    sequences: PublisherSequences
    routes: RouteCache
    grace: GracePeriods
    counters: Counters
    meter: BrokerMeter | None
    mqtt: MqttGateway | None
    greet: Callable[[ConnectionId, Hello, float], None]
    """Handle a Hello that had to wait."""

    @property
    def id(self) -> BrokerId:
        return self.config.id

    def send(self, session: Session, message: SequencedMessage) -> None:
        """Queue a message for a session; it is sent at the end of the current event."""
        self.outgoing.send(session, message)

    def emit(self, effect: Effect) -> None:
        self.outgoing.effects.append(effect)

    def flush(self, session: Session) -> None:
        """Transmit at once what is queued for a session."""
        session.flush(self.outgoing.effects)

    def relieve(self, session: Session) -> None:
        """Resume the sessions that a congested session held up."""
        self.flow.relieve(session, self.outgoing.effects)
