"""Traffic: which sets of brokers share notifications, as arrays; and prices (CI 3.1).

What a notification costs on a tree depends on V(n) alone, the publisher's broker and the brokers
of its receivers (CI Eq. 1). So notifications with the same V(n) are one row with a weight, and
whoever prices a tree walks over distinct sets, not over notifications.

Invariant: the members of a set are different and ascending, no two sets are equal, and every
weight is positive.

`Prices`: ``processing`` is p_v, ``communication`` is c_e for every pair of brokers: symmetric, not
negative, infinite on the diagonal and where there can be no link (nobody knows its price, or
somebody forbids it). Where the numbers come from is in `profile_inputs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, Link, natural_order

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]


class DesignError(ValueError):
    """Something given to a design cannot be used; the message says what and what to give."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Distinct sets of brokers: those of set s are ``members[starts[s]:starts[s + 1]]``.

    Members are indices into ``brokers``, which are in natural order. ``weights`` counts
    notifications, ``deliveries`` pairs of a notification and a broker with receivers of it.
    """

    brokers: tuple[BrokerId, ...]
    starts: Integers
    members: Indices
    weights: Floats
    deliveries: float

    @classmethod
    def of(
        cls, brokers: Iterable[BrokerId], notifications: Iterable[tuple[Iterable[BrokerId], float]]
    ) -> Traffic:
        """From sets V(n) with weights, the publisher's broker being the first of each.

        >>> Traffic.of("abc", [("ab", 2.0), ("ba", 1.0)]).weights
        array([3.])
        """
        named = tuple(sorted(set(brokers), key=natural_order))
        index_of = {broker: index for index, broker in enumerate(named)}
        sets: list[int] = []
        members: list[int] = []
        weights: list[float] = []
        deliveries = 0.0
        for number, (group, weight) in enumerate(notifications):
            listed = list(dict.fromkeys(group))
            strangers = [broker for broker in listed if broker not in index_of]
            if strangers:
                raise DesignError(f"the traffic names the unknown broker {strangers[0]!r}")
            sets.extend([number] * len(listed))
            members.extend(index_of[broker] for broker in listed)
            weights.append(weight)
            deliveries += weight * (len(listed) - 1)
        return cls.from_pairs(named, sets, members, weights, deliveries)

    @classmethod
    def from_pairs(
        cls,
        brokers: Sequence[BrokerId],
        sets: npt.ArrayLike,
        members: npt.ArrayLike,
        weights: npt.ArrayLike,
        deliveries: float,
    ) -> Traffic:
        """From pairs (number of a set, index of a member) in any order, repeated or not.

        ``weights`` is by number of the set. Equal sets are merged, empty and weightless dropped.
        """
        count = len(brokers)
        weight = np.asarray(weights, dtype=np.float64)
        # The default index of an empty list is a float's; arithmetic below needs integers.
        keys = np.asarray(sets, dtype=np.int64) * count + np.asarray(members, dtype=np.int64)
        keys = np.unique(keys)
        owner, member = np.divmod(keys, count) if count else (keys, keys)
        kept = weight[owner] > 0
        owner, member = owner[kept], member[kept]
        first, inverse, sizes = _distinct_sets(owner, member)
        merged = np.zeros(len(first))
        np.add.at(merged, inverse, weight[np.unique(owner)])
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        # Positions of all members of the sets that stand for their equals, set by set.
        position = np.arange(starts[-1]) - np.repeat(starts[:-1] - first, sizes)
        chosen = member[position].astype(np.int32)
        return cls(tuple(brokers), starts, chosen, merged, float(deliveries))

    @property
    def set_count(self) -> int:
        return len(self.weights)

    @property
    def notifications(self) -> float:
        """How many notifications, by weight."""
        return float(self.weights.sum())

    @cached_property
    def sizes(self) -> Integers:
        """How many members each set has."""
        return np.diff(self.starts)

    @cached_property
    def by_broker(self) -> tuple[Integers, Indices]:
        """The sets of each broker: those of broker b are ``sets[first[b]:first[b + 1]]``."""
        owner = np.repeat(np.arange(self.set_count, dtype=np.int32), self.sizes)
        order = np.argsort(self.members, kind="stable")
        counts = np.bincount(self.members, minlength=len(self.brokers))
        return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), owner[order]

    def sample(self, count: int, rng: np.random.Generator) -> Traffic:
        """About the same traffic from ``count`` notifications drawn by weight, scaled up."""
        drawn = rng.multinomial(count, self.weights / self.weights.sum())
        scale = self.notifications / count
        owner = np.repeat(np.arange(self.set_count), self.sizes)
        kept = drawn[owner] > 0
        return Traffic.from_pairs(
            self.brokers, owner[kept], self.members[kept], drawn * scale, self.deliveries
        )


def _distinct_sets(owner: Integers, member: Integers) -> tuple[Integers, Integers, Integers]:
    """Of sorted pairs: where each distinct set begins, which of them each set is, their sizes.

    Sets are told apart by two sums of scrambled members: that two different sets agree in 128
    bits is less likely than that this machine miscounts.
    """
    if not len(owner):
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    begins = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    sizes = np.diff(np.concatenate((begins, [len(owner)])))
    sums = [np.add.reduceat(_scrambled(member, salt), begins) for salt in (1, 2)]
    order = np.lexsort((begins, *sums, sizes))
    ordered = [values[order] for values in (*sums, sizes.astype(np.uint64))]
    differs = np.zeros(len(order), dtype=bool)
    differs[0] = True
    for values in ordered:
        differs[1:] |= values[1:] != values[:-1]
    # In a run of equal sets the first begins first, because lexsort's last key is `begins`.
    representative = order[differs]
    rank = np.empty(len(representative), dtype=np.int64)
    by_place = np.argsort(begins[representative], kind="stable")
    rank[by_place] = np.arange(len(representative))
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = rank[np.cumsum(differs) - 1]
    chosen = representative[by_place]
    return begins[chosen], inverse, sizes[chosen]


def _scrambled(values: Integers, salt: int) -> npt.NDArray[np.uint64]:
    """64 well-mixed bits of each value (the finalizer of splitmix64)."""
    mixed = values.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class Prices:
    """p_v and c_e of the brokers, in their natural order."""

    brokers: tuple[BrokerId, ...]
    processing: Floats
    communication: Floats

    def __post_init__(self) -> None:
        count = len(self.brokers)
        if self.processing.shape != (count,) or self.communication.shape != (count, count):
            raise DesignError(f"{count} brokers need {count} prices and a square of them")
        with np.errstate(invalid="ignore"):
            wrong = not (self.processing >= 0).all() or not (self.communication >= 0).all()
        if wrong:
            raise DesignError("a price is 0 or more")

    @classmethod
    def of(cls, processing: Mapping[BrokerId, float], links: Mapping[Link, float]) -> Prices:
        """From a price for every broker and for some links; other links cannot be.

        >>> Prices.of({"a": 1.0, "b": 2.0}, {Link("a", "b"): 5.0}).communication[0, 1]
        5.0
        """
        brokers = tuple(sorted(processing, key=natural_order))
        index_of = {broker: index for index, broker in enumerate(brokers)}
        communication = np.full((len(brokers), len(brokers)), np.inf)
        for link, price in links.items():
            a, b = index_of[link.a], index_of[link.b]
            communication[a, b] = communication[b, a] = price
        return cls(brokers, np.array([processing[b] for b in brokers], float), communication)

    @classmethod
    def from_matrix(
        cls, brokers: tuple[BrokerId, ...], processing: Floats, communication: Floats
    ) -> Prices:
        """From a full matrix; the two directions of a pair are averaged, the diagonal ignored."""
        both = (communication + communication.T) / 2
        np.fill_diagonal(both, np.inf)
        return cls(brokers, np.asarray(processing, float), both)

    def without(self, links: Iterable[Link]) -> Prices:
        """These prices with some links forbidden."""
        index_of = {broker: index for index, broker in enumerate(self.brokers)}
        left = self.communication.copy()
        for link in links:
            a, b = index_of[link.a], index_of[link.b]
            left[a, b] = left[b, a] = np.inf
        return replace(self, communication=left)

    def of_link(self, link: Link) -> float:
        """c_e of one link. O(brokers): for reports."""
        return float(self.communication[self.brokers.index(link.a), self.brokers.index(link.b)])
