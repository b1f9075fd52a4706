"""What the doors of an overlay say to each other, as values; `cluster/gossip` carries them."""

from __future__ import annotations

import enum
import functools
import operator
import zlib
from collections.abc import Iterable

import msgspec

from pubweave.core.mqtt.session.inflight import Delivery, InflightDelivery
from pubweave.core.mqtt.session.shared_groups import GroupMember
from pubweave.core.mqtt.session.subscriptions import MqttSubscription
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import Publication, make_publication

Mark = tuple[ClientId, str, int]
"""A publisher, a topic, and the last sequence of it there."""


class Subject(enum.Enum):
    """What doors know of each other."""

    RETAINED = "retained"
    MEMBERS = "members"
    SESSIONS = "sessions"
    WILD = "wild"


class StateDigest(msgspec.Struct, frozen=True, array_like=True, tag="here"):
    """What a door has, in short: digests of what it retains, and of its members and sessions; how
    it marks what leaves the overlay over a bridge (`protocol/bridge_marks`); how many bridges it
    has; and a digest of what it takes of wild topics."""

    address: str
    retained: int
    members: int
    sessions: int
    wants_answer: bool = False
    mark: str = ""
    bridges: int = 0
    wild: int = 0


class PullRequest(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """One door asks another for all that it has."""

    door: BrokerId
    subject: Subject


class Retain(msgspec.Struct, frozen=True, array_like=True, tag="retain"):
    """Publications to be retained, or cleared, by all."""

    publications: tuple[Publication, ...]


class Members(msgspec.Struct, frozen=True, array_like=True, tag="members"):
    """All members of groups at a door."""

    members: tuple[GroupMember, ...]


class WildcardInterests(msgspec.Struct, frozen=True, array_like=True, tag="takes"):
    """All wild topics (`protocol/wildcard_topics`) that sessions at a door take, each with the time
    since when."""

    topics: tuple[tuple[str, float], ...]


class SessionsHeld(msgspec.Struct, frozen=True, array_like=True, tag="holds"):
    """Sessions that outlive their connections are at this door now; ``is_all``: and what was
    there before is not."""

    sessions: tuple[str, ...]
    is_all: bool = False


class SessionsEnded(msgspec.Struct, frozen=True, array_like=True, tag="dropped"):
    """Sessions that were at this door are over."""

    sessions: tuple[str, ...]


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """The client of a session has connected here: whoever has it lets go; ``holder``, if anybody
    is named, hands over what belongs to it."""

    session: str
    since: float
    holder: BrokerId = ""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag="offer"):
    """Who has a session leaves the overlay: ``door`` is to keep it for the client; the handover
    follows."""

    door: BrokerId
    session: str
    since: float


class SessionHeader(msgspec.Struct, frozen=True, array_like=True):
    """What belongs to a session besides publications."""

    client_id: str
    user: str
    expiry_s: int
    subscriptions: tuple[MqttSubscription, ...]
    incoming: tuple[tuple[int, int], ...]
    last_id: int


class Handover(msgspec.Struct, frozen=True, array_like=True, tag="handover"):
    """A session on its way to ``door``, which claimed it or was offered it at ``since``, in parts;
    the first has the head, unless there is none. ``given`` is as in `HandoverTail`."""

    door: BrokerId
    session: str
    since: float
    head: SessionHeader | None
    numbered: tuple[InflightDelivery, ...] = ()
    waiting: tuple[Delivery, ...] = ()
    is_last: bool = True
    given: tuple[Mark, ...] = ()


class Arrived(msgspec.Struct, frozen=True, array_like=True, tag="arrived"):
    """A session that was claimed at ``since`` has been taken over from ``door``, and subscribes
    here now."""

    door: BrokerId
    session: str
    since: float


class HandoverTail(msgspec.Struct, frozen=True, array_like=True, tag="tail"):
    """What came for a session while it was on its way; from the last part on it is at ``door``
    and nowhere else. ``is_void``: it has gone another way, and what is there is worth nothing.

    ``given``: what the session has got lately, where the overlay routes by whole topics
    (`session/deduplicator`)."""

    door: BrokerId
    session: str
    parcels: tuple[Delivery, ...]
    is_last: bool = True
    is_void: bool = False
    given: tuple[Mark, ...] = ()


class Redirected(msgspec.Struct, frozen=True, array_like=True, tag="redirected"):
    """A client has been sent to another door: leave it alone for a while."""

    session: str


class Returned(msgspec.Struct, frozen=True, array_like=True, tag="returned"):
    """A client of ``door`` publishes again and again what ``bridge`` is sent
    (`bridges/loop_detector`)."""

    door: BrokerId
    session: str
    bridge: str
    topic: str
    is_proof: bool


MoveWord = (
    Redirected | SessionsHeld | SessionsEnded | Claim | Offer | Handover | Arrived | HandoverTail
)
Word = StateDigest | PullRequest | Retain | Members | WildcardInterests | Returned | MoveWord


def digest_of(names: Iterable[str]) -> int:
    """The same for the same names in any order. O(names).

    >>> digest_of(["a", "b"]) == digest_of(["b", "a"])
    True
    """
    return functools.reduce(operator.xor, (zlib.crc32(name.encode()) for name in names), 0)


def bare(publication: Publication) -> Publication:
    """Without what only the codec of a link needs."""
    return msgspec.structs.replace(publication, trace=0, size_bytes=0, encoded=b"")


def weighed(publication: Publication) -> Publication:
    """As it was before it went through a word."""
    return make_publication(
        publication.publisher,
        publication.sequence,
        publication.topic,
        publication.attributes,
        publication.payload,
        publication.published_at,
    )
