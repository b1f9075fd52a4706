"""``pubweave relocate --from-profile``: what the pipeline measured becomes a choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.design_profiles import write_profile

from pubweave.cli import main
from pubweave.design.relocation_profile import traced_publishers
from pubweave.design.traffic import DesignError
from pubweave.model.profile_files import WorkloadProfile

# b1 - b2 - b3: the publisher at b1, everything delivered at b3, one publication at b1 as well.
TABLES = {
    "publishers": {"publisher": ["quotes", "silent"], "broker": ["b1", "b2"]},
    "traces": {
        "publisher": ["quotes", "quotes"],
        "broker": ["b1", "b3"],
        "bit_vector": [[1], [-1, 15]],
        "local_deliveries": [1, 70],
        "traced": [68, 68],
    },
    "broker_costs": {"broker": ["b1", "b2", "b3"], "processing_ms": [1.0, 2.0, 3.0]},
    "links": {
        "broker_a": ["b1", "b2", "b1"],
        "broker_b": ["b2", "b3", "b3"],
        "is_present": [True, True, False],
        "cost_ms": [10.0, 20.0, None],
    },
    "link_queues": {
        "broker": ["b1", "b2"],
        "neighbor": ["b2", "b3"],
        "output_queueing_ms": [0.5, None],
    },
}


def test_reports_have_bits_of_all_words_and_delays_of_sender_queue_and_link(
    tmp_path: Path,
) -> None:
    write_profile(tmp_path, TABLES)
    (found,) = traced_publishers(WorkloadProfile(tmp_path))
    assert (found.publisher, found.publisher_at) == ("quotes", "b1")
    assert found.reports["b3"].bits == (1 << 68) - 1
    assert found.reports["b3"].deliveries == 70
    assert found.reports["b2"].bits == 0
    assert found.reports["b1"].hop_ms == {"b2": 1.0 + 0.5 + 10.0}
    assert found.reports["b2"].hop_ms == {"b1": 12.0, "b3": 22.0}
    assert found.reports["b3"].client_ms == 3.0


def test_the_command_shows_every_publisher_and_moves_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_profile(tmp_path, TABLES)
    arguments = ["relocate", "--dry-run", "--from-profile", str(tmp_path)]
    assert main.run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["publisher"], found["choice"]) == ("quotes", "b3")
    assert [c["message_rate"] for c in found["candidates"]] == [68 * 3, 68 * 2 + 1, 68 + 2]
    assert main.run(arguments) == 0
    printed = capsys.readouterr()
    assert "b3 is the only candidate" in printed.out
    assert "ping times of 1 publisher(s) are not known" in printed.err


def test_what_cannot_be_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_profile(tmp_path, TABLES)
    assert main.run(["relocate", "--from-profile", str(tmp_path)]) == 2
    assert "give --dry-run" in capsys.readouterr().err
    arguments = ["relocate", "--dry-run", "--from-profile", str(tmp_path), "--publisher", "x"]
    assert main.run(arguments) == 2
    assert "no traced publisher 'x'" in capsys.readouterr().err
    write_profile(tmp_path / "empty", {"links": TABLES["links"]})
    with pytest.raises(DesignError, match="traced no publisher"):
        traced_publishers(WorkloadProfile(tmp_path / "empty"))
    assert main.run(["relocate", "--dry-run", "--from-profile", str(tmp_path / "none")]) == 2
    assert "has no profile.json" in capsys.readouterr().err
