"""One broker's sums: the paper's equations on what it knows, or that it knows too little."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.core.self_organizing.cycle_cost_by_interest import CycleCostByInterest, CycleRefusal
from pubweave.core.self_organizing.neighborhood import Neighborhood
from pubweave.core.self_organizing.prices import LinkPrices
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.model.bloom import BloomFilter, Keys, mix
from pubweave.model.messages.session import ExchangeRequest, InterestBroadcast, Verdict

OWN = mix(np.arange(100, dtype=np.uint64))


def tell(
    around: Neighborhood, *brokers: str, entries: Keys, costs: tuple[float, ...] = (1.0, 1.0)
) -> None:
    """A broadcast of the first broker comes in over the last one, at b1, in window 3."""
    made = BloomFilter(100_000, 5)
    made.add(entries)
    passed = len(brokers) - 1
    around.learn(
        InterestBroadcast(
            3, 4 - len(brokers), brokers, (1.0,) * len(brokers), costs[1 : passed + 1],
            (0.0,) * passed, made.bits, made.hashes, made.to_bytes(),
        ),
        OWN, costs[0], around.common(brokers[-1]) or 0.0,
    )  # fmt: skip


def sums(config: OrganizeConfig, around: Neighborhood) -> CycleCostByInterest:
    return CycleCostByInterest(
        "b1", config, around, LinkPrices(config, lambda: 0.0), lambda: len(OWN)
    )


def neighborhood(config: OrganizeConfig) -> Neighborhood:
    """b1 - b2 - b3: b1 has 10 entries in common with b2, 80 with b3, and those three 5."""
    around = Neighborhood("b1", keeps_hits=config.estimate is Estimate.CONJUNCTION)
    tell(around, "b2", entries=OWN[:10])
    tell(around, "b3", "b2", entries=OWN[5:85])
    return around


def test_a_broker_wants_a_link_to_whom_it_shares_much_with_through_one_that_shares_little() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS)
    wish = sums(config, neighborhood(config)).desired_link("b3", now=0.0)
    assert wish is not None
    assert wish.known.path == ("b1", "b2", "b3")
    # phi = 0 (Eq. 6, clipped), so C = (1 + 1) + 1 = 3 against a direct link of 1 (Eq. 7).
    assert wish.gain == pytest.approx((3.0 - 1.0) * 80, rel=0.01)


def test_a_triple_by_conjunction_counts_what_the_one_between_wants_anyhow() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS, estimate=Estimate.CONJUNCTION)
    wish = sums(config, neighborhood(config)).desired_link("b3", now=0.0)
    assert wish is not None
    # I(1,2,3) = 5 of 80: C = 75/80 * 2 + 1.
    assert wish.gain == pytest.approx((75 / 80 * 2 + 1 - 1) * 80, rel=0.01)


def test_no_wish_for_a_link_that_costs_more_than_the_way_there_is_now() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS, link_prices={"b3": 3.5})
    assert sums(config, neighborhood(config)).desired_link("b3", now=0.0) is None


def test_no_wish_for_neighbors_strangers_and_those_without_common_interest() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS)
    around = neighborhood(config)
    tell(around, "b4", "b2", entries=mix(np.arange(500, 600, dtype=np.uint64)))
    costs = sums(config, around)
    assert [costs.desired_link(broker, 0.0) for broker in ("b2", "b4", "b9")] == [None, None, None]


def test_no_wish_before_the_price_of_the_link_is_known() -> None:
    config = OrganizeConfig(link_price=LinkPrice.RTT)
    around = neighborhood(config)
    prices = LinkPrices(config, lambda: 1.0)
    costs = CycleCostByInterest("b1", config, around, prices, lambda: len(OWN))
    assert costs.desired_link("b3", 0.0) is None
    prices.probed("b3", 1.0, 0.0)
    assert costs.desired_link("b3", 0.0) is not None


def test_lmst_wants_the_cheaper_link_and_lmit_the_one_with_more_in_common() -> None:
    mst = OrganizeConfig(heuristic=Heuristic.MST, link_price=LinkPrice.HOPS)
    mit = OrganizeConfig(heuristic=Heuristic.MIT, link_price=LinkPrice.HOPS)
    assert sums(mst, neighborhood(mst)).desired_link("b3", 0.0) is None  # all links cost the same
    cheap = OrganizeConfig(heuristic=Heuristic.MST, link_price=LinkPrice.HOPS,
                           link_prices={"b3": 0.5})  # fmt: skip
    assert sums(cheap, neighborhood(cheap)).desired_link("b3", 0.0) is not None
    wish = sums(mit, neighborhood(mit)).desired_link("b3", 0.0)
    assert wish is not None
    assert wish.gain == pytest.approx(80, rel=0.01)  # the link b2-b3 shares nothing


def test_the_vector_of_a_broker_that_lacks_a_member_is_none() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS)
    costs = sums(config, neighborhood(config))
    ones = (1.0,) * 3
    assert costs.vector(("b1", "b2", "b3"), ones, ones) is not None
    assert costs.vector(("b1", "b2", "b9"), ones, ones) is None


def test_removing_the_new_link_is_what_the_tree_costs_now() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS)
    vector = sums(config, neighborhood(config)).vector(("b1", "b2", "b3"), (1.0,) * 3, (1.0,) * 3)
    assert vector is not None
    # Eq. 8 without the proposed link: I12 * 1 + I13 * C13, and C13 = 3 as above.
    assert vector[-1] == pytest.approx(10 * 1 + 80 * 3, rel=0.01)
    # Without b2-b3: both are a hop away.
    assert vector[1] == pytest.approx(10 + 80, rel=0.01)


def test_a_broker_that_knows_only_one_other_does_no_sums() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS)
    around = Neighborhood("b1", keeps_hits=False)
    tell(around, "b2", entries=OWN[:10])
    assert sums(config, around).vector(("b1", "b2"), (1.0,) * 2, (1.0,) * 2) is None


def test_members_add_their_vectors_to_a_request() -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS)
    costs = sums(config, neighborhood(config))
    ring, ones = ("b1", "b2", "b3"), (1.0,) * 3
    vector = costs.vector(ring, ones, ones)
    assert vector is not None
    opened = costs.opened(ExchangeRequest("x", costs.rule, ring, ones, ones))
    assert opened is not None
    twice = costs.added(opened)
    assert isinstance(twice, ExchangeRequest)
    assert costs.removal_costs(twice) == pytest.approx([2 * cost for cost in vector])
    stranger = costs.added(ExchangeRequest("x", costs.rule, ("b1", "b2", "b9"), ones, ones, ones))
    assert isinstance(stranger, CycleRefusal)
    assert stranger.verdict is Verdict.DECLINED


@pytest.mark.parametrize(
    ("costs", "sides"), [((1.0,), ()), ((1.0, 2.0, float("nan")), ()), ((1.0,) * 3, (b"",))]
)
def test_costs_that_cannot_be_are_a_fault(
    costs: tuple[float, ...], sides: tuple[bytes, ...]
) -> None:
    config = OrganizeConfig(link_price=LinkPrice.HOPS)
    ones = (1.0,) * 3
    request = ExchangeRequest("x", "ci", ("b1", "b2", "b3"), ones, ones, costs, sides=sides)
    assert sums(config, neighborhood(config)).fault(request, 1)
