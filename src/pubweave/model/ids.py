"""Names of things: brokers, clients, and the links between brokers."""

from __future__ import annotations

import re
from typing import NamedTuple

BrokerId = str
ClientId = str
AdvertisementId = str
SubscriptionId = str
ActionId = str
"""Names one action of one deployment: plan, step and place, as ``plan/3/1``."""


class Link(NamedTuple):
    """An undirected overlay link, always written with the smaller broker id first.

    >>> Link.between("b2", "b1")
    Link(a='b1', b='b2')
    """

    a: BrokerId
    b: BrokerId

    @classmethod
    def between(cls, one: BrokerId, other: BrokerId) -> Link:
        """The link of two different brokers, whichever is named first."""
        if one == other:
            raise ValueError(f"a link needs two different brokers, got {one!r} twice")
        return cls(one, other) if one < other else cls(other, one)

    def far_end(self, near: BrokerId) -> BrokerId:
        """The broker at the other end."""
        return self.b if near == self.a else self.a

    def __str__(self) -> str:
        return f"{self.a}-{self.b}"


def publisher_of(id_: str) -> ClientId:
    """The client in an advertisement's or subscription's id, ``client:number``.

    >>> publisher_of("sensor:7:1f.3")
    'sensor:7'
    """
    return id_.rpartition(":")[0]


def natural_order(id_: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts b2 before b10.

    >>> sorted(["b10", "b2"], key=natural_order)
    ['b2', 'b10']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", id_)
    return tuple(
        (0, int(part), part) if part[0] in "0123456789" else (1, 0, part) for part in parts
    )
