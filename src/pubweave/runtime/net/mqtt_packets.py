"""Packets of the wire (the package ``mqtt5``) as values of the model, and back.

One function for each kind of packet, in two tables by type: packets are looked up, not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mqtt5

from pubweave.model import mqtt_packets as model

NEVER_EXPIRES_S = 0xFFFFFFFF
_QOS = (mqtt5.QoS.AT_MOST_ONCE, mqtt5.QoS.AT_LEAST_ONCE, mqtt5.QoS.EXACTLY_ONCE)
Pair = tuple[str, str]


def received(packet: Any, version: int, *, is_bridge: bool = False) -> model.FromClient:
    """A client's packet as a value. The password is left out: look into the packet for it."""
    if type(packet) is mqtt5.ConnectPacket:
        return _connect(packet, version, is_bridge=is_bridge)
    return _RECEIVED[type(packet)](packet)


def to_send(packet: model.ToClient) -> Any:
    """A value as the packet that is written to a client."""
    return _TO_SEND[type(packet)](packet)


# --- from clients --------------------------------------------------------------------------


def _connect(packet: mqtt5.ConnectPacket, version: int, *, is_bridge: bool) -> model.Connect:
    expiry_s = packet.session_expiry_interval
    if version != model.VERSION_5:
        # To everybody but the codec 3.1 is 3.1.1, which knows sessions that last for ever and
        # sessions that end with their connection.
        version = model.VERSION_3
        expiry_s = 0 if packet.clean_start else NEVER_EXPIRES_S
    return model.Connect(
        packet.client_id,
        version,
        packet.clean_start,
        packet.keep_alive,
        expiry_s,
        packet.receive_max,
        packet.topic_alias_max,
        packet.max_packet_size,
        packet.username,
        packet.password is not None,
        None if packet.will is None else _will(packet.will),
        packet.authentication_method,
        packet.request_problem_info,
        is_bridge,
    )


def _will(will: mqtt5.Will) -> model.Will:
    return model.Will(
        will.topic,
        will.payload or b"",
        will.qos.value,
        will.retain,
        will.will_delay_interval,
        _content(will),
    )


def _content(packet: mqtt5.Will | mqtt5.PublishPacket) -> model.Content:
    users = packet.user_properties
    found = (
        packet.payload_format_indicator,
        packet.message_expiry_interval,
        packet.content_type,
        packet.response_topic,
        packet.correlation_data,
    )
    if not users and found == (0, None, None, None, None):
        return model.NO_CONTENT
    return model.Content(*found, tuple(users))


def _publish(packet: mqtt5.PublishPacket) -> model.Publish:
    qos = packet.qos
    return model.Publish(
        packet.topic,
        packet.payload,
        0 if qos is _QOS[0] else qos.value,
        packet.retain,
        packet.packet_id,
        packet.duplicate,
        _content(packet),
        (),
        packet.topic_alias,
    )


