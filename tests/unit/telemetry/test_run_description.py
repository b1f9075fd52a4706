"""run.json: written whole, read back checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pubweave.model.telemetry import SCHEMA_VERSION
from pubweave.telemetry.run_description import (
    RunClock,
    RunDescription,
    TelemetryError,
    read_run_description,
    write_run_description,
)

DESCRIPTION = RunDescription("routing", RunClock.VIRTUAL, 0.0, 1.0, {"seed": 7, "brokers": 20})


def test_a_description_comes_back_as_it_went(tmp_path: Path) -> None:
    path = write_run_description(tmp_path / "run", DESCRIPTION)
    assert read_run_description(tmp_path / "run") == DESCRIPTION
    assert [p.name for p in path.parent.iterdir()] == ["run.json"]
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert plain["schema_version"] == SCHEMA_VERSION
    assert plain["clock"] == "virtual"


def test_a_newer_description_replaces_an_older_one(tmp_path: Path) -> None:
    write_run_description(tmp_path, DESCRIPTION)
    newer = RunDescription("up", RunClock.UNIX, 1.7e9, 0.1)
    write_run_description(tmp_path, newer)
    assert read_run_description(tmp_path) == newer


def test_what_cannot_be_used_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match=r"no run\.json: name the directory"):
        read_run_description(tmp_path)
    (tmp_path / "run.json").write_text('{"name": "x"}', encoding="utf-8")
    with pytest.raises(TelemetryError, match=r"run\.json: .*clock"):
        read_run_description(tmp_path)
    newer = RunDescription("x", RunClock.UNIX, 0.0, 1.0, schema_version=SCHEMA_VERSION + 1)
    write_run_description(tmp_path, newer)
    with pytest.raises(TelemetryError, match="newer than this pubweave"):
        read_run_description(tmp_path)
