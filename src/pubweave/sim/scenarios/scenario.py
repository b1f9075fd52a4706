"""A scenario: which world, overlay kind, workload, faults and checkers a run is composed of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from pubweave.core.strategies import find_strategy
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.run import Options, TelemetrySink

ENOUGH_RUNS = 50
"""So many together are held against bounds."""
COMMON = ("max_brokers", "rtt")
"""Options that every scenario takes."""


class ScenarioError(ValueError):
    """A scenario does not take an option, or not this value."""


class Runnable(Protocol):
    """What a scenario makes of a seed: a `SimRun`, or another object with this method."""

    def run(self) -> RunResult: ...


@dataclass(frozen=True)
class DeliveryBounds:
    """How much of what clients want may not be due, and be excused, over many runs together."""

    due: float
    """The least share of what is wanted; the rest was published before it was confirmed."""
    due_with_journals: float
    excused: float
    """The largest share of what is wanted, where brokers crash without a journal; without such
    crashes `DeliveryJudge` excuses nothing but what brokers have counted, or told."""
    excused_with_journals: float = 0.0005
    """Sessions that have expired, and are counted."""

    def exceeded(self, counts: Mapping[str, int]) -> str:
        """What is beyond a bound, in words."""
        wanted, found = counts.get("wanted", 0), []
        if counts.get("due", 0) < self.due * wanted:
            found.append(f"less than {self.due:.1%} of what is wanted is due")
        if counts.get("excused", 0) > self.excused * wanted:
            found.append(f"more than {self.excused:.2%} of what is wanted is excused")
        return ", ".join(found)


@dataclass(frozen=True)
class Scenario:
    """A kind of run. ``make`` draws what one run is like and composes it from parts."""

    about: str
    make: Callable[[World, Options], Runnable]
    max_brokers: int
    """The largest overlay, unless another one is asked for."""
    takes: frozenset[str] = frozenset()
    """Those of ``durability``, ``pause_s``, ``fault`` and ``strategy`` that may be chosen."""
    faults: Sequence[str] = ()
    """What ``fault`` may be."""
    strategies: Callable[[], Sequence[str]] = tuple
    """What ``strategy`` may be."""
    deliveries: DeliveryBounds | None = None
    """Of native clients."""
    deliveries_by: Mapping[str, DeliveryBounds] = field(default_factory=dict)
    """Where another strategy was chosen that has bounds of its own."""

    def exceeded(
        self,
        counts: Mapping[str, int],
        runs: int,
        durability: str = "memory",
        strategy: str | None = None,
    ) -> str:
        """Which bound is exceeded by what so many runs have counted, in words. A few runs say
        little: one crash is much of what happened in them."""
        if self.deliveries is None or runs < ENOUGH_RUNS:
            return ""
        bounds = self.deliveries_by.get(strategy or "", self.deliveries)
        if durability != "memory":
            bounds = replace(
                bounds, due=bounds.due_with_journals, excused=bounds.excused_with_journals
            )
        return bounds.exceeded(counts)

    def begin(
        self,
        seed: int,
        *,
        trace: Trace | None = None,
        on_telemetry: TelemetrySink | None = None,
        **chosen: Any,
    ) -> Any:
        """The run of a seed, ready for ``run()``; ``chosen`` are fields of `Options`."""
        given = {name: value for name, value in chosen.items() if value is not None}
        self.check(given)
        options = {"max_brokers": self.max_brokers, **given}
        return self.make(
            World(seed, trace), Options(trace=trace, on_telemetry=on_telemetry, **options)
        )

    def check(self, chosen: Mapping[str, object]) -> None:
        """ScenarioError says which option is not taken, or not with this value; PluginError that a
        strategy of another package cannot be loaded."""
        known = {field.name: field.default for field in fields(Options)}
        for name, value in chosen.items():
            if name not in known:
                raise ScenarioError(f"there is no option {name}")
            if name in COMMON or value == known[name]:
                continue
            if name not in self.takes:
                takes = ", ".join((*COMMON, *sorted(self.takes)))
                raise ScenarioError(f"{name} is not an option of this scenario: choose {takes}")
            allowed = {"fault": self.faults, "strategy": self.strategies()}.get(name)
            if allowed is not None and value not in allowed:
                raise ScenarioError(f"unknown {name} {value!r}: choose {', '.join(allowed)}")
            if name == "strategy":
                find_strategy(str(value))  # a package that cannot be loaded is refused here
