"""What can happen to a broker or a client: the closed vocabulary that enters the core."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pubweave.model.ids import ActionId, BrokerId
from pubweave.model.messages import Message
from pubweave.model.plans import Action

ConnectionId = int
"""A driver's number for one connection; never used twice."""


class ConnectionOpened(msgspec.Struct, frozen=True, gc=False):
    """A connection stands. ``neighbor`` names the broker we dialed; None: somebody dialed us."""

    connection: ConnectionId
    neighbor: BrokerId | None = None


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


class LinkAdded(msgspec.Struct, frozen=True, gc=False):
    """The topology now has a link from this broker to ``neighbor``."""

    neighbor: BrokerId


class LinkRemoved(msgspec.Struct, frozen=True, gc=False):
    """The topology no longer has a link from this broker to ``neighbor``."""

    neighbor: BrokerId


class ActionRequested(msgspec.Struct, frozen=True):
    """This broker is to lead an action of a plan. Asked again while it is under way: ignored."""

    action_id: ActionId
    action: Action


class ActionDecided(msgspec.Struct, frozen=True, gc=False):
    """The store says how an action ends; this is final and may be heard several times."""

    action_id: ActionId
    committed: bool


class DeadlineReached(msgspec.Struct, frozen=True, gc=False):
    """The instant that ``next_deadline()`` named has come."""


Event = (
    ConnectionOpened
    | ConnectionClosed
    | MessagesReceived
    | LinkAdded
    | LinkRemoved
    | ActionRequested
    | ActionDecided
    | DeadlineReached
)
