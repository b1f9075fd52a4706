"""Run directories: claimed by one overlay at a time, never mixing two runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.run_directory import (
    BrokerState,
    OverlayCondition,
    OverlayState,
    RunDirectory,
    read_live_state,
    read_state,
)

STATE = OverlayState(
    overlay="tree",
    condition=OverlayCondition.RUNNING,
    pid=4321,
    started_at=1.5,
    strategy="tree",
    brokers={"b1": BrokerState("127.0.0.1:7000", 77)},
    links=[("b1", "b2")],
)


def test_a_state_reads_back_as_written(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.write(STATE)
    assert read_state(directory.path) == STATE
    assert read_live_state(directory.path) == STATE
    assert sorted(p.name for p in directory.path.iterdir()) == [
        "logs",
        "overlay.json",
        "overlay.lock",
    ]
    directory.release()


def test_a_claimed_directory_is_refused_and_the_process_named(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path)
    first.write(STATE)
    with pytest.raises(OverlayError, match=r"an overlay is running .* \(process 4321\)"):
        RunDirectory(tmp_path)
    first.release()
    RunDirectory(tmp_path).release()


def test_what_an_earlier_run_left_is_set_aside_whole(tmp_path: Path) -> None:
    for number in (1, 2):
        directory = RunDirectory(tmp_path)
        directory.telemetry.mkdir()
        (directory.telemetry / "run.json").write_text(str(number))
        directory.log_file("b1").write_text("said")
        directory.write(STATE)
        directory.release()
    directory = RunDirectory(tmp_path)
    assert not directory.telemetry.exists()
    assert directory.last_log_lines("b1") == []
    kept = sorted((tmp_path / "earlier").glob("*/telemetry/run.json"))
    assert sorted(path.read_text() for path in kept) == ["1", "2"]
    directory.release()


def test_log_files_stay_in_the_directory_and_apart_whatever_the_ids(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    files = {directory.log_file(id_) for id_ in ("b1", "../b1", "a/b", "a b", "..", "ü")}
    assert len(files) == 6
    assert {file.parent for file in files} == {tmp_path / "logs"}
    directory.release()


def test_only_the_last_lines_of_a_log_are_told(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.log_file("b1").write_text("".join(f"line {n}\n" for n in range(30)))
    assert directory.last_log_lines("b1", 2) == ["line 28", "line 29"]
    directory.release()


def test_without_a_state_the_remedy_is_told(tmp_path: Path) -> None:
    with pytest.raises(OverlayError, match="start one with 'pubweave up'"):
        read_state(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", '{"overlay": 3}', "{"])
def test_a_broken_state_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "overlay.json").write_text(content)
    with pytest.raises(OverlayError, match=r"overlay\.json: "):
        read_state(tmp_path)


def test_a_state_of_the_future_is_refused(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write(STATE)
    directory.release()
    path = tmp_path / "overlay.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 99'))
    with pytest.raises(OverlayError, match="99 is newer than this pubweave's 1"):
        read_state(tmp_path)


def test_a_stopped_overlay_is_not_taken_for_a_live_one(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    stopped = OverlayState(
        overlay="tree",
        condition=OverlayCondition.STOPPED,
        pid=1,
        started_at=1.0,
        strategy="tree",
        brokers={},
        links=[],
        stopped_at=2.0,
    )
    directory.write(stopped)
    directory.release()
    assert read_state(tmp_path) == stopped
    with pytest.raises(OverlayError, match="was stopped: start it again"):
        read_live_state(tmp_path)
