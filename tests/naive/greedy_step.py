"""The slow, obvious twin of one step of the greedy kernel, over lists and sets.

Links are numbered as in the kernel: tokens first, kept links after them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.naive.reachability import Pair, pair

Slide = tuple[int, int, int, int]
"""(token, mover, old peer, new peer)."""


@dataclass
class Step:
    """The state before a step: links by number, the goals that are left, what may not move."""

    links: list[Pair]
    goals: list[Pair]
    frozen: set[int]
    weight: list[float]
    brokers: int

    def at(self, broker: int) -> list[int]:
        """The numbers of a broker's links, in order."""
        return [number for number, link in enumerate(self.links) if broker in link]

    def far_end(self, number: int, broker: int) -> int:
        (far,) = set(self.links[number]) - {broker}
        return far

    def path(self, start: int, end: int) -> list[int]:
        """The links between two brokers of the tree, in order."""

        def search(broker: int, came_over: int) -> list[int] | None:
            if broker == end:
                return []
            for number in self.at(broker):
                if number != came_over:
                    rest = search(self.far_end(number, broker), number)
                    if rest is not None:
                        return [number, *rest]
            return None

        found = search(start, -1)
        assert found is not None
        return found

    def gain(self, token: int, over: int) -> float:
        """What sliding a token's end over a neighboring link shortens, less what it lengthens.

        A path over both links loses one of them, one over the token alone gets the other too."""
        total = 0.0
        for goal, weight in zip(self.goals, self.weight, strict=True):
            path = self.path(*goal)
            if token in path:
                at = path.index(token)
                total += weight if over in path[max(0, at - 1) : at + 2] else -weight
        return total

    def candidates(self) -> list[tuple[int, int, int]]:
        """(token, end, link at that end), in the kernel's order; a token is its own neighbor."""
        return [
            (token, end, over)
            for token in range(len(self.goals))
            if token not in self.frozen
            for end in range(2)
            for over in self.at(self.links[token][end])
        ]

    def chosen(
        self,
        noise: list[float],
        guarded: set[int],
        max_degree: int,
        disjoint: bool,
        forbidden: set[Pair],
    ) -> list[Slide]:
        """The slides of the step, best first, each if it gets along with those before."""
        ranked = []
        for place, (token, end, over) in enumerate(self.candidates()):
            if over == token:
                continue
            value = self.gain(token, over)
            if token in guarded:
                value = value + 1e18 if over in guarded else 0.0
            if value > 0:
                ranked.append((-value * noise[place % len(noise)], place, token, end, over))
        taken: list[Slide] = []
        degree = [len(self.at(broker)) for broker in range(self.brokers)]
        leaned: dict[int, int] = {}
        for _, _, token, end, over in sorted(ranked):
            j = self.links[token][end]
            i, k = self.links[token][1 - end], self.far_end(over, j)
            moved = {slide[0] for slide in taken}
            busy = {broker for slide in taken for broker in slide[1:]}
            if token in moved or token in leaned or over in moved:
                continue
            if leaned.get(over, k) != k or pair(i, k) in forbidden:
                continue
            if (disjoint and busy & {i, j, k}) or (max_degree and degree[k] >= max_degree):
                continue
            taken.append((token, i, j, k))
            leaned[over] = k
            degree[k] += 1
            degree[j] -= 1
        return taken
