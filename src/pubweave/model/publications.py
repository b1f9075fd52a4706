"""A publication: a topic (PADRES: class), typed attributes and an opaque payload."""

from __future__ import annotations

from math import isfinite

import msgspec

from pubweave.model.ids import ClientId

Value = str | int | float | bool
"""What an attribute can be. A bool is not a number here, though it is one to Python."""

TOPIC_ATTRIBUTE = "class"
"""The name under which filters address a publication's topic, as PADRES does."""

WHOLE_NUMBER_MIN = -(2**63)
WHOLE_NUMBER_MAX = 2**64 - 1
"""The whole numbers that have an exact binary form on the wire."""

FRAME_OVERHEAD_BYTES = 48
"""What a publication is taken to cost on the wire besides its topic, attributes and payload."""


class Publication(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One publication; on its way to subscribers it is a notification.

    ``sequence`` grows with every publication of a publisher and never repeats, so that
    (publisher, sequence) names a publication and shows its order.

    ``trace`` is set by the publisher's broker where it wants to know who gets the publication
    (`model.messages.relocation`).

    ``previous`` is the sequence of the publisher's previous publication on this topic; 0 says
    nothing. By it a subscriber sees that it has missed one.

    ``size_bytes`` and ``encoded`` do not travel: the codec fills them in on arrival, so that a
    broker that forwards a publication neither measures nor encodes it again.
    """

    publisher: ClientId
    sequence: int
    topic: str
    attributes: dict[str, Value]
    payload: bytes
    published_at: float
    trace: int = 0
    previous: int = 0
    size_bytes: int = 0
    encoded: bytes = b""

    @property
    def key(self) -> tuple[ClientId, int]:
        """Which publication this is, everywhere in the overlay."""
        return self.publisher, self.sequence

    def value(self, attribute: str) -> Value | None:
        """The value of an attribute, the topic under ``class``; None where it is absent."""
        if attribute == TOPIC_ATTRIBUTE:
            return self.topic
        return self.attributes.get(attribute)


def make_publication(
    publisher: ClientId,
    sequence: int,
    topic: str,
    attributes: dict[str, Value],
    payload: bytes,
    published_at: float,
    previous: int = 0,
) -> Publication:
    """A publication that never crossed a wire, with its size estimated from its contents."""
    size_bytes = FRAME_OVERHEAD_BYTES + len(publisher) + len(topic) + len(payload)
    for name, value in attributes.items():
        size_bytes += len(name) + (len(value) if isinstance(value, str) else 9)
    return Publication(
        publisher,
        sequence,
        topic,
        attributes,
        payload,
        published_at,
        previous=previous,
        size_bytes=size_bytes,
    )


def validate_number(attribute: str, value: Value) -> None:
    """Raise ValueError for a number that cannot be compared (NaN, infinity) or cannot travel."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"attribute {attribute!r} is {value}: numbers must be finite")
    if isinstance(value, int) and not WHOLE_NUMBER_MIN <= value <= WHOLE_NUMBER_MAX:
        raise ValueError(
            f"attribute {attribute!r}: whole numbers go from -2**63 to 2**64 - 1, use a float"
        )


def validate_publication_content(topic: str, attributes: dict[str, Value]) -> None:
    """Raise ValueError for what no filter could address: an empty topic, a NaN, a second topic."""
    if not topic:
        raise ValueError("a publication needs a topic")
    if TOPIC_ATTRIBUTE in attributes:
        raise ValueError(f"{TOPIC_ATTRIBUTE!r} is the topic: do not repeat it as an attribute")
    for name, value in attributes.items():
        if not name:
            raise ValueError("an attribute needs a name")
        # Brokers do this for every publication: call out only where a number may be at fault.
        if (
            type(value) is str
            or (type(value) is int and WHOLE_NUMBER_MIN <= value <= WHOLE_NUMBER_MAX)
            or (type(value) is float and isfinite(value))
        ):
            continue
        validate_number(name, value)
