"""Simulating as a library: results, progress, and what is kept when somebody ends it early."""

from __future__ import annotations

import pytest

import pubweave
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.scenarios.scenario import ScenarioError
from pubweave.sim.simulate import SCENARIOS


def test_progress_hears_of_each_result_once() -> None:
    heard: list[RunResult] = []
    results = pubweave.simulate("routing", [5, 3], max_brokers=3, progress=heard.append)
    assert results == heard
    assert [result.seed for result in results] == [5, 3]
    assert pubweave.simulate(SCENARIOS["routing"], [5, 3], max_brokers=3) == results


def test_an_interruption_keeps_what_is_done() -> None:
    def interrupt(result: RunResult) -> None:
        if result.seed == 1:
            raise KeyboardInterrupt

    results = pubweave.simulate("routing", range(5), max_brokers=3, progress=interrupt)
    assert [result.seed for result in results] == [0, 1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"weather": "rain"}, "there is no option weather"),
        ({"fault": "all"}, "unknown fault 'all': choose long_pauses, one_way_cuts,"),
        ({"strategy": "rendezvous"}, "unknown strategy 'rendezvous': choose"),
    ],
)
def test_an_option_that_is_not_taken_is_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        pubweave.simulate("routing", range(2), **options)
