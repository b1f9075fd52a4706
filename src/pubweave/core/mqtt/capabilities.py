"""What a door takes from clients at all, by its settings: of publications, wills and subscriptions.

Whoever asks for more breaks the protocol, because CONNACK says what there is: its connection ends.
"""

from __future__ import annotations

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.protocol.topics import validate_depth, validate_topic
from pubweave.core.mqtt.session.connection import MqttError
from pubweave.model.mqtt_packets import Publish, Reason, Subscribe, Will


def check_publication(packet: Publish | Will, topic: str, config: MqttConfig) -> None:
    """MqttError for what no client may publish here, or leave as its will."""
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
    """Why a payload is not taken; empty: it is."""
    most, size = config.max_payload_bytes, len(packet.payload)
    return f"a payload of {size} bytes: the limit is {most}" if 0 < most < size else ""


def accepted(packet: Subscribe, config: MqttConfig) -> Subscribe:
    """A Subscribe as it can be granted at best; MqttError for filters that nobody may have."""
    for wish in packet.filters:
        try:
            validate_depth(wish.pattern)
        except ValueError as error:
            raise MqttError(Reason.TOPIC_FILTER_INVALID, str(error)) from error
    most = config.qos_max
    if all(wish.qos <= most for wish in packet.filters):
        return packet
    capped = [msgspec.structs.replace(w, qos=min(w.qos, most)) for w in packet.filters]
    return msgspec.structs.replace(packet, filters=tuple(capped))
