"""The nemesis of `soak.jepsen` is drawn from its seed."""

from __future__ import annotations

import itertools

import pytest
from soak.jepsen.schedule import CALM_AFTER_S, CALM_BEFORE_S, COMMON, LONG_S, Fault, draw_schedule
from soak.jepsen.settings import KINDS, TrialSettings, draw_links, draw_mqtt, draw_native

BROKERS = [f"b{number}" for number in range(1, 7)]


def draw(seed: int, minutes: float = 30.0, weights: dict[str, int] | None = None) -> list[Fault]:
    return draw_schedule(BROKERS, minutes, seed, weights=COMMON if weights is None else weights)


def test_the_same_seed_gives_the_same_faults() -> None:
    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_every_kind_strikes_within_half_an_hour() -> None:
    assert {fault.kind for fault in draw(3)} == set(COMMON)


@pytest.mark.parametrize("seed", range(20))
def test_faults_come_in_order_leave_calm_ends_and_some_are_long_or_in_pairs(seed: int) -> None:
    faults = draw(seed)
    starts = [fault.at_s for fault in faults]
    assert starts == sorted(starts)
    assert starts[0] >= CALM_BEFORE_S
    assert all(f.at_s + f.for_s <= 30 * 60 - CALM_AFTER_S + 0.01 for f in faults)
    assert all(0 < f.for_s <= LONG_S for f in faults)
    assert any(f.for_s > 30.0 for f in faults)
    pairs = itertools.pairwise(faults)
    assert any(second.at_s < first.at_s + first.for_s for first, second in pairs)


def test_targets_fit_their_fault() -> None:
    for fault in draw(4):
        assert set(fault.targets) <= set(BROKERS)
        assert len(set(fault.targets)) == len(fault.targets)
        if fault.kind.endswith("cut"):
            assert len(fault.targets) == 2
        if fault.kind == "clock":
            assert fault.amount


def test_a_schedule_of_no_faults_is_empty() -> None:
    assert draw(1, weights={}) == []


@pytest.mark.parametrize("kind", KINDS)
def test_clients_and_links_are_drawn_from_the_seed(kind: str) -> None:
    settings = TrialSettings(kind=kind, minutes=1.0, seed=5)
    addresses = {name: f"{name}:7000" for name in settings.names}
    hosts = {name: name for name in settings.names}
    assert draw_native(settings, addresses) == draw_native(settings, addresses)
    assert draw_mqtt(settings, hosts) == draw_mqtt(settings, hosts)
    links = draw_links(settings.names, 5, is_tree=True)
    assert len(links) == len(settings.names) - 1


def test_only_the_chosen_faults_are_drawn() -> None:
    settings = TrialSettings(kind="tree", minutes=5.0, seed=1, faults=("kill", "plan"))
    assert set(settings.weights()) == {"kill", "plan"}
