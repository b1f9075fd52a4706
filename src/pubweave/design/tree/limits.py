"""The operator's limits as a search meets them: which link may go, which may come.

`bring_within` makes a tree keep the limits at the least cost it can find step by step; after that
every exchange that `best_exchange` offers keeps them.
"""

from __future__ import annotations

import numpy as np

from pubweave.design.tree.cost import edges_of
from pubweave.design.tree.link_exchange import Exchange, Pair, TreeState, pair_of
from pubweave.design.tree.problem import DesignProblem
from pubweave.design.tree.traffic import DesignError, Floats

_NO_CAP = 1 << 30


class Allowance:
    """Limits of a problem in indices; ``candidates`` are the prices of links that may be."""

    def __init__(self, problem: DesignProblem) -> None:
        limits, brokers = problem.limits, problem.brokers
        index_of = {broker: index for index, broker in enumerate(brokers)}
        self.brokers = brokers
        self.candidates = problem.prices.without(limits.forbidden).communication
        self.pinned: set[Pair] = {
            pair_of(index_of[link.a], index_of[link.b]) for link in limits.pinned
        }
        self.max_degree = _NO_CAP if limits.max_degree is None else limits.max_degree
        self.max_changes = limits.max_changes
        pairs = edges_of(problem.source, brokers).tolist()
        self.original: set[Pair] = {pair_of(a, b) for a, b in pairs}
        self._back = np.full_like(self.candidates, np.inf)
        for a, b in self.original:
            self._back[a, b] = self._back[b, a] = self.candidates[a, b]
        _check_pins(self)

    def changes(self, state: TreeState) -> int:
        """How many links of the tree the source did not have."""
        return len(state.links - self.original)

    def best_exchange(self, state: TreeState, link: Pair) -> Exchange | None:
        """The best that may come for a link that may go."""
        if link in self.pinned:
            return None
        return state.best_exchange(link, self._candidates_for(state, link), self.max_degree)

    def permits(self, links: set[Pair], removed: Pair, added: Pair) -> bool:
        """Whether a tree of these links may make the exchange."""
        if removed in self.pinned or not np.isfinite(self.candidates[added]):
            return False
        if self.max_degree == _NO_CAP and self.max_changes is None:
            return True
        after = (links - {removed}) | {added}
        if self.max_degree < _NO_CAP:
            ends = [end for link in after for end in link]
            if any(ends.count(end) > self.max_degree for end in added):
                return False
        return self.max_changes is None or len(after - self.original) <= self.max_changes

    def bring_within(self, state: TreeState) -> None:
        """Change the tree until it keeps the limits; raises if no way to that is found."""
        for pin in sorted(self.pinned - state.links):
            self._add(state, pin)
        for link in sorted(state.links):
            if not np.isfinite(self.candidates[link]):
                self._replace(state, link)
        self._thin_out(state)
        if self.max_changes is not None and self.changes(state) > self.max_changes:
            raise DesignError(
                f"the other limits need {self.changes(state)} changed links: --max-changes "
                f"{self.max_changes} is too few"
            )

    def _candidates_for(self, state: TreeState, link: Pair) -> Floats:
        is_spent = self.max_changes is not None and self.changes(state) >= self.max_changes
        return self._back if is_spent and link in self.original else self.candidates

    def _add(self, state: TreeState, pin: Pair) -> None:
        options = [each for each in state.removals(pin) if each.removed not in self.pinned]
        if not options:
            raise DesignError("the pinned links close a cycle: a tree cannot have them all")
        forbidden = [e for e in options if not np.isfinite(self.candidates[e.removed])]
        state.apply(max(forbidden or options, key=lambda each: (each.gain, each.removed)))

    def _replace(self, state: TreeState, link: Pair) -> None:
        # Degrees are seen to afterwards: a link that must go may need a busy broker for a while.
        found = state.best_exchange(link, self.candidates)
        if found is None:
            a, b = (self.brokers[end] for end in link)
            raise DesignError(f"without the forbidden link {a}-{b} no tree has a known price")
        state.apply(found)

    def _thin_out(self, state: TreeState) -> None:
        """Take links from brokers that have too many, the least useful first."""
        for broker in range(len(self.brokers)):
            while state.degree(broker) > self.max_degree:
                options = [
                    found
                    for link in sorted(state.links)
                    if broker in link and link not in self.pinned
                    for found in [state.best_exchange(link, self.candidates, self.max_degree)]
                    if found is not None
                ]
                if not options:
                    raise DesignError(
                        f"broker {self.brokers[broker]!r} cannot do with {self.max_degree} links: "
                        "raise --max-degree or price more links (--latency)"
                    )
                state.apply(max(options, key=lambda each: (each.gain, each.added)))


def _check_pins(allowance: Allowance) -> None:
    ends = [end for pin in allowance.pinned for end in pin]
    for broker in sorted(set(ends)):
        if ends.count(broker) > allowance.max_degree:
            raise DesignError(
                f"more links of broker {allowance.brokers[broker]!r} are pinned than "
                f"--max-degree {allowance.max_degree} allows"
            )
