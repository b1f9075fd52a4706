"""A decision's plan is tried in simulation before it is tried in earnest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pubweave.autopilot.driver import rehearsed
from pubweave.model.decisions import DecisionRecord, DecisionState
from pubweave.model.files.plan import PlanRecord, plan_to_json, topology_hash
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import Topology
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.whatif.rehearsal import Rehearsal
from tests.unit.cli.design.test_whatif import CHAIN, _record
from tests.unit.control.world import record


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("telemetry")
    _record(folder)
    return folder


@pytest.fixture
def decision() -> DecisionRecord:
    plan = PlanRecord(Plan(((Shift("b1", "b2", "b3"),),)), source_hash=topology_hash(CHAIN))
    return record("000001", DecisionState.DEPLOYING, plan=plan_to_json(plan))


def test_a_good_plan_is_told_with_its_figures(decision: DecisionRecord, telemetry: Path) -> None:
    how = asyncio.run(rehearsed(decision, CHAIN, telemetry))
    assert how is not None
    assert how.problem == ""
    assert how.words.startswith("rehearsed in simulation: ")


def test_what_goes_wrong_in_rehearsal_is_the_problem(
    decision: DecisionRecord, telemetry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = RunResult("rehearsal", 0, ("s1 never got p1#1",))
    monkeypatch.setattr(Rehearsal, "run", lambda self: lost)
    how = asyncio.run(rehearsed(decision, CHAIN, telemetry))
    assert how is not None
    assert how.problem.endswith("not tried in earnest: s1 never got p1#1")


def test_where_nothing_can_be_rehearsed_nothing_is_said(
    decision: DecisionRecord, telemetry: Path, tmp_path: Path
) -> None:
    other = Topology.from_links([("b1", "b3"), ("b2", "b3")])
    assert asyncio.run(rehearsed(decision, other, telemetry)) is None
    assert asyncio.run(rehearsed(decision, CHAIN, tmp_path / "none")) is None
