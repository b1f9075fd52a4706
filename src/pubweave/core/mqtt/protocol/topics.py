"""MQTT topics and topic filters, and the overlay filters that match them.

A topic of MQTT is a topic of the overlay, character by character. A pattern with wildcards becomes
the tightest filters that the overlay has (prefix, suffix, contains); they may match more, so the
receiver checks again with `matches_topic`.
"""

from __future__ import annotations

from typing import NamedTuple

from pubweave.model.filters.filter import Filter, Operator, Predicate, topic_filter
from pubweave.model.publications import TOPIC_ATTRIBUTE

GATEWAYS_TOPIC = "$mqtt/doors"
"""Messages between gateways; never shown to clients."""
_GATEWAYS_LEVEL = "$mqtt"
_RESERVED = ("$mqtt/", "$share/", "$SYS/")
_BRIDGE_STATE = ("$SYS/broker/connection/", "/state")
_SHARE = "$share/"
TOPIC_LETTERS_MAX = 16_000
"""Whatever they are, they fit into the 65,535 bytes that MQTT has for a text."""
SEPARATORS_MAX = 200
"""How many slashes a topic or topic filter may have: matching costs time per level."""


class SharedPattern(NamedTuple):
    """A pattern and the group that shares it; the group is empty if it is not shared."""

    group: str
    pattern: str


def validate_topic(topic: str) -> None:
    """ValueError for a topic that is not valid in a publication."""
    if not topic:
        raise ValueError("a publication needs a topic")
    if "+" in topic or "#" in topic:
        raise ValueError(f"{topic!r}: a topic has no wildcards")
    validate_depth(topic)


def validate_depth(topic: str) -> None:
    """ValueError for a topic or a topic filter with more levels than anybody needs."""
    if topic.count("/") > SEPARATORS_MAX:
        raise ValueError(f"{SEPARATORS_MAX} slashes are the limit for a topic")


def is_bridge_state(topic: str) -> bool:
    """Whether a mosquitto bridge reports its state here: it is answered and dropped.

    >>> is_bridge_state("$SYS/broker/connection/site-7/state")
    True
    """
    head, tail = _BRIDGE_STATE
    return topic.startswith(head) and topic.endswith(tail)


def is_reserved(topic: str) -> bool:
    """Whether a topic is not for clients to publish on."""
    return topic.startswith(_RESERVED)


def names_gateways(pattern: str) -> bool:
    """Whether a pattern is for messages between gateways.

    >>> [names_gateways(pattern) for pattern in (GATEWAYS_TOPIC, "$mqtt/#", "#")]
    [True, True, False]
    """
    return pattern.partition("/")[0] == _GATEWAYS_LEVEL


def names_reserved(filter_: Filter) -> bool:
    """Whether a filter asks for reserved topics by name, and not only for everything.

    >>> names_reserved(topic_filter(GATEWAYS_TOPIC)), names_reserved(Filter())
    (True, False)
    """
    return any(
        predicate.attribute == TOPIC_ATTRIBUTE
        and predicate.operator in (Operator.EQ, Operator.PREFIX)
        and str(predicate.value).startswith("$")
        for predicate in filter_.predicates
    )


def is_topic(topic: str) -> bool:
    """Whether a topic of the overlay is valid in MQTT; native clients may use others."""
    return (
        len(topic) <= TOPIC_LETTERS_MAX
        and "+" not in topic
        and "#" not in topic
        and "\0" not in topic
    )


def parse_pattern(text: str) -> SharedPattern:
    """Read a topic filter, shared or not; ValueError if it is none.

    >>> parse_pattern("$share/workers/jobs/+")
    SharedPattern(group='workers', pattern='jobs/+')
    """
    group, pattern = "", text
    if text.startswith(_SHARE):
        group, _, pattern = text[len(_SHARE) :].partition("/")
        if not group or "+" in group or "#" in group or not pattern:
            raise ValueError(f"{text!r}: a shared subscription is $share/name/filter")
    if not pattern:
        raise ValueError("a topic filter needs at least one character")
    levels = pattern.split("/")
    for place, level in enumerate(levels):
        if "#" in level and (level != "#" or place != len(levels) - 1):
            raise ValueError(f"{text!r}: '#' stands alone in the last level")
        if "+" in level and level != "+":
            raise ValueError(f"{text!r}: '+' stands alone in its level")
    return SharedPattern(group, pattern)


def has_wildcards(pattern: str) -> bool:
    return "+" in pattern or "#" in pattern


def matches_topic(pattern: str, topic: str) -> bool:
    """Whether a topic is one of a pattern's (MQTT 5.0, 4.7). O(levels).

    >>> matches_topic("a/#", "a"), matches_topic("+/b", "a/b"), matches_topic("#", "$SYS/x")
    (True, True, False)
    """
    if topic[0] == "$" and pattern[0] in "+#":
        return False
    wanted, levels = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):
            return False
        levels = levels[: len(wanted)]
    elif len(wanted) != len(levels):
        return False
    return all(w in ("+", level) for w, level in zip(wanted, levels, strict=True))


def filters_of(pattern: str, content: Filter | None = None) -> tuple[Filter, ...]:
    """The overlay filters that together match all of a pattern, each with the
    predicates of ``content``. O(levels).

    >>> from pubweave.model.filters.text import format_filter
    >>> [format_filter(f) for f in filters_of("a/+/b/#")]
    ["class prefix 'a/' and class contains '/b/'", "class prefix 'a/' and class suffix '/b'"]
    >>> [format_filter(f) for f in filters_of("#")]
    ['*']
    """
    further = () if content is None else content.predicates
    if not has_wildcards(pattern):
        return (Filter((*topic_filter(pattern).predicates, *further)),)
    if not pattern.endswith("#"):
        return (Filter((*_between_wildcards(pattern), *further)),)
    parent = pattern[:-1].removesuffix("/")
    if not parent:
        return (Filter((*_between_wildcards(pattern), *further)),)
    deeper = Filter((*_between_wildcards(pattern), *further))
    return tuple(dict.fromkeys((deeper, *filters_of(parent, content))))


def _between_wildcards(pattern: str) -> tuple[Predicate, ...]:
    """What stands before, between and behind the wildcards of a pattern."""
    pieces = pattern.replace("#", "+").split("+")
    found = [(Operator.PREFIX, pieces[0])]
    found += [(Operator.CONTAINS, piece) for piece in pieces[1:-1] if piece != "/"]
    found.append((Operator.SUFFIX, pieces[-1]))
    return tuple(Predicate(TOPIC_ATTRIBUTE, operator, text) for operator, text in found if text)
