"""``pubweave dashboard``: what it refuses before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubweave.cli.main import run


def test_a_bad_token_file_is_one_message_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dashboard", "--token-file", str(tmp_path / "none")]) == 2
    assert "none: No such file" in capsys.readouterr().err


def test_an_ensemble_needs_the_overlays_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dashboard", "--zookeeper", "127.0.0.1:1"]) == 2
    assert "--overlay" in capsys.readouterr().err


def test_telemetry_is_the_run_directorys_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dashboard", "--telemetry", "somewhere"]) == 2
    assert "--zookeeper" in capsys.readouterr().err
