"""What brokers of a topic-connected overlay tell each other (`core.routing.topic_connected`).

`BrokerRecord` is a line of the map that every broker holds of the overlay: it reaches everybody.
`TopicWanted`, `TopicOpened`, `TopicMissed` and `TopicUnwanted` concern the one link they travel on.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pubweave.model.ids import BrokerId, ClientId

TOPIC_PROTOCOL = "topic_connected"
"""What neighbors and clients of such an overlay are told that it routes by."""
ENTRY_BYTES = 24
"""What one name in a message is taken to weigh."""


class BrokerRecord(msgspec.Struct, frozen=True, array_like=True):
    """A broker as it says it is; the newest (incarnation, version) counts.

    ``topics``, ``links`` and ``backups`` are the node structure of Shadows (Struct 5): whoever
    has this record knows the broker's shadow set, and can repair what its death leaves behind.
    ``lost`` are neighbors that do not answer any more, each with the age of its last record;
    a broker that ``is_leaving`` is not counted on any more. ``is_gateway``: it has a link with a
    ring of rendezvous brokers. ``silent_s``: whoever tells it has heard nothing newer of the broker
    for so long."""

    broker: BrokerId
    address: str
    incarnation: int
    version: int
    topics: tuple[str, ...] = ()
    links: tuple[BrokerId, ...] = ()
    lost: tuple[tuple[BrokerId, int, int], ...] = ()
    backups: tuple[BrokerId, ...] = ()
    is_leaving: bool = False
    is_gateway: bool = False
    silent_s: float = 0.0

    @property
    def age(self) -> tuple[int, int]:
        """Grows with every change."""
        return self.incarnation, self.version

    @property
    def size_bytes(self) -> int:
        entries = len(self.topics) + len(self.links) + len(self.lost) + len(self.backups)
        return ENTRY_BYTES * (4 + entries)


class TopicWanted(msgspec.Struct, frozen=True, array_like=True):
    """The sender takes part in a topic and has got so much of it: of each publisher all up to a
    sequence. It wants the rest that the receiver has, and whatever comes from here on, after a
    `TopicOpened` of the same ``number``. ``takes_gaps``: it goes on behind what the receiver keeps
    no more."""

    topic: str
    number: int
    marks: tuple[tuple[ClientId, int], ...] = ()
    takes_gaps: bool = False

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (2 + len(self.marks))


class TopicOpened(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers `TopicWanted`: what follows of the topic rests on it, and not on an earlier one."""

    topic: str
    number: int
    size_bytes: ClassVar[int] = 3 * ENTRY_BYTES


class TopicMissed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The receiver lacks these publications of a publisher and the sender keeps them no more: what
    follows comes after them. A span is (first, last, how many, seconds since the oldest and since
    the newest came, whether the number is a bound). ``is_agreed``: it answers a `TopicWanted` that
    takes gaps."""

    topic: str
    publisher: ClientId
    spans: tuple[tuple[int, int, int, float, float, bool], ...]
    is_agreed: bool = False

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * (3 + 2 * len(self.spans))


class TopicUnwanted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender takes part in a topic no more."""

    topic: str
    size_bytes: ClassVar[int] = 2 * ENTRY_BYTES


TopicMessage = BrokerRecord | TopicWanted | TopicOpened | TopicMissed | TopicUnwanted
