"""``pubweave design dynatops``: files, words, JSON, exit codes; costs by definition again."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.design_profiles import write_profile

from pubweave.cli import main
from tests.naive import dynatops as naive

FIGURES = ("overhead", "delay", "notification_cost")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Thirty brokers with names and counts as a stranger might write them."""
    rng = np.random.default_rng(11)
    pairs = [
        f"broker {b:02d},topic/{t}" for b in range(30) for t in rng.choice(14, 4, replace=False)
    ]
    (tmp_path / "s.csv").write_text("broker,topic\n" + "\n".join(pairs) + "\n")
    counts = [f"topic/{t},{int(rng.integers(0, 300))}" for t in range(14)]
    (tmp_path / "p.csv").write_text("topic,publications\n" + "\n".join(counts) + "\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main.run(["design", "dynatops", *(str(argument) for argument in arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def designed(capsys: pytest.CaptureFixture[str], folder: Path, *more: object) -> Any:
    code, out, err = run(
        capsys, "--subscriptions", folder / "s.csv", "--publications", folder / "p.csv", "--json",
        *more,
    )  # fmt: skip
    assert (code, err) == (0, "")
    return json.loads(out)


def recomputed(folder: Path, weight: float) -> tuple[naive.Instance, list[str]]:
    """From the files alone, by what docs/papers/dynatops.md says."""
    pairs = [line.split(",") for line in (folder / "s.csv").read_text().splitlines()[1:]]
    counts = dict(line.split(",") for line in (folder / "p.csv").read_text().splitlines()[1:])
    brokers = list(dict.fromkeys(broker for broker, _ in pairs))
    ids = [i * 2**32 // len(brokers) for i in range(len(brokers))]
    topics = list(counts)
    roots = []
    for topic in topics:
        key = int(hashlib.sha1(topic.encode()).hexdigest()[:8], 16)
        roots.append(next((v for v, at in enumerate(ids) if at >= key), 0))
    wanted = [{topics.index(t) for b, t in pairs if b == broker} for broker in brokers]
    publications = [float(counts[topic]) for topic in topics]
    return naive.Instance(ids, wanted, roots, publications, weight), brokers


def figures_of(instance: naive.Instance, mapping: list[int]) -> dict[str, float]:
    costs = instance.broker_costs(mapping)
    overhead, delay = sum(o for o, _ in costs), sum(d for _, d in costs)
    cost = overhead + instance.delay_weight * delay
    return {"overhead": overhead, "delay": delay, "notification_cost": cost}


@pytest.mark.parametrize("method", ["greedy", "best"])
@pytest.mark.parametrize("weight", [1, 0.5])
def test_costs_are_what_the_definitions_say(
    capsys: pytest.CaptureFixture[str], files: Path, method: str, weight: float
) -> None:
    document = designed(capsys, files, "--method", method, "--wd", weight)
    instance, brokers = recomputed(files, weight)
    assert list(document["mapping"]) == brokers
    after = list(document["mapping"].values())
    assert sorted(after) == list(range(30))
    assert {name: document["before"][name] for name in FIGURES} == figures_of(
        instance, list(range(30))
    )
    assert {name: document["after"][name] for name in FIGURES} == figures_of(instance, after)
    assert document["bound"] <= document["after"]["notification_cost"]
    assert document["saved_share"] > 0.15
    moved = sum(position != place for place, position in enumerate(after))
    assert document["reconfiguration"]["changed"] == moved
    log = np.log2(30)
    price = 30 + (log**2 + 14 * log) * moved
    assert document["reconfiguration"]["reconfiguration_cost"] == pytest.approx(price)


def test_greedy_walks_the_printed_algorithms_path(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    document = designed(capsys, files, "--method", "greedy", "--dry-run")
    instance, brokers = recomputed(files, 1.0)
    expected = list(naive.ssbr_greedy(instance, list(range(30))))
    assert list(document["mapping"].values()) == expected[-1]
    costs = [row["notification_cost"] for row in document["improvement"]]
    assert costs == [instance.cost(each) for each in expected]
    for row, before, after in zip(
        document["improvement"][1:], expected, expected[1:], strict=False
    ):
        a, b = (brokers.index(name) for name in row["swap"])
        assert naive.swapped(before, a, b) == after
    nets = [row["net"] for row in document["improvement"]]
    assert document["choice"]["net"] == max(nets)
    place = document["choice"]["place"]
    assert list(document["choice"]["mapping"].values()) == expected[place]
    front = [row["notification_cost"] for row in document["pareto"]]
    assert front == sorted(front, reverse=True)
    assert front[-1] == document["after"]["notification_cost"]


def test_a_written_mapping_is_where_the_next_run_begins(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    first = designed(capsys, files, "-o", files / "m.csv")
    again = designed(capsys, files, "--mapping", files / "m.csv", "--method", "greedy")
    assert again["before"] == first["after"]
    assert again["choice"]["changed"] == again["reconfiguration"]["changed"]
    designed(capsys, files, "-o", files / "dry.csv", "--dry-run")
    assert not (files / "dry.csv").exists()


def test_words_name_costs_choice_path_and_positions(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    code, out, _ = run(
        capsys, "--subscriptions", files / "s.csv", "--publications", files / "p.csv", "--dry-run"
    )
    assert code == 0
    for words in (
        "notification cost",
        "no mapping costs less",
        "choice (Algorithm 4)",
        "improvement path",
        "Pareto front",
        "broker -> position",
        "broker 07",
    ):
        assert words in out


def test_a_time_limit_ends_with_what_was_reached(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    code, out, err = run(
        capsys, "--subscriptions", files / "s.csv", "--publications", files / "p.csv",
        "--time-limit", 1e-9,
    )  # fmt: skip
    assert code == 0
    assert "choice (Algorithm 4): stay as it is" in out
    assert "ended by the time limit of 1e-09 s" in err


def test_gzip_blank_topics_and_topics_of_one_file_only_are_understood(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with gzip.open(tmp_path / "s.csv.gz", "wt") as file:
        file.write('broker,topic\n"a, b",x\n"a, b",x\nc,\nd,z\n')
    (tmp_path / "p.csv").write_text("topic,publications\nx,2.5\ny,1\n")
    code, out, err = run(
        capsys, "--subscriptions", tmp_path / "s.csv.gz", "--publications", tmp_path / "p.csv",
        "--json", "-o", tmp_path / "m.csv",
    )  # fmt: skip
    assert code == 0
    document = json.loads(out)
    assert (document["brokers"], document["topics"], document["subscriptions"]) == (3, 3, 2)
    assert "1 topic without a line in" in err
    assert "without a subscriber: no cost" in err
    assert '"a, b",' in (tmp_path / "m.csv").read_text()
    code, _, err = run(
        capsys, "--subscriptions", tmp_path / "s.csv.gz", "--publications", tmp_path / "p.csv",
        "--json", "--mapping", tmp_path / "m.csv",
    )  # fmt: skip
    assert code == 0, err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("s.csv", "broker;topic\n", "its first line must be broker,topic"),
        ("s.csv", "", "begins with nothing"),
        ("s.csv", "broker,topic\n", "has no rows below its header"),
        ("s.csv", "broker,topic\na,b,c\n", "line 2 has 3 fields"),
        ("s.csv", "broker,topic\n,x\n", "line 2 has no broker"),
        ("s.csv", b"broker,topic\n\xff\xfe,x\n", "not CSV in UTF-8"),
        ("p.csv", "topic,publications\nx,many\n", "line 2: publications 'many' must be a number"),
        ("p.csv", "topic,publications\nx,-1\n", "must be a number >= 0"),
        ("p.csv", "topic,publications\nx,nan\n", "must be a number >= 0"),
        ("p.csv", "topic,publications\nx,1\nx,2\n", "line 3: topic 'x' comes twice"),
        ("m.csv", "broker,position\nstranger,0\n", "broker 'stranger' is not in the subscriptions"),
        ("m.csv", "broker,position\nbroker 00,30\n", "position '30' must be from 0 to 29"),
        (
            "m.csv",
            "broker,position\nbroker 00,1\nbroker 01,1\n",
            "position 1 has 'broker 00' already",
        ),
        ("m.csv", "broker,position\nbroker 00,1\nbroker 00,2\n", "'broker 00' is twice"),
        ("m.csv", "broker,position\nbroker 00,0\n", "has no position for broker 'broker 01'"),
    ],
)
def test_bad_files_are_one_line_that_names_file_and_fix(
    capsys: pytest.CaptureFixture[str], files: Path, name: str, content: str | bytes, words: str
) -> None:
    (files / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    more = ["--mapping", files / name] if name == "m.csv" else []
    code, out, err = run(
        capsys, "--subscriptions", files / "s.csv", "--publications", files / "p.csv", *more
    )
    assert (code, out) == (2, "")
    assert words in err
    assert str(files / name) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--subscriptions", "s.csv"),
        ("--profile", "."),
        ("--subscriptions", "none.csv", "--publications", "p.csv"),
        ("--subscriptions", "s.csv", "--publications", "p.csv", "--wd", "-1"),
        ("--subscriptions", "s.csv", "--publications", "p.csv", "--wd", "nan"),
        ("--subscriptions", "s.csv", "--publications", "p.csv", "--method", "other"),
    ],
)
def test_wrong_options_end_with_code_2(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    files: Path,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(files)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "Error" in err
    assert "Traceback" not in err


def test_a_profile_and_a_ring_say_the_same_as_the_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_profile(
        tmp_path / "profile",
        {
            "broker_topics": {
                "broker": ["b1", "b2", "b2", "b3"],
                "topic": ["x", "x", "y", "y"],
                "clients": [1, 1, 1, 1],
            },
            "topics": {"topic": ["x", "y"], "filtered_rate_per_s": [2.0, 1.0]},
        },
    )
    nodes = [{"id": f"b{n}", "ring_id": n * 2**32 // 4} for n in range(4)]
    links = [{"source": "b0", "target": f"b{n}"} for n in range(1, 4)]
    (tmp_path / "ring.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    (tmp_path / "s.csv").write_text("broker,topic\nb0,\nb1,x\nb2,x\nb2,y\nb3,y\n")
    (tmp_path / "p.csv").write_text("topic,publications\nx,100\ny,50\n")
    plain = designed(capsys, tmp_path)
    ring = ("--profile", tmp_path / "profile", "--topology", tmp_path / "ring.json", "--json")
    code, out, err = run(capsys, *ring, "--free-period", 50)
    assert (code, err) == (0, "")
    document = json.loads(out)
    for name in ("before", "after", "mapping", "bound"):
        assert document[name] == plain[name]
    code, out, _ = run(capsys, *ring)
    assert json.loads(out)["publications"] == 300.0


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ((5, 5), "brokers 'b1' and 'b2' have the same ring_id 5"),
        ((5, 2**32), "broker 'b2' needs a whole number as ring_id, from 0 to"),
        ((5, None), "broker 'b2' needs a whole number"),
    ],
)
def test_bad_ring_ids_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ids: tuple, words: str
) -> None:
    write_profile(
        tmp_path / "profile",
        {
            "broker_topics": {"broker": ["b1"], "topic": ["x"], "clients": [1]},
            "topics": {"topic": ["x"], "filtered_rate_per_s": [2.0]},
        },
    )
    nodes = [{"id": f"b{n}"} | ({"ring_id": key} if key else {}) for n, key in enumerate(ids, 1)]
    links = [{"source": "b1", "target": "b2"}]
    (tmp_path / "ring.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    code, out, err = run(
        capsys, "--profile", tmp_path / "profile", "--topology", tmp_path / "ring.json"
    )
    assert (code, out) == (2, "")
    assert words in err
    assert "ring.json" in err


def test_a_profile_without_subscriptions_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nobody: dict[str, list] = {"broker": [], "topic": [], "clients": []}
    rates = {"topic": ["x"], "filtered_rate_per_s": [2.0]}
    write_profile(tmp_path / "profile", {"broker_topics": nobody, "topics": rates})
    nodes, links = [{"id": "b1"}, {"id": "b2"}], [{"source": "b1", "target": "b2"}]
    (tmp_path / "ring.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    code, out, err = run(
        capsys, "--profile", tmp_path / "profile", "--topology", tmp_path / "ring.json"
    )
    assert (code, out) == (2, "")
    assert "make the profile while subscribers are there" in err


def test_the_verb_design_still_names_its_own_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["design", "--help"]) == 0
    assert "pubweave design dynatops --help" in capsys.readouterr().out
    assert main.run(["design", "dynatops", "--help"]) == 0
    assert "--publications" in capsys.readouterr().out
