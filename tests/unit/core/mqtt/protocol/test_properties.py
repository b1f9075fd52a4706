"""Attributes of native clients under the names of MQTT: whatever they are, they do no harm."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.mqtt.protocol.properties import PREFIX, content_of
from pubweave.model.mqtt_packets import Publish
from pubweave.model.publications import make_publication
from pubweave.runtime.net.mqtt_packets import to_send
from pubweave.wire.mqtt.codec import V5, encode

NAMES = ("retain", "expiry_s", "payload_format", "content_type", "response_topic", "correlation")
texts = st.sampled_from(["", "a/b", "#", "a/+", "\0", "x" * 70_000, "ff" * 70_000, "zz"])
pairs = st.lists(st.tuples(texts, texts), max_size=2)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    texts,
    pairs.map(lambda some: msgspec.json.encode(some).decode()),
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([*NAMES, "user"]), values))
def test_a_native_publication_cannot_break_the_wire(attributes: dict[str, Any]) -> None:
    named = {f"{PREFIX}{name}": value for name, value in attributes.items()}
    publication = make_publication("p", 1, "a", {"mqtt.qos": 1, **named}, b"x", 0.0)
    packet = Publish("a", b"x", 1, packet_id=1, content=content_of(publication, 1.0))
    assert encode(to_send(packet), V5)


def test_what_mqtt_has_words_for_is_kept() -> None:
    publication = make_publication(
        "p",
        1,
        "a",
        {"mqtt.qos": 1, "mqtt.response_topic": "a/b", "mqtt.content_type": "t", "mqtt.user": "[]"},
        b"",
        0.0,
    )
    content = content_of(publication, 1.0)
    assert (content.response_topic, content.content_type) == ("a/b", "t")
