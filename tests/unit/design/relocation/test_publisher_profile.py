"""``pubweave relocate --from-profile``: what the pipeline measured becomes a choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.design_profiles import write_profile

from pubweave.cli import main
from pubweave.design.relocation.publisher_profile import subscriber_problem, traced_publishers
from pubweave.design.relocation.rules import Preference
from pubweave.design.tree.traffic import DesignError
from pubweave.model.files.profile import WorkloadProfile
from tests.naive.relocation import place_subscribers

# b1 - b2 - b3: the publisher at b1, everything delivered at b3, one publication at b1 as well.
TABLES: dict[str, dict[str, list[Any]]] = {
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


# Two trees of one topic from b1: one to b2 and b3, taken twice as often as that to b3 alone.
SUBSCRIBED: dict[str, dict[str, list[Any]]] = {
    **TABLES,
    "delivery_trees": {
        "tree": [1, 2],
        "topic": ["T", "T"],
        "broker": ["b1", "b1"],
        "weight": [20.0, 10.0],
    },
    "tree_receivers": {"tree": [1, 1, 2], "broker": ["b2", "b3", "b3"]},
    "client_topics": {
        "client": ["near", "far", "other", "quotes"],
        "topic": ["T", "T", "U", "T"],
        "broker": ["b2", "b3", "b3", "b3"],
    },
}


def test_subscribers_of_a_profile_want_what_their_broker_got_of_their_topics(
    tmp_path: Path,
) -> None:
    write_profile(tmp_path, SUBSCRIBED)
    problem = subscriber_problem(WorkloadProfile(tmp_path), Preference(), 9, 0.0)
    wanted = {s.client: (s.broker, set(s.wanted)) for s in problem.subscribers}
    # A publisher is placed by its traces, and who got nothing stays.
    assert wanted == {"near": ("b2", {"1"}), "far": ("b3", {"1", "2"})}
    assert problem.publisher_at == {"1": "b1", "2": "b1"}
    assert problem.weights == {"1": 20.0, "2": 10.0}
    assert problem.others == {"1": {"b3": 1}, "2": {"b3": 1}}
    assert problem.clients_at == {"b1": 1, "b2": 2, "b3": 2}
    # Nothing is saved as long as the publisher at b3 wants it all; the way gets shorter.
    assert place_subscribers(problem) == {"near": "b1", "far": "b1"}


def test_the_command_places_subscribers_of_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_profile(tmp_path, SUBSCRIBED)
    arguments = ["relocate", "--subscribers", "--dry-run", "--from-profile", str(tmp_path)]
    assert main.run([*arguments, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(f["subscriber"], f["subscriber_at"], f["choice"]) for f in found] == [
        ("far", "b3", "b1"),
        ("near", "b2", "b1"),
    ]
    assert main.run(arguments) == 0
    assert "2 of 2 subscribers would move" in capsys.readouterr().out
    write_profile(tmp_path / "none", TABLES)
    assert main.run([*arguments[:-1], str(tmp_path / "none")]) == 2
    assert "no deliveries to subscribers" in capsys.readouterr().err
