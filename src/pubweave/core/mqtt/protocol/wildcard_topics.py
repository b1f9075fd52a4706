"""Wildcard topics: how overlays that route by whole topics serve patterns with wildcards.

Such an overlay (`topic_connected`, `rendezvous`) has no subscription for ``a/#``. So a pattern with
wildcards subscribes to the *wildcard topic* of its first level, an ordinary topic of the overlay,
where gateways publish copies of what is published on any topic with that first level
(`cluster/wildcard_replicator`). ``#`` and ``+/...`` share a wildcard topic. A copy has all
attributes of the original, so content filters apply to it; the receiver checks the pattern again.
"""

from __future__ import annotations

from pubweave.core.mqtt.protocol.topics import filters_of, has_wildcards, is_reserved, is_topic
from pubweave.core.vocabulary.reserved_topics import WILDCARD_TOPIC, is_wildcard
from pubweave.model.filters.filter import Filter, topic_filter
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import Publication, Value, make_publication

REPLICATOR_CLIENT = "mqtt-door:wild:"
"""Prefix of the ids of clients that publish copies, which are gateways' own
(`access.GATEWAY_CLIENT`)."""
FIRST_LETTERS_MAX = 64
"""How much of a first level is in its wildcard topic: a copy contains both names, and must fit
where the original did."""
COPIED_BYTES_MAX = (1 << 20) - (1 << 12)
"""Larger publications, which only native clients can make, are not copied: a copy is larger than
its original, and would not fit into a frame."""
_TOPIC = "mqtt.wild.topic"
_PUBLISHER = "mqtt.wild.publisher"
_SEQUENCE = "mqtt.wild.sequence"


def replicator_client(broker: BrokerId) -> ClientId:
    """The id of the client that publishes a gateway's copies."""
    return f"{REPLICATOR_CLIENT}{broker}"


def overlay_topic_of(pattern: str) -> str:
    """The topic of the overlay on which the publications of a pattern arrive.

    >>> [overlay_topic_of(pattern) for pattern in ("a/b", "a/+/c", "#", "+/b")]
    ['a/b', '$mqtt/wild/a', '$mqtt/wild', '$mqtt/wild']
    """
    if not has_wildcards(pattern):
        return pattern
    first = pattern.partition("/")[0]
    return WILDCARD_TOPIC if first in ("+", "#") else _wildcard_topic(first)


def wildcard_topics_of(topic: str) -> tuple[str, ...]:
    """The wildcard topics on which a topic is copied.

    >>> [wildcard_topics_of(topic) for topic in ("a/b", "$own/b", "$mqtt/doors")]
    [('$mqtt/wild', '$mqtt/wild/a'), ('$mqtt/wild/$own',), ()]
    """
    if is_reserved(topic) or not topic or not is_topic(topic):
        return ()
    own = _wildcard_topic(topic.partition("/")[0])
    return (own,) if topic[0] == "$" else (WILDCARD_TOPIC, own)


def _wildcard_topic(first: str) -> str:
    return f"{WILDCARD_TOPIC}/{first[:FIRST_LETTERS_MAX]}"


def overlay_filters_of(pattern: str, content: Filter | None = None) -> tuple[Filter, ...]:
    """The filters that match all of a pattern in an overlay that routes by whole topics, each with
    the predicates of ``content``."""
    if not has_wildcards(pattern):
        return filters_of(pattern, content)
    further = () if content is None else content.predicates
    return (Filter((*topic_filter(overlay_topic_of(pattern)).predicates, *further)),)


# --- copies ----------------------------------------------------------------------------------


def copied_attributes(publication: Publication) -> dict[str, Value]:
    """The attributes of a copy: those of the original, and its topic, publisher and sequence."""
    return {
        **publication.attributes,
        _TOPIC: publication.topic,
        _PUBLISHER: publication.publisher,
        _SEQUENCE: publication.sequence,
    }


def original_of(publication: Publication) -> Publication | None:
    """The original of a copy, or the publication itself; None for a forged copy."""
    if not is_wildcard(publication.topic):
        return publication
    if not publication.publisher.startswith(REPLICATOR_CLIENT):
        return None
    attributes = dict(publication.attributes)
    topic = attributes.pop(_TOPIC, None)
    publisher = attributes.pop(_PUBLISHER, None)
    sequence = attributes.pop(_SEQUENCE, None)
    if not isinstance(topic, str) or not isinstance(publisher, str):
        return None
    if not isinstance(sequence, int) or not topic:
        return None
    return make_publication(
        publisher, sequence, topic, attributes, publication.payload, publication.published_at
    )
