"""``pubweave relocate select``: files, words, JSON and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pubweave.cli import main


def statistics() -> dict[str, Any]:
    """b3 has all four publications, b2 most of the deliveries, b1 is between them."""
    return {
        "nodes": [
            {"id": "b1", "deliveries": 1, "bits": "1",
             "queue_match_ms": {"b2": 2.0, "b3": 2.5, "client": 1.0}},
            {"id": "b2", "deliveries": 12, "bits": "b", "queue_match_ms": {"b1": 2, "client": 1.5}},
            {"id": "b3", "deliveries": 4, "bits": "0F",
             "queue_match_ms": {"b1": 1.0, "client": 0.5}},
        ],
        "links": [{"source": "b1", "target": "b2"}, {"source": "b1", "target": "b3"}],
        "publisher_at": "b1",
        "ping_ms": {"b1": 4.0, "b2": 10.0, "b3": 6.0},
    }  # fmt: skip


def select(
    capsys: pytest.CaptureFixture[str], folder: Path, document: Any, *options: str
) -> tuple[int, str, str]:
    path = folder / "stats.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    code = main.run(["relocate", "select", str(path), *options])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_all_candidates_with_both_metrics_and_the_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = select(capsys, tmp_path, statistics(), "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["choice"] == "b3"
    assert [(c["broker"], c["message_rate"], c["kept"]) for c in found["candidates"]] == [
        ("b1", 4 + 3 + 4, False),
        ("b2", 4 + 4 + 4, False),
        ("b3", 4 + 3 + 3, True),
    ]
    # Half the ping; b1's clients wait 1, b2's 2 + 1.5, b3's 2.5 + 0.5 in queues and matching.
    assert found["candidates"][0]["delay_ms"] == pytest.approx(2 + (1 + 12 * 3.5 + 4 * 3) / 17)
    # From b3, everything but its own pays b3's delay towards b1, and b2's deliveries b1's too.
    at_b3 = 3 + (4 * 0.5 + 1 * (1 + 1) + 12 * (1 + 2 + 1.5)) / 17
    assert found["candidates"][2]["delay_ms"] == pytest.approx(at_b3)


def test_the_table_names_the_choice_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = select(capsys, tmp_path, statistics(), "--priority", "delay")
    assert code == 0
    assert "stays at b1: the only candidate whose delay is within delay100" in out
    code, out, _ = select(capsys, tmp_path, statistics(), "--weight", "50")
    assert "stays at b1: the least delay of the 2 candidates within load50" in out


def test_places_of_networkx_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = statistics()
    document["edges"] = document.pop("links")
    document["graph"] = {name: document.pop(name) for name in ("publisher_at", "ping_ms")}
    code, out, _ = select(capsys, tmp_path, document, "--json")
    assert code == 0
    assert json.loads(out)["choice"] == "b3"


def test_a_broker_without_a_ping_is_no_candidate_unless_the_publisher_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = statistics()
    document["ping_ms"] = {"b2": 10.0, "b3": None}
    code, out, err = select(capsys, tmp_path, document, "--json")
    assert code == 0
    assert [c["broker"] for c in json.loads(out)["candidates"]] == ["b1", "b2"]
    assert "no candidates: b3" in err
    assert "taken as 0" in err
    del document["ping_ms"]
    code, out, err = select(capsys, tmp_path, document, "--json")
    assert len(json.loads(out)["candidates"]) == 3
    assert "equally far" in err


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = statistics()
    change(document)
    return document


BAD = {
    "no JSON": ("{", "not JSON at line 1"),
    "a tower": ("[" * 100_000, "nested too deeply"),
    "a list": ("[]", "expected an object"),
    "no nodes": ('{"links": []}', "'nodes' is missing"),
    "a cycle": (
        changed(lambda d: d["links"].append({"source": "b2", "target": "b3"})),
        "closes a cycle",
    ),
    "apart": (changed(lambda d: d["links"].pop()), "cannot be reached"),
    "nowhere": (changed(lambda d: d.pop("publisher_at")), "publisher_at: name the broker"),
    "elsewhere": (changed(lambda d: d.update(publisher_at="b9")), '"b9" is not among the nodes'),
    "bad hex": (changed(lambda d: d["nodes"][0].update(bits="xyz")), "hexadecimal digits"),
    "bits as a number": (changed(lambda d: d["nodes"][0].update(bits=3)), "'b1'.bits"),
    "negative bits": (changed(lambda d: d["nodes"][0].update(bits="-1")), "hexadecimal digits"),
    "negative": (changed(lambda d: d["nodes"][1].update(deliveries=-1)), "'b2'.deliveries"),
    "half": (changed(lambda d: d["nodes"][1].update(deliveries=0.5)), "whole number"),
    "words": (changed(lambda d: d["nodes"][1].update(deliveries="many")), "expected a number"),
    "negative delay": (
        changed(lambda d: d["nodes"][2]["queue_match_ms"].update(b1=-2)),
        "'b3'.queue_match_ms.b1",
    ),
    "no delay": (changed(lambda d: d["nodes"][2]["queue_match_ms"].pop("b1")), "missing"),
    "no client's delay": (
        changed(lambda d: d["nodes"][2]["queue_match_ms"].pop("client")),
        "'client' is missing",
    ),
    "no neighbor": (
        changed(lambda d: d["nodes"][2]["queue_match_ms"].update(b2=1)),
        "'b2' is no neighbor",
    ),
    "delays as a list": (changed(lambda d: d["nodes"][2].update(queue_match_ms=[1])), "an object"),
    "ping of a stranger": (changed(lambda d: d["ping_ms"].update(b9=1)), "ping_ms: 'b9'"),
    "negative ping": (changed(lambda d: d["ping_ms"].update(b2=-1)), "ping_ms.b2"),
    "pings as a list": (changed(lambda d: d.update(ping_ms=[1])), "ping_ms: expected"),
    "two places": (changed(lambda d: d.update(graph={"publisher_at": "b2"})), "stands twice"),
    "called client": (
        changed(lambda d: d["nodes"].append({"id": "client"})
                or d["links"].append({"source": "b1", "target": "client"})),
        "no broker can be called",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_one_line_that_names_file_and_field(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, words = BAD[name]
    code, out, err = select(capsys, tmp_path, document, "--json")
    assert (code, out) == (2, "")
    assert words in err
    assert "stats.json" in err
    assert len(err.strip().splitlines()) == 1


def test_a_missing_file_and_a_bad_weight_are_said_plainly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["relocate", "select", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
    code, _, err = select(capsys, tmp_path, statistics(), "--weight", "101")
    assert code == 2
    assert "0<=x<=100" in err


def test_bits_that_say_more_than_deliveries_are_remarked_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = statistics()
    document["nodes"][2]["deliveries"] = 1
    code, _, err = select(capsys, tmp_path, document, "--json")
    assert code == 0
    assert "4 bits are set" in err
