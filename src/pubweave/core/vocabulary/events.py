"""What can happen to a broker or a client: the closed vocabulary that enters the core."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pubweave.model.deployment import RemapStep
from pubweave.model.ids import ActionId, BrokerId, ClientId
from pubweave.model.messages.rendezvous import Occupant
from pubweave.model.messages.session import Message
from pubweave.model.mqtt_packets import FromClient
from pubweave.model.plans import Action
from pubweave.model.records.access import AccessRules

ConnectionId = int
"""A driver's number for one connection; never used twice."""

LOCAL_PAUSE_S = 1.0
"""A driver whose timer is later than this tells its core so (`LocalPauseEnded`)."""


class ConnectionOpened(msgspec.Struct, frozen=True, gc=False):
    """A connection stands. ``neighbor`` names the broker we dialed; None: somebody dialed us.

    ``certified`` is what the far end's certificate says (`model.records.access.Certified`), if it
    showed one."""

    connection: ConnectionId
    neighbor: BrokerId | None = None
    certified: str = ""


class ConnectionClosed(msgspec.Struct, frozen=True, gc=False):
    """A connection is gone, whoever ended it."""

    connection: ConnectionId


class MessagesReceived(msgspec.Struct, frozen=True):
    """Messages came in on one connection, in this order, at ``received_at``.

    The driver hands over everything one read brought, so that the cost of an event is shared.
    """

    connection: ConnectionId
    messages: Sequence[Message]
    received_at: float


class LoginReceived(msgspec.Struct, frozen=True, gc=False):
    """A client wants to be ``user`` and sent a password. That stays with the driver: events are
    written down."""

    connection: ConnectionId
    user: str


class PasswordVerified(msgspec.Struct, frozen=True, gc=False):
    """The password that came on a connection (`VerifyPassword`) is that of ``user``; None: it is
    not that of the user who was named."""

    connection: ConnectionId
    user: str | None


class AccessChanged(msgspec.Struct, frozen=True):
    """Other rules hold from here on; None: whoever is let in may do everything."""

    rules: AccessRules | None


class MqttOpened(msgspec.Struct, frozen=True, gc=False):
    """A connection stands at the door for MQTT clients; ``certified`` as in `ConnectionOpened`."""

    connection: ConnectionId
    certified: str = ""


class PacketsReceived(msgspec.Struct, frozen=True):
    """MQTT packets came in on one connection, everything that one read brought."""

    connection: ConnectionId
    packets: Sequence[FromClient]


class WritingPaused(msgspec.Struct, frozen=True, gc=False):
    """An MQTT client has too much that it has not read yet, or has read most of it again."""

    connection: ConnectionId
    is_paused: bool


class LinkAdded(msgspec.Struct, frozen=True, gc=False):
    """The topology now has a link from this broker to ``neighbor``."""

    neighbor: BrokerId


class DialRefused(msgspec.Struct, frozen=True, gc=False):
    """Nobody listens where ``neighbor`` should: its machine says so."""

    neighbor: BrokerId


class LinkRemoved(msgspec.Struct, frozen=True, gc=False):
    """The topology no longer has a link from this broker to ``neighbor``."""

    neighbor: BrokerId


class LinkExpected(msgspec.Struct, frozen=True, gc=False):
    """An action whose turn has yet to come will bring a link to ``neighbor``: connect already.

    Told to both ends; `ActionDecided` ends it if the action comes to nothing."""

    action_id: ActionId
    neighbor: BrokerId


class ActionRequested(msgspec.Struct, frozen=True):
    """This broker is to lead an action of a plan. Asked again while it is under way: ignored."""

    action_id: ActionId
    action: Action


class ActionDecided(msgspec.Struct, frozen=True, gc=False):
    """The store says how an action ends; this is final and may be heard several times."""

    action_id: ActionId
    committed: bool


class ExchangeEnded(msgspec.Struct, frozen=True):
    """What became of an exchange that this broker agreed to (`ProposeExchange`)."""

    request_id: str
    done: bool
    reason: str = ""


class BrokerProbed(msgspec.Struct, frozen=True, gc=False):
    """A broker that is no neighbor was probed: its round-trip time, None if it did not answer."""

    broker: BrokerId
    rtt_ms: float | None


class MigrationRequested(msgspec.Struct, frozen=True, gc=False):
    """This broker is to move a client of its to another broker."""

    client: ClientId
    destination: BrokerId


class LeaveRequested(msgspec.Struct, frozen=True, gc=False):
    """This broker of a topic-connected overlay is to go, once the others can do without it."""


class RemapAnnounced(msgspec.Struct, frozen=True):
    """The brokers of a rendezvous overlay are remapped, under this version, and this is how far
    that is. May be heard again, and steps may be left out: whatever was before is to be done."""

    version: int
    step: RemapStep
    mapping: tuple[Occupant, ...]


class DeadlineReached(msgspec.Struct, frozen=True, gc=False):
    """The instant that ``next_deadline()`` named has come."""


class LocalPauseEnded(msgspec.Struct, frozen=True, gc=False):
    """The process did not run for so long (stopped, suspended, starved): its timer came that much
    too late. Others spoke meanwhile and were not heard, so their silence says nothing of them."""

    seconds: float


class HandlingMeasured(msgspec.Struct, frozen=True, gc=False):
    """The driver measured what a message takes to handle, in the mean of late."""

    message_ms: float


class HandlingFailed(msgspec.Struct, frozen=True, gc=False):
    """The event before this one raised: a bug of ours. What it caused until then is to be carried
    out, for sessions count it as sent."""


class ProcessRestarted(msgspec.Struct, frozen=True, gc=False):
    """A broker came back from its journal, in a new process; ``epoch`` as for a new broker."""

    epoch: int


class AddressKnown(msgspec.Struct, frozen=True, gc=False):
    """Clients reach this broker at ``address``, in the words of its driver."""

    address: str


class OrganizingPaused(msgspec.Struct, frozen=True, gc=False):
    """An operator wants a self-organizing broker to leave the links alone, or no longer does."""

    is_paused: bool


class EntryRefused(msgspec.Struct, frozen=True, gc=False):
    """The driver turned somebody away; why, as in `session.admission.Refusal`."""

    refusal: str


class DriverCounted(msgspec.Struct, frozen=True, gc=False):
    """The driver counted what the core cannot see. ``counter`` names what it counted, as in
    `model.records.status.CounterStatus`, and ``count`` says how many more of it there are."""

    counter: str
    count: int


class LeaveEnded(msgspec.Struct, frozen=True, gc=False):
    """A broker that was to leave goes now, whether it may or was waited for long enough."""


DriverReport = HandlingMeasured | AddressKnown | OrganizingPaused | EntryRefused | DriverCounted
"""What a driver found out by itself; it has no effects."""
Event = (
    ConnectionOpened
    | ConnectionClosed
    | MessagesReceived
    | LoginReceived
    | PasswordVerified
    | AccessChanged
    | MqttOpened
    | PacketsReceived
    | WritingPaused
    | LinkAdded
    | LinkRemoved
    | DialRefused
    | LinkExpected
    | ActionRequested
    | ActionDecided
    | ExchangeEnded
    | BrokerProbed
    | MigrationRequested
    | LeaveRequested
    | RemapAnnounced
    | DeadlineReached
    | LocalPauseEnded
    | HandlingFailed
    | ProcessRestarted
    | LeaveEnded
    | DriverReport
)
