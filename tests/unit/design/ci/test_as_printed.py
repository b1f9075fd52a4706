"""The rounds against a twin that plays every broadcast as the paper prints it."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.ci.rounds import ExactInterest, LocalOverlay, LocalSettings
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.design.tree.cost import common_interest
from tests.naive.broadcast_rounds import PrintedOverlay
from tests.naive.design_instances import random_edges, random_prices, random_traffic

ROUNDS = 6


class Order:
    """The one thing of a generator that a round uses: the order in which brokers broadcast."""

    def __init__(self, order: list[int]) -> None:
        self._order = order

    def permutation(self, count: int) -> np.ndarray:
        assert count == len(self._order)
        return np.array(self._order)


@pytest.mark.parametrize("heuristic", list(Heuristic))
@pytest.mark.parametrize(("seed", "eta"), [(1, 2), (2, 3), (3, 4), (4, 4), (5, 6), (6, 4)])
def test_every_exchange_is_the_one_that_the_printed_rules_make(
    heuristic: Heuristic, seed: int, eta: int
) -> None:
    rng = np.random.default_rng(seed)
    brokers = 16
    traffic, prices = random_traffic(rng, brokers, 40), random_prices(rng, brokers)
    neighbors: list[list[int]] = [[] for _ in range(brokers)]
    for a, b in random_edges(rng, brokers).tolist():
        neighbors[a].append(b)
        neighbors[b].append(a)
    links = {frozenset((a, b)) for a, near in enumerate(neighbors) for b in near}
    processing, costs = prices.processing.tolist(), prices.communication.tolist()
    overlay = LocalOverlay(
        [sorted(near) for near in neighbors],
        processing,
        costs,
        ExactInterest(traffic, Estimate.OVERLAP, rng),
        LocalSettings(heuristic, eta),
    )
    common = common_interest(traffic).tolist()
    twin = PrintedOverlay(heuristic.value, links, processing, costs, common, eta)
    exchanges = 0
    for _ in range(ROUNDS):
        order = rng.permutation(brokers).tolist()
        made = overlay.play(Order(order))  # type: ignore[arg-type]
        mine = [(frozenset(removed), frozenset(added)) for removed, added in made.exchanges]
        assert mine == twin.play(order)
        exchanges += len(mine)
    assert exchanges > 5
    assert twin.links == {frozenset(pair) for pair in overlay.links}
