"""What MQTT clients ask for, as they see it. Times are those at which a client said or heard it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from pubweave.model.mqtt_packets import (
    PubAck,
    Publish,
    PubRec,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
)

Request = Publish | Subscribe | Unsubscribe
Answer = PubAck | PubRec | SubAck | UnsubAck


@dataclass(eq=False)
class Wish:
    """One subscription as its client sees it."""

    client: str
    filter: TopicFilter
    id: int | None
    asked_at: float
    is_new: bool
    """The client had none with this pattern."""
    is_settled: bool = False
    """From now on everything that matches must come."""
    granted_at: float = inf
    gone_at: float = inf
    """When the client was told that it is over, or that its session is: nothing that is published
    later may come."""
    group: str = ""
    pattern: str = ""

    def __post_init__(self) -> None:
        self.group, self.pattern = parsed(self.filter.pattern)

    @property
    def is_granted(self) -> bool:
        return self.granted_at < inf

    def wants(self, topic: str, publisher: str) -> bool:
        """Whether it asks for what somebody publishes."""
        is_own = self.filter.no_local and publisher == self.client
        return not is_own and matches(self.pattern, topic)


@dataclass
class ClientWishes:
    """All that one client ever subscribed to, by pattern."""

    current: dict[str, Wish] = field(default_factory=dict)
    past: list[Wish] = field(default_factory=list)

    def all(self) -> Iterable[Wish]:
        yield from self.current.values()
        yield from self.past

    def wanting(self, topic: str, publisher: str) -> list[Wish]:
        """Those of its own, now, by which a publication is for this client."""
        found = self.current.values()
        return [w for w in found if not w.group and w.wants(topic, publisher)]


def parsed(text: str) -> tuple[str, str]:
    """Group and pattern of a subscription.

    >>> parsed("$share/g/a/#"), parsed("a/+")
    (('g', 'a/#'), ('', 'a/+'))
    """
    if text.startswith("$share/"):
        _, group, pattern = text.split("/", 2)
        return group, pattern
    return "", text


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic is one of a pattern's, by the standard's text (4.7); not the gateway's code.

    >>> matches("a/#", "a"), matches("+/b", "a/b"), matches("#", "$x"), matches("a/+", "a/b/c")
    (True, True, False, False)
    """
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("#", "+"):
        return False
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(levels) or level not in ("+", levels[place]):
            return False
    return len(wanted) == len(levels)
