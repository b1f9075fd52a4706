"""What a broker or a client wants done: the closed vocabulary that leaves the core.

The driver carries effects out in the order of the list. Within one list, messages to one
connection keep their order; a `CloseConnection` comes after the last `Transmit` to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.deployment import RemapStep
from pubweave.model.ids import ActionId, BrokerId, ClientId, Link, SubscriptionId
from pubweave.model.messages.session import Message
from pubweave.model.mqtt_packets import ToClient
from pubweave.model.publications import Publication


class Transmit(msgspec.Struct, frozen=True):
    """Write these messages to a connection. A connection that is gone swallows them: the session
    keeps what was not acknowledged and transmits it again on the next one."""

    connection: ConnectionId
    messages: Sequence[Message]


class CloseConnection(msgspec.Struct, frozen=True, gc=False):
    """Close a connection after what was written to it has left."""

    connection: ConnectionId
    reason: str


class TransmitPackets(msgspec.Struct, frozen=True):
    """Write these packets to an MQTT client; its session knows what to do if it is gone."""

    connection: ConnectionId
    packets: Sequence[ToClient]


class PauseReading(msgspec.Struct, frozen=True, gc=False):
    """Let an MQTT client wait with what it sends, or go on: the overlay cannot take more."""

    connection: ConnectionId
    is_paused: bool


class VerifyPassword(msgspec.Struct, frozen=True, gc=False):
    """Compare the password that came on a connection with that of ``user``, out of everybody's
    way: it takes long on purpose. `PasswordVerified` tells."""

    connection: ConnectionId
    user: str


class EmitTelemetry(msgspec.Struct, frozen=True):
    """Hand records over, by table. Never waited for: telemetry must not hold up routing."""

    records: Mapping[str, list[tuple[Any, ...]]]


class ReportProblem(msgspec.Struct, frozen=True, gc=False):
    """Something outside the broker is wrong that only people can put right: log it."""

    text: str


class OpenLink(msgspec.Struct, frozen=True, gc=False):
    """An action needs a link to ``neighbor``: keep a connection standing (the smaller id dials).

    The core has made the session already; no `LinkAdded` is to follow. Where only the core knows
    the ``address`` it says so. If it ``dial_once``, dial once, whoever has the smaller id."""

    neighbor: BrokerId
    address: str = ""
    dial_once: bool = False


class CloseLink(msgspec.Struct, frozen=True, gc=False):
    """The link to ``neighbor`` is over: dial it no more."""

    neighbor: BrokerId


class DecideAction(msgspec.Struct, frozen=True, gc=False):
    """Record how an action ends, unless somebody has; `ActionDecided` tells what stands there."""

    action_id: ActionId
    commit: bool
    reason: str = ""


class ReportAction(msgspec.Struct, frozen=True, gc=False):
    """This broker's part of an action is over (``done``) or was given up (not ``done``)."""

    action_id: ActionId
    done: bool
    reason: str = ""
    held_messages: int = 0
    held_s: float = 0.0


class ReportRemap(msgspec.Struct, frozen=True, gc=False):
    """This broker has done a step of a remapping."""

    version: int
    step: RemapStep


class ProposeExchange(msgspec.Struct, frozen=True):
    """Have a link of a ring replaced by the one that closes it, as a plan of the overlay like any
    other; `ExchangeEnded` tells what became of it. ``ring`` leads from one end of the new link to
    the other along the tree."""

    request_id: str
    ring: tuple[BrokerId, ...]
    removed: Link


class ProbeBroker(msgspec.Struct, frozen=True, gc=False):
    """Find out how far a broker is to which there is no link; `BrokerProbed` tells."""

    broker: BrokerId


class Notify(msgspec.Struct, frozen=True):
    """Of a client core only: give these notifications to the application, in this order."""

    publications: Sequence[Publication]


class ReportRefusal(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: the broker did not accept something; tell the application."""

    subject: str
    reason: str


class ReportMissed(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: so many publications were lost to this client; tell the application.
    ``at_most``: the number is a bound."""

    topic: str
    publisher: ClientId
    count: int
    at_most: bool


class ReportGap(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: the publisher says that it published on this topic between what this
    client got last (``after``) and what comes next (``before``), both sequences; and a broker did
    not tell of it. Tell the application."""

    topic: str
    publisher: ClientId
    after: int
    before: int


class ReportConfirmed(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: from now on everything reaches this client that these subscriptions
    want; tell the application."""

    ids: tuple[SubscriptionId, ...]


class ReportSession(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: a session stands; ``resumed`` says whether nothing was forgotten."""

    resumed: bool


class TryBroker(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: find out whether a broker can be reached; `Client.tried` hears it."""

    token: str
    broker: BrokerId
    address: str


class FollowRedirect(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: the client belongs to another broker now: connect there."""

    broker: BrokerId
    address: str


class ReportMove(msgspec.Struct, frozen=True, gc=False):
    """Of a client core only: the session goes on at another broker, ``hops`` away, after a pause
    of ``wait_s`` in which nothing was taken in of what the application published."""

    broker: BrokerId
    wait_s: float
    hops: int


class ProbeBrokers(msgspec.Struct, frozen=True):
    """Of a client core only: find out how far brokers are, each with its address; `Client.probed`
    hears it."""

    number: int
    brokers: tuple[tuple[BrokerId, str], ...]


MoveEffect = TryBroker | FollowRedirect | ReportMove | ProbeBrokers
OrganizeEffect = ProposeExchange | ProbeBroker
ActionEffect = OpenLink | CloseLink | DecideAction | ReportAction | ReportRemap
Effect = (
    Transmit
    | CloseConnection
    | TransmitPackets
    | PauseReading
    | VerifyPassword
    | EmitTelemetry
    | ReportProblem
    | ActionEffect
    | OrganizeEffect
    | Notify
    | ReportRefusal
    | ReportMissed
    | ReportGap
    | ReportConfirmed
    | ReportSession
    | MoveEffect
)
