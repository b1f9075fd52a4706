"""The history of a run as its clients see it: events with instants, in their order.

Nothing here says what a broker holds or knows, but for two things that no client can see: that a
broker died with its memory, and what its queues held when it did.
"""

from __future__ import annotations

import msgspec

from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, ClientId, SubscriptionId
from pubweave.model.publications import Publication

Key = tuple[ClientId, int]
"""Publisher and sequence: which publication."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened at an instant."""

    at: float


class Subscribed(Event, frozen=True, gc=False):
    """A client asked for something."""

    client: ClientId
    id: SubscriptionId
    filter: Filter


class Assured(Event, frozen=True, gc=False):
    """A client heard that from now on everything reaches these subscriptions."""

    client: ClientId
    ids: tuple[SubscriptionId, ...]


class Withdrawing(Event, frozen=True, gc=False):
    """A client takes a subscription back."""

    client: ClientId
    id: SubscriptionId


class Withdrawn(Event, frozen=True, gc=False):
    """Its broker has acknowledged that: nothing published later may come for it."""

    client: ClientId
    id: SubscriptionId


class Published(Event, frozen=True, gc=False):
    """A client made a publication, under an advertisement of its own."""

    publication: Publication
    advertisement: str


class Acknowledged(Event, frozen=True, gc=False):
    """A publisher's broker has acknowledged all its publications up to a sequence."""

    publisher: ClientId
    through: int


class Delivered(Event, frozen=True, gc=False):
    """A publication reached the application of a client."""

    client: ClientId
    publication: Publication


class ToldMissed(Event, frozen=True, gc=False):
    """A client was told that so many publications are lost to it."""

    client: ClientId
    publisher: ClientId
    topic: str
    count: int
    at_most: bool


class ToldGap(Event, frozen=True, gc=False):
    """A client saw by itself that it has missed something between two publications."""

    client: ClientId
    publisher: ClientId
    topic: str
    after: int
    before: int


class Attached(Event, frozen=True, gc=False):
    """A client's session with a broker stands: it went on, or it began (perhaps anew)."""

    client: ClientId
    broker: BrokerId
    is_resumed: bool


class ToldToMove(Event, frozen=True, gc=False):
    """A client was told to go to another broker, and gives its session up if wishes outlive it."""

    client: ClientId


class Left(Event, frozen=True, gc=False):
    """A client is gone for good."""

    client: ClientId


class Crashed(Event, frozen=True, gc=False):
    """A broker died, and its memory with it."""

    broker: BrokerId


class Lost(Event, frozen=True, gc=False):
    """What a broker that died held of these is gone."""

    keys: frozenset[Key]


class AtRest(Event, frozen=True, gc=False):
    """Nothing is under way: whatever is due must have come. With what brokers have counted in all:
    deliveries lost, and sessions that expired."""

    lost: int
    expired: int


History = list[Event]
