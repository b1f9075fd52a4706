"""Strategies for MQTT packets of both versions, and bytes that are nearly one."""

from __future__ import annotations

from typing import Any

import mqtt5
from hypothesis import strategies as st
from mqtt5 import QoS, RetainHandling

from pubweave.wire.mqtt.codec import V3, V5, encode

NEVER_EXPIRES = 0xFFFFFFFF
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
topics = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0+#"), min_size=1),
    st.sampled_from(["a", "a/b", "$SYS/x", "/", "ü/ö"]),
)
patterns = st.one_of(
    topics.filter(lambda topic: not topic.startswith("$share")),
    st.sampled_from(["#", "+", "a/+/b", "a/#", "+/+", "/#", "$share/g/a/#", "$share/g//"]),
)
payloads = st.binary(max_size=300)
shorts = st.integers(0, 0xFFFF)
longs = st.integers(0, 0xFFFFFFFF)
packet_ids = st.integers(1, 0xFFFF)
qualities = st.sampled_from([QoS.AT_MOST_ONCE, QoS.AT_LEAST_ONCE, QoS.EXACTLY_ONCE])
handlings = st.sampled_from(
    [
        RetainHandling.SEND_ALWAYS,
        RetainHandling.SEND_IF_SUBSCRIPTION_NOT_EXISTS,
        RetainHandling.SEND_NEVER,
    ]
)
pairs = st.lists(st.tuples(texts, texts), max_size=3)


def _codes(enum: Any, values: list[int]) -> st.SearchStrategy[Any]:
    return st.sampled_from([enum(value) for value in values])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _reasons(enum: Any, values: list[int]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "reason_code": _codes(enum, values),
        "reason_str": maybe(texts),
        "user_properties": pairs,
    }


_MESSAGE = {
    "payload_format_indicator": st.integers(0, 1),
    "message_expiry_interval": maybe(longs),
    "content_type": maybe(texts),
    "response_topic": maybe(topics),
    "correlation_data": maybe(payloads),
    "user_properties": pairs,
}


@st.composite
def publications(draw: st.DrawFn, version: int, *, is_from_server: bool = False) -> Any:
    quality = draw(qualities)
    fields: dict[str, Any] = {
        "qos": quality,
        "retain": draw(st.booleans()),
        "packet_id": draw(packet_ids) if int(quality) else None,
        "duplicate": draw(st.booleans()) if int(quality) else False,
    }
    topic = draw(topics)
    if version == V5:
        fields |= {name: draw(strategy) for name, strategy in _MESSAGE.items()}
        fields["topic_alias"] = draw(maybe(st.integers(1, 0xFFFF)))
        if fields["topic_alias"] and draw(st.booleans()):
            topic = ""
        if is_from_server:
            fields["subscription_ids"] = draw(st.lists(st.integers(1, 0xFFFFFFF), max_size=3))
    return mqtt5.PublishPacket(topic, draw(payloads), **fields)


@st.composite
def connects(draw: st.DrawFn, version: int) -> mqtt5.ConnectPacket:
    will_fields = {"payload": payloads, "qos": qualities, "retain": st.booleans()}
    fields: dict[str, Any] = {"username": draw(maybe(texts)), "keep_alive": draw(shorts)}
    has_password = version == V5 or fields["username"] is not None
    fields["password"] = draw(maybe(payloads)) if has_password else None
    fields["clean_start"] = is_clean = draw(st.booleans())
    client_id = draw(texts)
    if version == V5:
        will_fields |= {**_MESSAGE, "will_delay_interval": longs}
        method = fields["authentication_method"] = draw(maybe(texts))
        fields |= {
            "session_expiry_interval": draw(longs),
            "authentication_data": draw(maybe(payloads)) if method is not None else None,
            "request_problem_info": draw(st.booleans()),
            "request_response_info": draw(st.booleans()),
            "receive_max": draw(packet_ids),
            "topic_alias_max": draw(shorts),
            "max_packet_size": draw(maybe(st.integers(1, 0xFFFFFFFF))),
            "user_properties": draw(pairs),
        }
    else:
        client_id = client_id or "somebody"
        fields["session_expiry_interval"] = 0 if is_clean else NEVER_EXPIRES
    if draw(st.booleans()):
        will = {name: draw(strategy) for name, strategy in will_fields.items()}
        fields["will"] = mqtt5.Will(draw(topics), **will)
    return mqtt5.ConnectPacket(client_id, **fields)


@st.composite
def _topic_filters(draw: st.DrawFn, version: int) -> mqtt5.TopicFilter:
    pattern = draw(patterns)
    is_new = version == V5
    return mqtt5.TopicFilter(
        pattern,
        max_qos=draw(qualities),
        no_local=is_new and not pattern.startswith("$share") and draw(st.booleans()),
        retain_as_published=is_new and draw(st.booleans()),
        retain_handling=draw(handlings) if is_new else RetainHandling.SEND_ALWAYS,
    )


