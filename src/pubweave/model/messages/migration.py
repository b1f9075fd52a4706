"""What brokers say to each other, and to the client, about the migration of a client.

All but `Redirect` and `RedirectReply` are sequenced messages between neighbors. They name the
whole way, so that a broker that has forgotten everything can pass them on. `core.migration` says
when each is said; docs/adr/0013-migration.md draws it.
"""

from __future__ import annotations

import enum
from typing import ClassVar

import msgspec

from pubweave.model.filters.filter import Filter
from pubweave.model.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId

SIGNAL_BYTES = 128
"""What a message about a migration is taken to weigh, entries aside."""


class Migration(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One client on its way along ``path``, from the broker that has it to the one that gets it.

    >>> Migration("b1/1.1", "quotes", ("b1", "b2", "b3")).hops
    2
    """

    id: str
    client: ClientId
    path: tuple[BrokerId, ...]
    most_clients: int = 0
    """If not 0: the destination refuses it when it has so many already."""

    @property
    def source(self) -> BrokerId:
        return self.path[0]

    @property
    def destination(self) -> BrokerId:
        return self.path[-1]

    @property
    def hops(self) -> int:
        return len(self.path) - 1


DECIDED = "decided"
PASSED = "passed"
"""Decided, and the update has come as far as the sender, or further towards the destination."""
SWITCHED = "switched"
"""Decided, and `moved` has passed the sender: so it had passed its neighbor before."""
TURNED = "turned"
"""Decided, and the sender has said `moved` to its neighbor; it says it again."""


class MigrationStep(enum.Enum):
    """What a signal says, and which way it goes: to the destination (>) or to the source (<)."""

    RESERVE = "reserve"
    """> Take part, if you can."""
    RESERVED = "reserved"
    """< All take part; the text is the destination's address."""
    BUSY = "busy"
    """< Somebody cannot take part now, but may later."""
    REFUSED = "refused"
    """< Somebody cannot take part at all."""
    ABORT = "abort"
    """> It comes to nothing: as if it had never been."""
    ASK = "ask"
    """< The sender's neighbor has forgotten everything: does the source still know of this?"""
    HOLD = "hold"
    """To a neighbor that has forgotten everything: you take part in this; DECIDED, PASSED,
    SWITCHED or TURNED if it has come so far."""
    MOVED = "moved"
    """< From here on whatever is for the client goes to the destination."""
    AGAIN = "again"
    """> Say `moved` again, behind what is on its way to you."""


class MigrationSignal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One of the closed set of things that brokers of a migration tell each other."""

    migration: Migration
    step: MigrationStep
    text: str = ""
    size_bytes: ClassVar[int] = SIGNAL_BYTES


class MigrationEntries(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some of what the client advertised and subscribed to; `MigrationUpdate` follows the last."""

    migration: Migration
    advertisements: tuple[tuple[AdvertisementId, Filter], ...]
    subscriptions: tuple[tuple[SubscriptionId, Filter], ...]

    @property
    def size_bytes(self) -> int:
        return SIGNAL_BYTES * (1 + len(self.advertisements) + len(self.subscriptions))


class MigrationUpdate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The paper's MUM, towards the destination: the client's last publication is in front of it,
    and so is every subscription that the destination needs from here."""

    migration: Migration
    size_bytes: ClassVar[int] = SIGNAL_BYTES


class MovedSession(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the session of the client and its old broker ended; the new one goes on there."""

    own_epoch: int
    remote_epoch: int
    remote_attempt: int
    received: int
    """How many of the client's messages were taken in."""
    sent: int
    """How many messages the client has acknowledged; there are no others."""


class MigrationComplete(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The paper's MCM, towards the destination: the old broker has let the client go.

    Without a ``session`` the client begins anew; ``is_gone``: it has left the overlay."""

    migration: Migration
    session: MovedSession | None
    last_sequence: int
    is_gone: bool = False
    size_bytes: ClassVar[int] = SIGNAL_BYTES


class MigrationSeek(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Looks for the way to a broker: floods the tree, ``path`` is the way so far. ``is_found``: it
    goes back on it."""

    number: str
    destination: BrokerId
    path: tuple[BrokerId, ...]
    is_found: bool = False
    size_bytes: ClassVar[int] = SIGNAL_BYTES


class Redirect(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker tells a client of another one: asks whether it can be reached (`RedirectReply`), or
    tells it to go there (``is_final``), after a pause of ``paused_ms``, ``hops`` away.

    ``token`` is the migration's id: by it the new broker knows that the old one let go."""

    token: str
    broker: BrokerId
    address: str
    is_final: bool
    paused_ms: float = 0.0
    hops: int = 0


class RedirectReply(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client's answer; an empty ``problem``: that broker can be reached."""

    token: str
    problem: str = ""


MigrationMessage = (
    MigrationSignal | MigrationEntries | MigrationUpdate | MigrationComplete | MigrationSeek
)
