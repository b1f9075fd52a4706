"""A ring priced by what its brokers noted: as if somebody had known all of the tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest

from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.self_organizing.cycle_cost_by_interest import CycleRefusal
from pubweave.core.self_organizing.cycle_cost_by_traffic import (
    RULE,
    CycleCostByTraffic,
    union_counts,
)
from pubweave.core.self_organizing.neighborhood import Neighborhood
from pubweave.core.self_organizing.prices import LinkPrices
from pubweave.core.self_organizing.traffic_sides import (
    SLICES,
    SPAN_SLICES,
    SliceRange,
    TrafficSides,
)
from pubweave.core.session.session import Session
from pubweave.design.ci.cycle_traffic import removal_costs_by_sides
from pubweave.design.tree.cost import total_cost
from pubweave.design.tree.traffic import Prices, Traffic
from pubweave.model.bloom import BloomFilter, Keys, mix
from pubweave.model.messages.session import ExchangeRequest, InterestBroadcast, Verdict
from pubweave.model.publications import make_publication
from tests.naive.delivery_trees import delivery, way
from tests.naive.design_instances import random_edges, random_prices

CONFIG = OrganizeConfig(interval_s=3.0, link_price=LinkPrice.HOPS)
SPAN = SliceRange(SPAN_SLICES, SPAN_SLICES)
"""The slices of a second in which something was noted."""
CLIENT = Session("c", own_epoch=1, is_client=True, limits=SessionLimits())


def view(own: str, cache: TrafficSides, config: OrganizeConfig = CONFIG) -> CycleCostByTraffic:
    around = Neighborhood(own, keeps_hits=False)
    return CycleCostByTraffic(own, config, around, LinkPrices(config, lambda: 0.0), cache)


@dataclass
class World:
    """A random tree whose brokers noted, one publication at a time, what they routed."""

    neighbors: dict[str, list[str]]
    caches: dict[str, TrafficSides]
    traffic: Traffic
    prices: Prices
    edges: np.ndarray
    ring: list[str]

    @classmethod
    def draw(cls, seed: int, kinds: int, most: int) -> World:
        rng = np.random.default_rng(seed)
        count = int(rng.integers(4, 16))
        names = [f"b{number}" for number in range(1, count + 1)]
        edges = random_edges(rng, count)
        neighbors: dict[str, list[str]] = {name: [] for name in names}
        for a, b in edges.tolist():
            neighbors[names[a]].append(names[b])
            neighbors[names[b]].append(names[a])
        caches, note = _notebooks(neighbors)
        sets = []
        for kind in range(kinds):
            if kind == kinds // 2:
                for cache in caches.values():
                    cache.turn(2.0)
            members = rng.choice(names, size=int(rng.integers(1, count + 1)), replace=False)
            home, *wanted = members.tolist()
            weight = int(rng.integers(1, most))
            sets.append((members.tolist(), float(weight)))
            for passage in delivery(neighbors, home, frozenset(wanted)):
                note(passage.broker, passage.came_from, passage.went_to, passage.is_wanted,
                     f"p{kind}", weight)  # fmt: skip
        for cache in caches.values():
            for number in range(2, SPAN_SLICES + 1):
                cache.turn(1.0 + number)
        ways = [way(neighbors, a, b) for a in names for b in names if a != b]
        rings = [path for path in ways if len(path) > 2]
        ring = rings[int(rng.integers(len(rings)))]
        prices = random_prices(rng, count)
        return cls(neighbors, caches, Traffic.of(names, sets), prices, edges, ring)

    def request(self, bits: int = 100_000) -> ExchangeRequest:
        places = [self.prices.brokers.index(broker) for broker in self.ring]
        size = len(places)
        between = self.prices.communication
        costs = [float(between[places[m], places[(m + 1) % size]]) for m in range(size)]
        processing = tuple(float(self.prices.processing[place]) for place in places)
        return ExchangeRequest("x", RULE, tuple(self.ring), processing, tuple(costs),
                               last_slice=SPAN.last, slices=SPAN.count, bits=bits)  # fmt: skip

    def true_gains(self) -> list[float]:
        """What the whole tree's cost falls by if the new link takes a ring link's place."""
        places = [self.prices.brokers.index(broker) for broker in self.ring]
        now = total_cost(self.traffic, self.prices, self.edges)
        gains = []
        for m in range(len(places) - 1):
            kept = [e for e in self.edges.tolist() if set(e) != {places[m], places[m + 1]}]
            then = np.array([*kept, [places[0], places[-1]]])
            gains.append(now - total_cost(self.traffic, self.prices, then))
        return gains


def _notebooks(neighbors: Mapping[str, list[str]]):  # type: ignore[no-untyped-def]
    links = {
        name: {n: Session(n, own_epoch=1, is_client=False, limits=SessionLimits()) for n in near}
        for name, near in neighbors.items()
    }
    caches = {
        name: TrafficSides(10**6, 1.0 * SLICES, 0.0, lambda name=name: links[name].values())
        for name in neighbors
    }
    for cache in caches.values():
        cache.turn(1.0)

    def note(
        broker: str,
        came_from: str | None,
        went_to: tuple[str, ...],
        is_wanted: bool,
        publisher: str,
        count: int,
    ) -> None:
        origin = CLIENT if came_from is None else links[broker][came_from]
        route = tuple(links[broker][n] for n in went_to) + ((CLIENT,) if is_wanted else ())
        for sequence in range(1, count + 1):
            publication = make_publication(publisher, sequence, "t", {}, b"", 0.0)
            caches[broker].routed(publication, origin, route)

    return caches, note


def exact_union(world: World):  # type: ignore[no-untyped-def]
    size = len(world.ring)
    sides: list[set[int]] = []
    for member, broker in enumerate(world.ring):
        side = world.caches[broker].side(SPAN, world.ring[max(0, member - 1) : member + 2])
        assert side is not None
        sides.append(set(side.tolist()))
    return lambda first, count: len(set().union(*(sides[(first + m) % size] for m in range(count))))


@pytest.mark.parametrize("seed", range(30))
def test_what_brokers_note_prices_every_exchange_as_the_whole_tree_would(seed: int) -> None:
    """The claim: exact sides give the exact differences of CI Eqs. 1-2."""
    world = World.draw(seed, kinds=12, most=6)
    request = world.request()
    costs = removal_costs_by_sides(request.processing, request.link_costs, exact_union(world))
    gains = [costs[-1] - cost for cost in costs[:-1]]
    assert gains == pytest.approx(world.true_gains(), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_a_request_that_went_round_prices_it_within_the_error_of_counting(seed: int) -> None:
    world = World.draw(seed, kinds=12, most=400)
    request = world.request()
    for broker in world.ring:
        added = view(broker, world.caches[broker]).added(request)
        assert isinstance(added, ExchangeRequest)
        request = added
    last = view(world.ring[-1], world.caches[world.ring[-1]])
    assert last.fault(request, len(world.ring)) == ""
    costs = last.removal_costs(request)
    assert costs is not None
    # Every load is the sum of three counts with a deviation of n / sqrt(2 m) each; four of them.
    entries = exact_union(world)(0, len(world.ring))
    off = 4 * 3 * entries / math.sqrt(2 * request.bits)
    allowed = off * (sum(request.processing) + sum(request.link_costs))
    gains = [costs[-1] - cost for cost in costs[:-1]]
    assert gains == pytest.approx(world.true_gains(), abs=2 * allowed)


def test_counts_of_unions_are_within_the_stated_error() -> None:
    """sqrt(m (e^t - t - 1)) of linear counting, at little and at much for the filter."""
    bits = 10_000
    for entries in (50, 500, 5_000, 20_000):
        errors = []
        for draw in range(40):
            keys = mix(np.arange(entries, dtype=np.uint64) + np.uint64(10**6 * draw))
            sides = [_filter(keys[:half], bits) for half in (entries // 2, entries)]
            errors.append(union_counts(sides)(0, 2) - entries)
        t = entries / bits
        deviation = math.sqrt(bits * (math.exp(t) - t - 1))
        spread = float(np.std(errors))
        assert abs(float(np.mean(errors))) < 4 * deviation / math.sqrt(len(errors)) + 0.5
        assert spread < 1.5 * deviation + 0.5


def _filter(keys: Keys, bits: int) -> BloomFilter:
    made = BloomFilter(bits, 1)
    made.add(keys)
    return made


def test_who_has_not_noted_all_of_the_slices_is_busy_and_who_has_no_room_declines() -> None:
    world = World.draw(3, kinds=5, most=5)
    first = view(world.ring[0], world.caches[world.ring[0]])
    unknown = first.added(msgspec.structs.replace(world.request(), last_slice=7))
    assert isinstance(unknown, CycleRefusal)
    assert unknown.verdict is Verdict.BUSY
    full = TrafficSides(1, 1.0 * SLICES, 0.0, lambda: [])
    full.turn(1.0)
    for sequence in (1, 2):
        full.routed(make_publication("p", sequence, "t", {}, b"", 0.0), CLIENT, ())
    for number in range(1, SPAN_SLICES + 1):
        full.turn(1.0 + number)
    refused = view(world.ring[0], full).added(world.request())
    assert isinstance(refused, CycleRefusal)
    assert refused.verdict is Verdict.DECLINED


def test_whoever_asks_names_its_last_sound_slices_and_the_size_of_filters() -> None:
    world = World.draw(3, kinds=5, most=5)
    cache = world.caches[world.ring[0]]
    bare = msgspec.structs.replace(world.request(), last_slice=0, slices=0, bits=0)
    opened = view(world.ring[0], cache).opened(bare)
    assert opened is not None
    asked = (opened.last_slice, opened.slices, opened.bits, len(opened.sides))
    assert asked == (SPAN.last, SPAN.count, 100_000, 1)
    adapted = view(world.ring[0], cache, replace(CONFIG, adapt_bloom=True)).opened(bare)
    assert adapted is not None
    assert adapted.bits == 16_384
    cache.spoil()
    cache.turn(2.0 + SPAN_SLICES)
    assert view(world.ring[0], cache).opened(bare) is None


def test_filters_that_are_full_or_none_price_nothing() -> None:
    world = World.draw(3, kinds=5, most=5)
    last = view(world.ring[-1], world.caches[world.ring[-1]])
    full = _filter(mix(np.arange(50_000, dtype=np.uint64)), 1024).to_bytes()
    count = len(world.ring)
    for side in (full, b"", b"junk", _filter(mix(np.arange(3, dtype=np.uint64)), 2048).to_bytes()):
        request = msgspec.structs.replace(world.request(bits=1024), sides=(side,) * count)
        assert last.removal_costs(request) is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"sides": ()}, "add up"),
        ({"costs": (1.0, 1.0, 1.0)}, "add up"),
        ({"slices": 0}, "0 slices"),
        ({"slices": 10**9}, "slices"),
        ({"bits": 5}, "5 bits"),
        ({"bits": 1 << 30}, "bits"),
        ({"sides": (b"x" * 100_000,)}, "too large"),
    ],
)
def test_sides_that_cannot_be_are_named(change: dict[str, object], fault: str) -> None:
    cache = TrafficSides(10, 5.0, 0.0, lambda: [])
    request = ExchangeRequest("x", RULE, ("b1", "b2", "b3"), (1.0,) * 3, (1.0,) * 3,
                              slices=3, bits=1024, sides=(b"x",))  # fmt: skip
    assert view("b2", cache).fault(request, 1) == ""
    assert fault in view("b2", cache).fault(msgspec.structs.replace(request, **change), 1)


# --- wishes ----------------------------------------------------------------------------------


def wishing(config: OrganizeConfig) -> tuple[CycleCostByTraffic, TrafficSides]:
    """b1 - b2 - b3 - b4, with prices 1, 2 and 3 along the way."""
    around = Neighborhood("b1", keeps_hits=False)
    for brokers in (("b2",), ("b3", "b2"), ("b4", "b3", "b2")):
        passed = len(brokers) - 1
        costs = (3.0, 2.0)[2 - passed :]
        message = InterestBroadcast(0, 4 - len(brokers), brokers, (1.0,) * len(brokers), costs,
                                    (0.0,) * passed, 0, 0, b"")  # fmt: skip
        around.learn_path(message, 1.0)
    cache = TrafficSides(10, 1.0 * SLICES, 0.0, lambda: [])
    for number in range(1, SPAN_SLICES + 2):
        cache.turn(float(number))
    return CycleCostByTraffic("b1", config, around, LinkPrices(config, lambda: 0.0), cache), cache


def test_a_link_is_wished_for_if_it_is_no_dearer_than_the_dearest_on_the_way() -> None:
    config = replace(CONFIG, link_prices={"b3": 2.0, "b4": 2.5})
    rings, _ = wishing(config)
    wishes = [rings.desired_link(broker, 0.0) for broker in ("b2", "b3", "b4", "b9")]
    assert [wish and wish.gain for wish in wishes] == [None, 0.0, 0.5, None]
    dearer, _ = wishing(replace(config, link_prices={"b3": 2.1, "b4": 3.1}))
    assert [dearer.desired_link(broker, 0.0) for broker in ("b3", "b4")] == [None, None]


def test_nothing_is_wished_for_by_whoever_has_noted_too_little() -> None:
    rings, cache = wishing(CONFIG)
    assert rings.desired_link("b4", 0.0) is not None
    cache.spoil()
    cache.turn(2.0 + SPAN_SLICES)
    assert rings.desired_link("b4", 0.0) is None


def test_equal_wishes_take_turns() -> None:
    rings, cache = wishing(replace(CONFIG, link_prices={"b3": 2.0, "b4": 3.0}))
    first = []
    for number in range(5, 25):
        cache.turn(float(number))
        wishes = [wish for broker in ("b3", "b4") if (wish := rings.desired_link(broker, 0.0))]
        first.append(min(wishes, key=lambda wish: wish.turn).known.path[-1])
    assert {"b3", "b4"} == set(first)


def test_the_dearest_ways_are_probed_first() -> None:
    rings, _ = wishing(replace(CONFIG, link_price=LinkPrice.RTT, broker_price=1.0))
    known = {broker: known for broker, known in rings._neighborhood}
    assert rings.expected_gain(known["b4"]) > rings.expected_gain(known["b3"])
