"""Traffic: which sets of brokers share notifications, and how many, as arrays.

What a notification costs on a tree depends on V(n) alone, the publisher's broker and the brokers
of its receivers (CI Eq. 1). So notifications with the same V(n) are one row with a weight, and
whoever prices a tree walks over distinct sets, not over notifications. No prices here, no files.

Invariant: the members of a set are different and ascending, no two sets are equal, and every
weight is positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, natural_order

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
