"""What a gateway accepts by its settings: of publications, wills and subscriptions.

ConnAck announces these limits, so a client that exceeds them breaks the protocol and is
disconnected.
"""

from __future__ import annotations

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.protocol.topics import validate_depth, validate_topic
from pubweave.core.mqtt.session.connection import MqttError
from pubweave.model.mqtt_packets import Publish, Reason, Subscribe, Will


def check_publication(packet: Publish | Will, topic: str, config: MqttConfig) -> None:
    """MqttError for a publication or a will that the settings do not allow."""
    try:
        validate_topic(topic)
    except ValueError as error:
        raise MqttError(Reason.TOPIC_NAME_INVALID, str(error)) from error
    if packet.qos > config.qos_max:
        text = f"QoS {config.qos_max} is the best that there is here"
        raise MqttError(Reason.QOS_NOT_SUPPORTED, text)
    if packet.retain and not config.retains:
        raise MqttError(Reason.RETAIN_NOT_SUPPORTED, "nothing is retained here")


def why_too_large(packet: Publish | Will, config: MqttConfig) -> str:
    """Why a payload is too large; empty if it is not."""
    most, size = config.max_payload_bytes, len(packet.payload)
    return f"a payload of {size} bytes: the limit is {most}" if 0 < most < size else ""


def accepted(packet: Subscribe, config: MqttConfig) -> Subscribe:
    """A Subscribe capped to the best QoS; MqttError for filters with too many levels."""
    for requested in packet.filters:
        try:
            validate_depth(requested.pattern)
        except ValueError as error:
            raise MqttError(Reason.TOPIC_FILTER_INVALID, str(error)) from error
    most = config.qos_max
    if all(requested.qos <= most for requested in packet.filters):
        return packet
    capped = [msgspec.structs.replace(w, qos=min(w.qos, most)) for w in packet.filters]
    return msgspec.structs.replace(packet, filters=tuple(capped))