def _acknowledgements(version: int) -> list[st.SearchStrategy[Any]]:
    codes: list[tuple[Any, Any, list[int]]] = [
        (mqtt5.PubAckPacket, mqtt5.PubAckReasonCode, [0, 16, 128, 135, 144, 145, 151, 153]),
        (mqtt5.PubRecPacket, mqtt5.PubRecReasonCode, [0, 16, 128, 135, 144, 145, 151, 153]),
        (mqtt5.PubRelPacket, mqtt5.PubRelReasonCode, [0, 146]),
        (mqtt5.PubCompPacket, mqtt5.PubCompReasonCode, [0, 146]),
    ]
    return [
        st.builds(packet, packet_ids, **(_reasons(enum, values) if version == V5 else {}))
        for packet, enum, values in codes
    ]


def client_packets(version: int) -> st.SearchStrategy[Any]:
    """What a client sends after its CONNECT."""
    is_new = version == V5
    properties = {"user_properties": pairs} if is_new else {}
    identifier = {"subscription_id": maybe(st.integers(1, 0xFFFFFFF))} if is_new else {}
    leaving = _reasons(mqtt5.DisconnectReasonCode, [0, 4, 128, 130, 149]) if is_new else {}
    if is_new:
        leaving["session_expiry_interval"] = maybe(longs)
    strategies = [
        publications(version),
        *_acknowledgements(version),
        st.builds(
            mqtt5.SubscribePacket,
            packet_ids,
            st.lists(_topic_filters(version), min_size=1, max_size=4),
            **identifier,
            **properties,
        ),
        st.builds(
            mqtt5.UnsubscribePacket,
            packet_ids,
            st.lists(patterns, min_size=1, max_size=4),
            **properties,
        ),
        st.builds(mqtt5.PingReqPacket),
        st.builds(mqtt5.DisconnectPacket, **leaving),
    ]
    return st.one_of(strategies + ([_authentications()] if is_new else []))


def _authentications() -> st.SearchStrategy[Any]:
    return st.builds(
        mqtt5.AuthPacket,
        authentication_method=texts,
        authentication_data=maybe(payloads),
        **_reasons(mqtt5.AuthReasonCode, [0, 24, 25]),
    )


def server_packets(version: int) -> st.SearchStrategy[Any]:
    """What a server sends."""
    if version == V3:
        refusals = _codes(mqtt5.ConnAckReasonCode, [0, 0x84, 0x85, 0x88, 0x86, 0x87])
        granted = _codes(mqtt5.SubAckReasonCode, [0, 1, 2, 128])
        more = [
            st.builds(mqtt5.ConnAckPacket, session_present=st.booleans(), reason_code=refusals),
            st.builds(mqtt5.SubAckPacket, packet_ids, st.lists(granted, max_size=4)),
            st.builds(mqtt5.UnsubAckPacket, packet_ids, st.just([])),
        ]
    else:
        answers = {"reason_str": maybe(texts), "user_properties": pairs}
        granted = _codes(mqtt5.SubAckReasonCode, [0, 1, 2, 128, 143, 151, 158])
        dropped = _codes(mqtt5.UnsubAckReasonCode, [0, 17, 128, 143])
        more = [
            _new_connacks(),
            st.builds(mqtt5.SubAckPacket, packet_ids, st.lists(granted, max_size=4), **answers),
            st.builds(mqtt5.UnsubAckPacket, packet_ids, st.lists(dropped, max_size=4), **answers),
            st.builds(
                mqtt5.DisconnectPacket,
                server_reference=maybe(texts),
                **_reasons(mqtt5.DisconnectReasonCode, [0x8E, 0x9C, 0x9D, 0x81, 0x82]),
            ),
            _authentications(),
        ]
    return st.one_of(
        publications(version, is_from_server=True),
        *_acknowledgements(version),
        st.builds(mqtt5.PingRespPacket),
        *more,
    )


def _new_connacks() -> st.SearchStrategy[Any]:
    return st.builds(
        mqtt5.ConnAckPacket,
        session_present=st.booleans(),
        session_expiry_interval=maybe(longs),
        assigned_client_id=maybe(texts),
        server_keep_alive=maybe(shorts),
        authentication_method=maybe(texts),
        response_info=maybe(texts),
        server_reference=maybe(texts),
        receive_max=packet_ids,
        topic_alias_max=shorts,
        retain_available=st.booleans(),
        max_packet_size=maybe(st.integers(1, 0xFFFFFFFF)),
        wildcard_subscription_available=st.booleans(),
        subscription_id_available=st.booleans(),
        shared_subscription_available=st.booleans(),
        **_reasons(mqtt5.ConnAckReasonCode, [0, 128, 132, 135, 156, 157]),
    )


@st.composite
def broken_streams(draw: st.DrawFn, version: int) -> bytes:
    """A client's bytes with a few changes: some are still packets, most are not."""
    packets = [draw(connects(version)), *draw(st.lists(client_packets(version), max_size=3))]
    data = bytearray(b"".join(encode(packet, version) for packet in packets))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case 2:
                del data[at : at + draw(st.integers(1, 3))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=4))
        if not data:
            return b""
    return bytes(data)
