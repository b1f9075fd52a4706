"""Topics that gateways reserve for themselves, and to which no user has a right.

Where brokers route by whole topics, a wildcard is asked for by its *wildcard topic*, which stands
for many topics (`protocol/wildcard_topics`). A gateway asks for it in the name of a session whose
rights it has checked (`access`)."""

from __future__ import annotations

from pubweave.model.filters.filter import Filter
from pubweave.model.publications import TOPIC_ATTRIBUTE

WILDCARD_TOPIC = "$mqtt/wild"


def is_wildcard(topic: str) -> bool:
    """Whether a topic stands for others."""
    return topic == WILDCARD_TOPIC or topic.startswith(f"{WILDCARD_TOPIC}/")


def asks_for_wild(filter_: Filter) -> bool:
    """Whether a filter is for a wildcard topic by its name."""
    return any(
        p.attribute == TOPIC_ATTRIBUTE and is_wildcard(str(p.value)) for p in filter_.predicates
    )
