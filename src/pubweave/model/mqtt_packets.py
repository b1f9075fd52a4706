"""MQTT packets as plain values, the same for 3.1.1 and 5.0: what the core and the journal speak.

The wire has its own classes (the package ``mqtt5``), which can neither be compared nor written
down. A 3.1.1 packet has the same fields with nothing in those that came with 5.0. A password, and
what proves one, is never in here: the driver keeps it.
"""

from __future__ import annotations

import enum

import msgspec

VERSION_3 = 4
VERSION_5 = 5
"""Protocol levels as CONNECT says them; 4 is 3.1.1."""
UserProperties = tuple[tuple[str, str], ...]


class Reason(enum.IntEnum):
    """The reason codes that a door says or looks at."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_BUSY = 0x89
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAX_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D


class Content(msgspec.Struct, frozen=True, array_like=True):
    """What a publisher says about a payload; a will has the same."""

    payload_format: int = 0
    """1: text, as the publisher says; it is passed on as it was said."""
    expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    user_properties: UserProperties = ()


NO_CONTENT = Content()


class Will(msgspec.Struct, frozen=True, array_like=True):
    """What is to be published when a client is gone without a goodbye."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    delay_s: int = 0
    content: Content = NO_CONTENT


class Connect(msgspec.Struct, frozen=True, array_like=True, tag="connect"):
    """``is_bridge``: another broker, which takes back nothing that it sent."""

    client_id: str
    version: int = VERSION_5
    clean_start: bool = True
    keep_alive_s: int = 0
    session_expiry_s: int = 0
    receive_max: int = 65535
    topic_alias_max: int = 0
    max_packet_bytes: int | None = None
    username: str | None = None
    has_password: bool = False
    will: Will | None = None
    authentication_method: str | None = None
    wants_problems: bool = True
    is_bridge: bool = False


class ConnAck(msgspec.Struct, frozen=True, array_like=True, tag="connack"):
    """The answer to Connect."""

    reason: int = 0
    session_present: bool = False
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    receive_max: int = 65535
    topic_alias_max: int = 0
    max_packet_bytes: int | None = None
    reason_text: str | None = None
    server_reference: str | None = None
    takes_retained: bool = True
    qos_max: int = 2
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    """What proves the server to the client; the driver knows it."""


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """A publication on its way, in either direction."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    packet_id: int | None = None
    is_duplicate: bool = False
    content: Content = NO_CONTENT
    subscription_ids: tuple[int, ...] = ()
    topic_alias: int | None = None


class _Acknowledgement(msgspec.Struct, frozen=True, array_like=True):
    packet_id: int
    reason: int = 0
    reason_text: str | None = None


class PubAck(_Acknowledgement, frozen=True, array_like=True, tag="puback"):
    """QoS 1: taken in, or refused."""


class PubRec(_Acknowledgement, frozen=True, array_like=True, tag="pubrec"):
    """QoS 2, the first answer: taken in, or refused."""


class PubRel(_Acknowledgement, frozen=True, array_like=True, tag="pubrel"):
    """QoS 2: the number will not be used for this publication again."""


class PubComp(_Acknowledgement, frozen=True, array_like=True, tag="pubcomp"):
    """QoS 2: the number is free."""


class TopicFilter(msgspec.Struct, frozen=True, array_like=True):
    """One wish of a Subscribe, with its options."""

    pattern: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag="subscribe"):
    """Asks for publications."""

    packet_id: int
    filters: tuple[TopicFilter, ...]
    subscription_id: int | None = None
    user_properties: UserProperties = ()


class SubAck(msgspec.Struct, frozen=True, array_like=True, tag="suback"):
    """A reason for each filter of a Subscribe."""

    packet_id: int
    reasons: tuple[int, ...]
    reason_text: str | None = None


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, tag="unsubscribe"):
    """Takes subscriptions back, by their patterns."""

    packet_id: int
    patterns: tuple[str, ...]


class UnsubAck(msgspec.Struct, frozen=True, array_like=True, tag="unsuback"):
    """A reason for each pattern; 3.1.1 sends none."""

    packet_id: int
    reasons: tuple[int, ...]


class PingReq(msgspec.Struct, frozen=True, array_like=True, tag="pingreq"):
    """Asks for a `PingResp`."""


class PingResp(msgspec.Struct, frozen=True, array_like=True, tag="pingresp"):
    """Answers a `PingReq`."""


class Disconnect(msgspec.Struct, frozen=True, array_like=True, tag="disconnect"):
    """The last packet of a connection; 3.1.1 servers never send it."""

    reason: int = 0
    session_expiry_s: int | None = None
    reason_text: str | None = None
    server_reference: str | None = None


class Auth(msgspec.Struct, frozen=True, array_like=True, tag="auth"):
    """A step of enhanced authentication. Those that have their place stay with the driver."""

    reason: int = 0
    method: str | None = None


_Answer = PubAck | PubRec | PubRel | PubComp
FromClient = Connect | Publish | _Answer | Subscribe | Unsubscribe | PingReq | Disconnect | Auth
ToClient = ConnAck | Publish | _Answer | SubAck | UnsubAck | PingResp | Disconnect
Packet = FromClient | ToClient
