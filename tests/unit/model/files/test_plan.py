"""Plan files: what is written is read back, and every complaint names its field."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pubweave.model.files.plan import (
    PlanFileError,
    PlanRecord,
    parse_plan,
    plan_id,
    plan_to_json,
    read_plan,
    topology_hash,
    validate_belongs,
    write_plan,
)
from pubweave.model.plans import Append, Bounds, Detach, Move, Plan, PlanStatus, Shift
from pubweave.model.topology import Topology

SOURCE = Topology.from_links([("b1", "b2"), ("b1", "b3"), ("b2", "b4")])
TARGET = Topology.from_links([("b1", "b2"), ("b1", "b3"), ("b3", "b4")])
RECORD = PlanRecord(
    Plan(
        (
            (Append("b5", "b1"),),
            (Shift("b4", "b2", "b1"), Move("b1", "b2", "b3", "b4")),
            (Detach("b5", "b1"),),
        )
    ),
    PlanStatus.STEPS_OPTIMAL,
    "exact",
    1.25,
    Bounds(3, 4),
    topology_hash(SOURCE),
    topology_hash(TARGET),
    ("a note",),
)


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_plan(RECORD, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == RECORD


def test_the_file_has_the_documented_form() -> None:
    document = json.loads(plan_to_json(RECORD))
    assert document["format_version"] == 1
    assert document["status"] == "steps_optimal"
    assert document["bounds"] == {"steps": 3, "actions": 4}
    assert document["steps"][1][0] == {"op": "shift", "brokers": ["b4", "b2", "b1"]}
    assert document["steps"][2] == [{"op": "detach", "brokers": ["b5", "b1"]}]


def test_a_step_is_a_line() -> None:
    assert '\n[{"op": "append", "brokers": ["b5", "b1"]}],\n' in plan_to_json(RECORD)


def test_the_empty_plan_is_a_plan() -> None:
    assert parse_plan(plan_to_json(PlanRecord(Plan()))) == PlanRecord(Plan())


def test_a_foreign_file_needs_only_version_and_steps() -> None:
    record = parse_plan(
        '{"format_version": 1, "steps": [[{"op": "detach", "brokers": ["a", "b"]}]]}'
    )
    assert record == PlanRecord(Plan(((Detach("a", "b"),),)))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format_version": 2}, "format_version: expected 1, got 2"),
        ({"format_version": True}, "format_version: Expected `int`, got `bool`"),
        ({"steps": None}, "steps: Expected `array`, got `null`"),
        ({"steps": [{}]}, "steps[0]: Expected `array`, got `object`"),
        ({"steps": [[7]]}, "steps[0][0]: Expected `object`, got `int`"),
        ({"steps": [[{"op": "swap", "brokers": []}]]}, "steps[0][0].op: expected one of shift"),
        (
            {"steps": [[{"op": "shift", "brokers": ["a", "b"]}]]},
            "steps[0][0].brokers: shift takes a list of 3 broker ids",
        ),
        (
            {"steps": [[{"op": "append", "brokers": ["a", 2]}]]},
            "steps[0][0].brokers[1]: Expected `str`",
        ),
        ({"steps": [[{"op": "append", "brokers": ["a", ""]}]]}, "steps[0][0].brokers[1]: Expected"),
        ({"status": "fine"}, "status: Invalid enum value 'fine'"),
        ({"seconds": -1}, "seconds: Expected `float` >= 0"),
        ({"bounds": {"steps": 1}}, "bounds: Object missing required field `actions`"),
        ({"bounds": {"steps": 1, "actions": -1}}, "bounds.actions: Expected `int` >= 0"),
        ({"method": 3}, "method: Expected `str | null`, got `int`"),
        ({"notes": "x"}, "notes: Expected `array`, got `str`"),
    ],
)
def test_a_complaint_names_the_field(change: dict[str, Any], complaint: str) -> None:
    document = {**json.loads(plan_to_json(RECORD)), **change}
    with pytest.raises(PlanFileError) as caught:
        parse_plan(json.dumps(document))
    assert str(caught.value).startswith(complaint)


def test_a_complaint_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(PlanFileError, match=r"plan\.json: No such file"):
        read_plan(path)
    path.write_text("{")
    with pytest.raises(PlanFileError, match=r"plan\.json: not JSON"):
        read_plan(path)
    with pytest.raises(PlanFileError, match="No such file"):
        write_plan(RECORD, tmp_path / "nowhere" / "plan.json")


def test_a_plan_is_bound_to_its_topologies() -> None:
    validate_belongs(RECORD, SOURCE, TARGET)
    with pytest.raises(PlanFileError, match="another source topology"):
        validate_belongs(RECORD, TARGET)
    with pytest.raises(PlanFileError, match="another target topology"):
        validate_belongs(RECORD, SOURCE, SOURCE)
    validate_belongs(PlanRecord(Plan()), SOURCE, TARGET)


def test_the_hash_sees_brokers_and_links_and_not_latencies() -> None:
    timed = Topology(SOURCE.brokers, SOURCE.links, dict.fromkeys(SOURCE.links, 3.0))
    assert topology_hash(timed) == topology_hash(SOURCE)
    assert topology_hash(SOURCE) != topology_hash(TARGET)
    alone = Topology.from_links([("b1", "b2")], brokers=["b3"])
    assert topology_hash(alone) != topology_hash(Topology.from_links([("b1", "b2")]))


def test_the_id_names_the_steps_and_not_the_run() -> None:
    assert plan_id(replace(RECORD, seconds=9.0, method="fast")) == plan_id(RECORD)
    assert plan_id(replace(RECORD, plan=Plan(RECORD.plan.steps[:1]))) != plan_id(RECORD)
    assert plan_id(replace(RECORD, source_hash="sha256:0")) != plan_id(RECORD)
