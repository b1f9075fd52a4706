"""``pubweave tco``: files, words, JSON and exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pubweave.cli import main
from pubweave.design.tco.interests import Subscriptions
from pubweave.generate.workloads.churn_rounds import Popularity, random_subscriptions
from tests.naive import topic_connected as naive


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main.run(["tco", *(str(argument) for argument in arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def rows_of(wanted: Subscriptions) -> list[tuple[str, str]]:
    return [
        (name, wanted.topic_names[topic])
        for node, name in enumerate(wanted.nodes)
        for topic in wanted.topics_of(node)
    ]


def write_csv(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("client,topic\n" + "".join(f"{a},{b}\n" for a, b in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Subscriptions of 40 nodes and an overlay for them."""
    wanted = random_subscriptions(40, 15, Popularity.ZIPF, np.random.default_rng(1))
    write_csv(tmp_path / "s.csv", rows_of(wanted))
    assert main.run(["tco", "build", str(tmp_path / "s.csv"), "-o", str(tmp_path / "o.json")]) == 0
    return tmp_path


def is_connected(overlay: Path, subscriptions: Path) -> bool:
    """By a program of its own, from the files alone."""
    document = json.loads(overlay.read_text())
    names = [node["id"] for node in document["nodes"]]
    number = {name: place for place, name in enumerate(names)}
    topics: dict[int, set[Any]] = {place: set() for place in range(len(names))}
    for line in subscriptions.read_text().splitlines()[1:]:
        client, topic = line.split(",")
        topics[number[client]].add(topic)
    links = [(number[link["source"]], number[link["target"]]) for link in document["links"]]
    return naive.is_topic_connected(topics, links)


@pytest.mark.parametrize("mode", ["low-oda", "gm"])
def test_build_writes_a_connected_overlay(
    folder: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    out = folder / f"{mode}.json"
    code, printed, _ = run(capsys, "build", folder / "s.csv", "-o", out, "--mode", mode, "--json")
    document = json.loads(printed)
    assert (code, document["is_connected"], document["nodes"]) == (0, True, 40)
    assert is_connected(out, folder / "s.csv")


def test_parquet_builds_the_same_overlay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split(",") for line in (folder / "s.csv").read_text().splitlines()[1:]]
    table = pa.table({"client": [row[0] for row in rows], "topic": [row[1] for row in rows]})
    pq.write_table(table, folder / "s.parquet")
    code, out, err = run(capsys, "build", folder / "s.parquet", "-o", folder / "p.json")
    assert code == 0
    assert "40 nodes, 15 topics" in out
    assert "verified: every topic is connected" in err
    assert (folder / "p.json").read_bytes() == (folder / "o.json").read_bytes()


def test_verify_names_a_topic_and_two_nodes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "verify", folder / "o.json", folder / "s.csv")
    assert code == 0
    assert "connected: all 15 topics" in out
    document = json.loads((folder / "o.json").read_text())
    document["links"] = document["links"][1:]
    (folder / "cut.json").write_text(json.dumps(document))
    code, out, _ = run(capsys, "verify", folder / "cut.json", folder / "s.csv", "--json")
    verdict = json.loads(out)
    assert (code, verdict["is_connected"]) == (1, False)
    gap = verdict["gaps"][0]
    code, out, _ = run(capsys, "verify", folder / "cut.json", folder / "s.csv")
    assert code == 1
    assert f"topic '{gap['topic']}': no path of its subscribers from {gap['one']}" in out


def test_verify_counts_clients_that_are_no_nodes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "s.csv").open("a") as file:
        file.write("stranger,t1\n")
    code, out, err = run(capsys, "verify", folder / "o.json", folder / "s.csv")
    assert code == 1
    assert "to stranger" in out
    assert "1 clients are no nodes of the overlay, for example 'stranger'" in err


def test_random_churn_keeps_the_overlay_connected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(
        capsys,
        *("churn", folder / "o.json", "--subscriptions", folder / "s.csv", "--json", "--compare"),
        *("--joins", 15, "--leaves", 12, "-o", folder / "after.json"),
        *("--subscriptions-out", folder / "after.csv", "--per-round", 2),
    )
    *rounds, last = (json.loads(line) for line in out.splitlines())
    assert code == 0
    assert sum(each["round"]["kind"] in ("join", "leave", "batch") for each in rounds) == len(
        rounds
    )
    assert all(each["round"]["is_connected"] for each in rounds)
    summary = last["summary"]
    assert (summary["is_connected"], summary["nodes"]) == (True, 43)
    assert summary["low_oda"]["max_degree"] >= 1
    assert is_connected(folder / "after.json", folder / "after.csv")
    assert run(capsys, "verify", folder / "after.json", folder / "after.csv")[0] == 0


@pytest.mark.parametrize("name", ["c.csv", "c.jsonl"])
def test_churn_from_a_file(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = {
        "c.csv": "round,change,client,topic\n1,join,a,t1\n1,join,a,new\n"
        "2,leave,n3,\n2,begin,a,t2\n",
        "c.jsonl": '{"join": "a", "topics": ["t1", "new"]}\n\n'
        '[{"leave": "n3"}, {"change": "a", "begin": ["t2"]}]\n',
    }[name]
    (folder / name).write_text(text)
    code, out, _ = run(
        capsys,
        *("churn", folder / "o.json", "--subscriptions", folder / "s.csv"),
        *("--churn", folder / name, "--subscriptions-out", folder / "after.csv"),
    )
    assert code == 0
    assert "after each of 2 verified rounds of 2" in out
    rows = (folder / "after.csv").read_text().splitlines()
    assert {"a,t1", "a,t2", "a,new"} <= set(rows)
    assert not any(row.startswith("n3,") for row in rows)


def test_a_stream_is_followed_and_bad_lines_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = '{"leave": "n5"}\n{"leave": "n5"}\nnonsense\n{"join": "a", "topics": ["t1"]}\n'
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    code, out, err = run(
        capsys, "churn", folder / "o.json", "--subscriptions", folder / "s.csv", "--follow"
    )
    assert code == 0
    assert "line 2: node 'n5' leaves but is not there; left out" in err
    assert "line 3: not JSON at column 1" in err
    assert [line.split()[:2] for line in out.splitlines()[:2]] == [["1", "leave"], ["2", "join"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "none.csv", "-o", "x.json"], "none.csv: there is no such file"),
        (["build", "o.json", "-o", "x.json"], "o.json: has the columns"),
        (["verify", "s.csv", "s.csv"], "s.csv: not JSON at line 1"),
        (["churn", "o.json", "--subscriptions", "s.csv"], "give either --joins and --leaves"),
        (
            ["churn", "o.json", "--subscriptions", "s.csv", "--follow", "--joins", "1"],
            "give either --joins and --leaves",
        ),
        (
            ["churn", "o.json", "--subscriptions", "s.csv", "--churn", "bad.jsonl"],
            "bad.jsonl: line 1: node 'who' leaves but is not there",
        ),
        (
            ["churn", "empty.json", "--subscriptions", "s.csv", "--joins", "1"],
            "empty.json: is not topic-connected for s.csv: topic",
        ),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(folder)
    Path("bad.jsonl").write_text('{"leave": "who"}\n')
    Path("empty.json").write_text('{"nodes": [], "links": []}')
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert words in err
    assert "Traceback" not in err
