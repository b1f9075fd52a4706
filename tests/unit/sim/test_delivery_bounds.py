"""Bounds of what a scenario may excuse: enough runs together are held against them."""

from __future__ import annotations

import pytest

from pubweave.sim.scenarios.scenario import ENOUGH_RUNS
from pubweave.sim.scenarios.trees import ROUTING

SOUND = {"wanted": 10_000, "due": 9_000, "excused": 10}


@pytest.mark.parametrize(
    ("counts", "chosen", "found"),
    [
        ({}, {}, ""),
        ({"excused": 51}, {}, "excused"),
        ({"excused": 51}, {"strategy": "flooding"}, "is due"),
        ({"excused": 10}, {"durability": "journal"}, "excused"),
        ({"due": 7_000}, {}, "is due"),
        ({"due": 7_000, "excused": 0}, {"durability": "journal"}, ""),
    ],
)
def test_what_is_beyond_a_bound_is_named(
    counts: dict[str, int], chosen: dict[str, str], found: str
) -> None:
    said = ROUTING.exceeded({**SOUND, **counts}, ENOUGH_RUNS, **chosen)
    assert found in said if found else not said
    assert not ROUTING.exceeded({**SOUND, **counts}, ENOUGH_RUNS - 1, **chosen)
