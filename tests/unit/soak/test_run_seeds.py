"""Runs take turns, and what was done is kept and never mixed with other code's results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from soak.run_seeds import TURN, Tally, command, every_run, options_of, read, turns

from pubweave.sim.kernel.results import RunResult


def test_every_run_can_be_named_and_shown() -> None:
    assert "mqtt:journal:rendezvous" in every_run()
    assert options_of("routing:memory") == ("routing", {})
    assert command("mqtt:journal:tree", 7) == (
        "pubweave simulate mqtt --durability journal --strategy tree --seed 7 --trace"
    )


def test_turns_are_alike_for_all_and_go_on_where_they_were() -> None:
    tallies = {"a": Tally(), "b": Tally(seeds=5)}
    order = list(turns(["a", "b"], tallies, TURN + 1))
    assert Counter(run for run, _ in order) == {"a": TURN + 1, "b": TURN + 1 - 5}
    assert order[TURN] == ("b", 5)


def test_a_failed_seed_is_kept_with_its_violation() -> None:
    tally = Tally()
    tally.add(RunResult("routing", 3, (), counts={"due": 2}))
    tally.add(RunResult("routing", 4, ("lost", "more"), counts={"due": 1}))
    assert (tally.seeds, tally.counts, tally.failed) == (2, {"due": 3}, {4: "lost"})


def test_results_of_other_code_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    held = {"seeds": 1, "counts": {}, "failed": {"9": "lost"}}
    path.write_text(json.dumps({"source": "x", "first": 0, "runs": {"a": held}}))
    assert read(path, "x", 0)["a"].failed == {9: "lost"}
    with pytest.raises(SystemExit, match="other code"):
        read(path, "y", 0)