def _acknowledgement(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda packet: kind(packet.packet_id, packet.reason_code.value)


def _subscribe(packet: mqtt5.SubscribePacket) -> model.Subscribe:
    return model.Subscribe(
        packet.packet_id,
        tuple(
            model.TopicFilter(
                wish.pattern,
                wish.max_qos.value,
                wish.no_local,
                wish.retain_as_published,
                wish.retain_handling.value,
            )
            for wish in packet.topic_filters
        ),
        packet.subscription_id,
        tuple(packet.user_properties),
    )


_RECEIVED: dict[type, Callable[[Any], model.FromClient]] = {
    mqtt5.PublishPacket: _publish,
    mqtt5.PubAckPacket: _acknowledgement(model.PubAck),
    mqtt5.PubRecPacket: _acknowledgement(model.PubRec),
    mqtt5.PubRelPacket: _acknowledgement(model.PubRel),
    mqtt5.PubCompPacket: _acknowledgement(model.PubComp),
    mqtt5.SubscribePacket: _subscribe,
    mqtt5.UnsubscribePacket: lambda p: model.Unsubscribe(p.packet_id, tuple(p.patterns)),
    mqtt5.PingReqPacket: lambda p: model.PingReq(),
    mqtt5.DisconnectPacket: lambda p: model.Disconnect(
        p.reason_code.value, p.session_expiry_interval
    ),
    mqtt5.AuthPacket: lambda p: model.Auth(p.reason_code.value, p.authentication_method),
}


# --- to clients ----------------------------------------------------------------------------


def _connack(packet: model.ConnAck) -> mqtt5.ConnAckPacket:
    return mqtt5.ConnAckPacket(
        session_present=packet.session_present,
        reason_code=mqtt5.ConnAckReasonCode(packet.reason),
        session_expiry_interval=packet.session_expiry_s,
        assigned_client_id=packet.assigned_client_id,
        server_keep_alive=packet.server_keep_alive_s,
        receive_max=packet.receive_max,
        topic_alias_max=packet.topic_alias_max,
        max_packet_size=packet.max_packet_bytes,
        reason_str=packet.reason_text,
        server_reference=packet.server_reference,
        retain_available=packet.takes_retained,
        max_qos=_QOS[packet.qos_max],
        authentication_method=packet.authentication_method,
        authentication_data=packet.authentication_data,
    )


def _publish_to_send(packet: model.Publish) -> mqtt5.PublishPacket:
    if packet.content is model.NO_CONTENT and not packet.subscription_ids:
        return mqtt5.PublishPacket(
            packet.topic,
            packet.payload,
            qos=_QOS[packet.qos],
            retain=packet.retain,
            packet_id=packet.packet_id,
            duplicate=packet.is_duplicate,
            topic_alias=packet.topic_alias,
        )
    content = packet.content
    return mqtt5.PublishPacket(
        packet.topic,
        packet.payload,
        qos=_QOS[packet.qos],
        retain=packet.retain,
        packet_id=packet.packet_id,
        duplicate=packet.is_duplicate,
        payload_format_indicator=content.payload_format,
        message_expiry_interval=content.expiry_s,
        content_type=content.content_type,
        response_topic=content.response_topic,
        correlation_data=content.correlation,
        subscription_ids=list(packet.subscription_ids),
        topic_alias=packet.topic_alias,
        user_properties=list(content.user_properties),
    )


def _acknowledgement_to_send(kind: Any, reasons: Any) -> Callable[[Any], Any]:
    succeeded = reasons(0)

    def make(packet: Any) -> Any:
        if not packet.reason:
            return kind(packet.packet_id, reason_code=succeeded)
        reason = reasons(packet.reason)
        return kind(packet.packet_id, reason_code=reason, reason_str=packet.reason_text)

    return make


_TO_SEND: dict[type, Callable[[Any], Any]] = {
    model.ConnAck: _connack,
    model.Publish: _publish_to_send,
    model.PubAck: _acknowledgement_to_send(mqtt5.PubAckPacket, mqtt5.PubAckReasonCode),
    model.PubRec: _acknowledgement_to_send(mqtt5.PubRecPacket, mqtt5.PubRecReasonCode),
    model.PubRel: _acknowledgement_to_send(mqtt5.PubRelPacket, mqtt5.PubRelReasonCode),
    model.PubComp: _acknowledgement_to_send(mqtt5.PubCompPacket, mqtt5.PubCompReasonCode),
    model.SubAck: lambda p: mqtt5.SubAckPacket(
        p.packet_id,
        [mqtt5.SubAckReasonCode(reason) for reason in p.reasons],
        reason_str=p.reason_text,
    ),
    model.UnsubAck: lambda p: mqtt5.UnsubAckPacket(
        p.packet_id, [mqtt5.UnsubAckReasonCode(reason) for reason in p.reasons]
    ),
    model.PingResp: lambda p: mqtt5.PingRespPacket(),
    model.Disconnect: lambda p: mqtt5.DisconnectPacket(
        reason_code=mqtt5.DisconnectReasonCode(p.reason),
        server_reference=p.server_reference,
        reason_str=p.reason_text,
    ),
}
