"""Messages between the MQTT gateways of an overlay; `cluster/gossip` carries them."""

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
    """What gateways know of each other."""

    RETAINED = "retained"
    MEMBERS = "members"
    SESSIONS = "sessions"
    WILDCARDS = "wild"


class StateDigest(msgspec.Struct, frozen=True, array_like=True, tag="here"):
    """Digests of what a gateway retains, its group members, sessions and wildcard interests; its
    mark for what leaves the overlay over a bridge (`protocol/bridge_marks`); its address and the
    number of its bridges."""

    address: str
    retained: int
    members: int
    sessions: int
    wants_answer: bool = False
    mark: str = ""
    bridges: int = 0
    interests: int = 0


class PullRequest(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """One gateway asks another for all that it has of a subject."""

    gateway: BrokerId
    subject: Subject


class Retain(msgspec.Struct, frozen=True, array_like=True, tag="retain"):
    """Publications that all gateways are to retain, or topics to clear."""

    publications: tuple[Publication, ...]


class Members(msgspec.Struct, frozen=True, array_like=True, tag="members"):
    """All group members at a gateway."""

    members: tuple[GroupMember, ...]


class WildcardInterests(msgspec.Struct, frozen=True, array_like=True, tag="takes"):
    """All wildcard topics (`protocol/wildcard_topics`) that sessions at a gateway want, each with
    the time since when."""

    topics: tuple[tuple[str, float], ...]


class SessionsHeld(msgspec.Struct, frozen=True, array_like=True, tag="holds"):
    """Sessions that outlive their connections are at this gateway now; ``is_all``: and no others
    but those announced from here on."""

    sessions: tuple[str, ...]
    is_all: bool = False


class SessionsEnded(msgspec.Struct, frozen=True, array_like=True, tag="dropped"):
    """Sessions that were at this gateway have ended."""

    sessions: tuple[str, ...]


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """The client of a session has connected here: any other gateway that has the session gives it
    up; ``holder``, if named, hands it over."""

    session: str
    since: float
    holder: BrokerId = ""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag="offer"):
    """The gateway that has a session leaves the overlay: ``gateway`` is to keep the session; the
    handover follows."""

    gateway: BrokerId
    session: str
    since: float


class SessionHeader(msgspec.Struct, frozen=True, array_like=True):
    """The state of a session besides its publications."""

    client_id: str
    user: str
    expiry_s: int
    subscriptions: tuple[MqttSubscription, ...]
    incoming: tuple[tuple[int, int], ...]
    last_id: int


class Handover(msgspec.Struct, frozen=True, array_like=True, tag="handover"):
    """A session on its way to ``gateway``, which claimed it or was offered it at ``since``, in
    chunks; the first has the head, unless there is no session. ``given`` as in `HandoverTail`."""

    gateway: BrokerId
    session: str
    since: float
    head: SessionHeader | None
    numbered: tuple[InflightDelivery, ...] = ()
    waiting: tuple[Delivery, ...] = ()
    is_last: bool = True
    given: tuple[Mark, ...] = ()


class Arrived(msgspec.Struct, frozen=True, array_like=True, tag="arrived"):
    """A session that was claimed at ``since`` was received from ``gateway``, and subscribes here
    now."""

    gateway: BrokerId
    session: str
    since: float


class HandoverTail(msgspec.Struct, frozen=True, array_like=True, tag="tail"):
    """What arrived for a session during its handover; from the last chunk on it is at ``gateway``
    and nowhere else. ``is_void``: the session moved elsewhere, and this copy is to be discarded.

    ``given``: marks of what the session was given lately, where the overlay routes by whole topics
    (`session/deduplicator`)."""

    gateway: BrokerId
    session: str
    deliveries: tuple[Delivery, ...]
    is_last: bool = True
    is_void: bool = False
    given: tuple[Mark, ...] = ()


class Redirected(msgspec.Struct, frozen=True, array_like=True, tag="redirected"):
    """A client was redirected to another gateway: do not redirect it again for a while."""

    session: str


class Returned(msgspec.Struct, frozen=True, array_like=True, tag="returned"):
    """A client of ``gateway`` repeatedly publishes what ``bridge`` is sent
    (`bridges/loop_detector`)."""

    gateway: BrokerId
    session: str
    bridge: str
    topic: str
    is_proof: bool


HandoverMessage = (
    Redirected | SessionsHeld | SessionsEnded | Claim | Offer | Handover | Arrived | HandoverTail
)
GatewayMessage = (
    StateDigest | PullRequest | Retain | Members | WildcardInterests | Returned | HandoverMessage
)


def digest_of(names: Iterable[str]) -> int:
    """The same for the same names in any order. O(names).

    >>> digest_of(["a", "b"]) == digest_of(["b", "a"])
    True
    """
    return functools.reduce(operator.xor, (zlib.crc32(name.encode()) for name in names), 0)


def bare(publication: Publication) -> Publication:
    """A publication without what only the codec of a link needs."""
    return msgspec.structs.replace(publication, trace=0, size_bytes=0, encoded=b"")


def with_size(publication: Publication) -> Publication:
    """A publication with its size, as it was before `bare`."""
    return make_publication(
        publication.publisher,
        publication.sequence,
        publication.topic,
        publication.attributes,
        publication.payload,
        publication.published_at,
    )
