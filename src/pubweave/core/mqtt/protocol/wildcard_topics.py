"""Wildcards where the overlay routes by whole topics: topics that stand for many, and copies on
them.

Such an overlay (`topic_connected`, `rendezvous`) cannot be asked for ``a/#``. So whoever wants a
pattern with wildcards takes the *wild topic* of its first level, an ordinary topic of the overlay,
and doors publish there copies of what is published on any topic that begins so
(`mqtt/wildcard_replicator`). ``#`` and ``+/...`` have a wild topic of their own. A copy has all
that the original has, so content filters see it as they would see that; whoever receives it looks
at the pattern again.
"""

from __future__ import annotations

from pubweave.core.mqtt.protocol.topics import filters_of, has_wildcards, is_reserved, is_topic
from pubweave.core.vocabulary.reserved_topics import WILD_TOPIC, is_wild
from pubweave.model.filters.filter import Filter, topic_filter
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import Publication, Value, make_publication

WILD_CLIENT = "mqtt-door:wild:"
"""Ids of the clients that publish copies begin so. They are doors' own (`access.DOOR_CLIENT`)."""
FIRST_LETTERS_MAX = 64
"""More of a first level is not in the name of its wild topic: a copy has both names in it, and
must fit where the original did."""
COPIED_BYTES_MAX = (1 << 20) - (1 << 12)
"""Larger publications, which only native clients can make, are not copied: a copy is larger than
what it is a copy of, and would not fit into a frame."""
_TOPIC = "mqtt.wild.topic"
_PUBLISHER = "mqtt.wild.publisher"
_SEQUENCE = "mqtt.wild.sequence"


def wild_client(broker: BrokerId) -> ClientId:
    """The client by which a door publishes copies."""
    return f"{WILD_CLIENT}{broker}"


def way_of(pattern: str) -> str:
    """The topic of the overlay on which the publications of a pattern come.

    >>> way_of("a/b"), way_of("a/+/c"), way_of("#"), way_of("+/b")
    ('a/b', '$mqtt/wild/a', '$mqtt/wild', '$mqtt/wild')
    """
    if not has_wildcards(pattern):
        return pattern
    first = pattern.partition("/")[0]
    return WILD_TOPIC if first in ("+", "#") else _of_level(first)


def wild_topics_of(topic: str) -> tuple[str, ...]:
    """The wild topics that stand for a topic.

    >>> wild_topics_of("a/b"), wild_topics_of("$own/b"), wild_topics_of("$mqtt/doors")
    (('$mqtt/wild', '$mqtt/wild/a'), ('$mqtt/wild/$own',), ())
    """
    if is_reserved(topic) or not topic or not is_topic(topic):
        return ()
    own = _of_level(topic.partition("/")[0])
    return (own,) if topic[0] == "$" else (WILD_TOPIC, own)


def _of_level(first: str) -> str:
    return f"{WILD_TOPIC}/{first[:FIRST_LETTERS_MAX]}"


def ways_of(pattern: str, content: Filter | None = None) -> tuple[Filter, ...]:
    """The filters by which an overlay that routes by whole topics lets all of a pattern through,
    each with the predicates of ``content``."""
    if not has_wildcards(pattern):
        return filters_of(pattern, content)
    further = () if content is None else content.predicates
    return (Filter((*topic_filter(way_of(pattern)).predicates, *further)),)


# --- copies ----------------------------------------------------------------------------------


def copied_attributes(publication: Publication) -> dict[str, Value]:
    """The attributes of a copy: those of the original, and where that comes from."""
    return {
        **publication.attributes,
        _TOPIC: publication.topic,
        _PUBLISHER: publication.publisher,
        _SEQUENCE: publication.sequence,
    }


def original_of(publication: Publication) -> Publication | None:
    """What a publication is a copy of, or itself; None: somebody made a copy up who is no door."""
    if not is_wild(publication.topic):
        return publication
    if not publication.publisher.startswith(WILD_CLIENT):
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
