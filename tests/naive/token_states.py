"""The slow, obvious twin of `bounds/pair_reachability`: every state of all tokens at once, step by
step.

A state says where each token lies. All states that some plan of T steps goes through are listed,
so what they show is the truth; a sound pruning keeps every position and slide seen here.
"""

from __future__ import annotations

from itertools import product

from pubweave.planning.problem.indexed import IndexedProblem
from tests.naive.reachability import Pair, pair

State = tuple[Pair, ...]


class TokenStates:
    """The layers of states on plans of exactly T steps (steps may be empty)."""

    def __init__(self, indexed: IndexedProblem, steps: int) -> None:
        self._kept = {pair(a, b) for a, b in indexed.kept.tolist()}
        self._goals = {pair(a, b) for a, b in indexed.goals.tolist()}
        self._forbidden = {pair(a, b) for a, b in indexed.forbidden.tolist()}
        self._known: dict[State, set[State]] = {}
        layers = [{tuple(pair(a, b) for a, b in indexed.tokens.tolist())}]
        for _ in range(steps):
            layers.append({after for before in layers[-1] for after in self._after(before)})
        layers[-1] = {state for state in layers[-1] if set(state) == self._goals}
        for t in range(steps - 1, -1, -1):
            layers[t] = {
                state for state in layers[t] if any(a in layers[t + 1] for a in self._after(state))
            }
        self.layers: list[set[State]] = layers

    def endings(self, indexed: IndexedProblem) -> list[set[State]]:
        """The same layers with tokens in the order of the goal links they end on."""
        layers = [{tuple(pair(a, b) for a, b in indexed.goals.tolist())}]
        for t in range(len(self.layers) - 2, -1, -1):
            layers.insert(0, {before for before, _ in self.ending_changes(t, layers[0])})
        return layers

    def ending_changes(self, t: int, ending: set[State]) -> set[tuple[State, State]]:
        """All pairs of states before and after step t + 1, ordered as in ``ending`` after it."""
        found = set()
        for before, after in self.changes(t):
            came_from = dict(zip(after, before, strict=True))
            for state in ending:
                if set(state) == set(after):
                    found.add((tuple(came_from[link] for link in state), state))
        return found

    def changes(self, t: int) -> set[tuple[State, State]]:
        """All pairs of states before and after step t + 1."""
        return {
            (before, after)
            for before in self.layers[t]
            for after in self._after(before)
            if after in self.layers[t + 1]
        }

    def _after(self, state: State) -> set[State]:
        if state not in self._known:
            self._known[state] = self._all_after(state)
        return self._known[state]

    def _all_after(self, state: State) -> set[State]:
        found = set()
        for choice in product(*(self._options(token) for token in state)):
            rests = {a for a, b in zip(state, choice, strict=True) if a == b}
            pivots = self._kept | rests
            if all(
                a == b or pair(*(set(a) ^ set(b))) in pivots
                for a, b in zip(state, choice, strict=True)
            ) and len(set(choice)) == len(choice):
                found.add(choice)
        return found

    def _options(self, token: Pair) -> list[Pair]:
        if token in self._goals:
            return [token]
        brokers = {broker for link in self._kept for broker in link} | set(token)
        brokers |= {broker for link in self._goals for broker in link}
        slid = {pair(end, other) for end in token for other in brokers - set(token)}
        return [token, *sorted(slid - self._kept - self._forbidden)]
