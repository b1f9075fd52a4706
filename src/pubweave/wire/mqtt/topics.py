"""Which texts are topics and topic filters of MQTT (4.7, 4.8 of the standard)."""

from __future__ import annotations

import re

from pubweave.wire.mqtt.fields import MqttProtocolError

TOPIC_FILTER_INVALID = 0x8F
TOPIC_NAME_INVALID = 0x90

# Almost every topic: text without NUL, wildcards or anything that UTF-8 must be asked about.
is_plain_topic = re.compile(rb"[^\x00#+\x80-\xff]+").fullmatch


def validate_topic(topic: str) -> str:
    """4.7: a topic that can be published to. MqttProtocolError otherwise."""
    if not topic or "#" in topic or "+" in topic:
        raise MqttProtocolError(TOPIC_NAME_INVALID, f"no topic to publish to: {topic!r}")
    return topic


def validate_filter(pattern: str) -> str:
    """4.7.1, 4.8.2: a topic filter, or one of a shared subscription. MqttProtocolError otherwise.

    >>> validate_filter("$share/group/a/+/#")
    '$share/group/a/+/#'
    """
    levels = pattern.split("/")
    if levels[0] == "$share":
        group, levels = levels[1:2], levels[2:]
        if not levels or group == [""] or "+" in group[0] or "#" in group[0]:
            raise MqttProtocolError(TOPIC_FILTER_INVALID, f"no shared subscription: {pattern!r}")
    is_empty = levels == [""]
    if is_empty or any(
        ("+" in level and level != "+")
        or ("#" in level and (level != "#" or place != len(levels) - 1))
        for place, level in enumerate(levels)
    ):
        raise MqttProtocolError(TOPIC_FILTER_INVALID, f"no topic filter: {pattern!r}")
    return pattern
