"""What a design is asked for and what it answers: frozen values, no search.

A `DesignProblem` is a tree, its traffic, the prices and the operator's limits; a `DesignResult` is
another tree with its cost and what is proven about it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pubweave.design.tree.traffic import DesignError, Prices, Traffic
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology

Stop = Callable[[], bool]
"""Asked now and then; once it says true, the best so far is the result."""


@dataclass(frozen=True)
class DesignProgress:
    """What a design tells while it runs."""

    message: str
    cost: float


OnProgress = Callable[[DesignProgress], None]


def ignore_progress(progress: DesignProgress) -> None:
    """For those who do not watch."""


class DesignStatus(enum.Enum):
    """What is known of a target."""

    OPTIMAL = "optimal"
    """No tree within the limits is cheaper."""
    BEST_FOUND = "best_found"
    """The cheapest that was seen."""
    RULE = "rule"
    """What the rule says, be it cheap or not."""


@dataclass(frozen=True)
class DesignLimits:
    """What an operator demands of the target, whatever it costs."""

    max_degree: int | None = None
    pinned: frozenset[Link] = frozenset()
    forbidden: frozenset[Link] = frozenset()
    max_changes: int | None = None

    def __post_init__(self) -> None:
        for link in sorted(self.pinned & self.forbidden):
            raise DesignError(f"link {link} is both pinned and forbidden")
        if self.max_degree is not None and self.max_degree < 1:
            raise DesignError("a broker needs at least one link: --max-degree must be 1 or more")

    @property
    def are_none(self) -> bool:
        return self == DesignLimits()


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """A tree to improve for a traffic at given prices."""

    source: Topology
    traffic: Traffic
    prices: Prices
    limits: DesignLimits = field(default_factory=DesignLimits)

    def __post_init__(self) -> None:
        brokers = frozenset(self.prices.brokers)
        if self.traffic.brokers != self.prices.brokers or self.source.brokers != brokers:
            raise DesignError("traffic, prices and topology must speak of the same brokers")
        for link in sorted(self.limits.pinned | self.limits.forbidden):
            for broker in link:
                if broker not in brokers:
                    raise DesignError(f"link {link} names the unknown broker {broker!r}")
        for link in sorted(self.limits.pinned):
            if not np.isfinite(self.prices.of_link(link)):
                raise DesignError(f"nobody knows what the pinned link {link} costs")

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        return self.prices.brokers


@dataclass(frozen=True)
class DesignResult:
    """A target tree; ``bound`` is a cost that no tree within the limits can fall below."""

    method: str
    links: frozenset[Link]
    cost: float
    status: DesignStatus
    bound: float | None = None
    rounds: int | None = None
    """Of a local heuristic: intervals until nothing changed any more."""
    exchanges: int | None = None
    notes: tuple[str, ...] = ()
