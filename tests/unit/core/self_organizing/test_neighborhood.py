"""What a broker learns of its neighborhood, and how it forgets."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from pubweave.core.self_organizing.neighborhood import Neighborhood, broadcast_fault
from pubweave.model.bloom import BloomFilter, Keys, mix
from pubweave.model.ids import Link
from pubweave.model.messages.session import InterestBroadcast


def keys(first: int, last: int) -> Keys:
    return mix(np.arange(first, last, dtype=np.uint64))


def broadcast(
    *brokers: str, entries: Keys | None = None, window: int = 7, eta: int = 4
) -> InterestBroadcast:
    """From the first broker, passed on by the others."""
    made = BloomFilter(10_000, 4)
    made.add(keys(0, 50) if entries is None else entries)
    count = len(brokers)
    return InterestBroadcast(
        window=window,
        hops_left=eta - count,
        brokers=brokers,
        processing=tuple(10.0 + n for n in range(count)),
        link_costs=tuple(2.0 + n for n in range(count - 1)),
        link_commons=tuple(20.0 + n for n in range(count - 1)),
        bits=made.bits,
        hashes=made.hashes,
        filter=made.to_bytes(),
    )


def test_a_broadcast_tells_the_way_back_with_its_costs() -> None:
    around = Neighborhood("b1", keeps_hits=False)
    around.learn(broadcast("b4", "b3", "b2"), keys(30, 80), link_cost=1.0, link_common=5.0)
    known = around.get("b4")
    assert known is not None
    assert known.path == ("b1", "b2", "b3", "b4")
    assert known.processing == (12.0, 11.0, 10.0)
    assert known.link_costs == (1.0, 3.0, 2.0)
    assert known.link_commons == (5.0, 21.0, 20.0)
    assert known.common == pytest.approx(20.0, abs=0.5)
    assert around.common("b3") is None


def test_a_way_alone_is_learned_without_looking_at_any_filter() -> None:
    around = Neighborhood("b1", keeps_hits=True)
    around.learn_path(msgspec.structs.replace(broadcast("b3", "b2"), filter=b"junk"), 1.5)
    known = around.get("b3")
    assert known is not None
    assert known.path == ("b1", "b2", "b3")
    assert known.link_costs == (1.5, 2.0)
    assert known.hits == {}


def test_knowledge_that_is_not_renewed_goes_at_the_second_chance() -> None:
    around = Neighborhood("b1", keeps_hits=False)
    around.learn(broadcast("b2"), keys(0, 10), 1.0, 0.0)
    around.learn(broadcast("b3", "b2"), keys(0, 10), 1.0, 0.0)
    around.forget_stale()
    assert len(around) == 2
    around.learn(broadcast("b2"), keys(0, 10), 1.0, 0.0)
    around.forget_stale()
    assert [broker for broker, _ in around] == ["b2"]


def test_a_link_that_is_gone_takes_every_way_over_it_along() -> None:
    around = Neighborhood("b1", keeps_hits=False)
    for brokers in (("b2",), ("b3", "b2"), ("b4", "b3", "b2"), ("b5",)):
        around.learn(broadcast(*brokers), keys(0, 10), 1.0, 0.0)
    around.forget_link(Link.between("b3", "b2"))
    assert [broker for broker, _ in around] == ["b2", "b5"]


def test_joint_hits_are_of_one_window() -> None:
    around = Neighborhood("b1", keeps_hits=True)
    own = keys(0, 60)
    around.learn(broadcast("b2", entries=keys(0, 40)), own, 1.0, 0.0)
    around.learn(broadcast("b3", "b2", entries=keys(30, 90)), own, 1.0, 0.0)
    assert around.joint_hits("b2", "b3") == 10
    around.learn(broadcast("b3", "b2", entries=keys(20, 30), window=8), own, 1.0, 0.0)
    assert around.joint_hits("b2", "b3") == 10
    around.learn(broadcast("b3", "b2", entries=keys(20, 30), window=9), own, 1.0, 0.0)
    assert around.joint_hits("b2", "b3") is None
    assert around.joint_hits("b2", "b9") is None


def test_a_sound_broadcast_has_no_fault() -> None:
    assert broadcast_fault(broadcast("b3", "b2"), "b2") == ""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"processing": (1.0,)}, "add up"),
        ({"link_costs": ()}, "add up"),
        ({"hops_left": -1}, "add up"),
        ({"hops_left": 15}, "too far"),
        ({"brokers": ()}, "add up"),
        ({"brokers": ("b3", "b4")}, "lead here"),
        ({"brokers": ("b2", "b2")}, "lead here"),
        ({"processing": (1.0, float("nan"))}, "no costs"),
        ({"link_costs": (-1.0,)}, "no costs"),
        ({"link_commons": (float("inf"),)}, "no costs"),
    ],
)
def test_a_broadcast_that_cannot_be_is_named(change: dict[str, object], fault: str) -> None:
    message = msgspec.structs.replace(broadcast("b3", "b2"), **change)
    assert fault in broadcast_fault(message, "b2")
