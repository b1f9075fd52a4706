"""``pubweave cost`` and ``pubweave design``: files, words, JSON and exit codes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.design_profiles import ProfileSize, write_large_profile, write_profile

from pubweave.cli import main
from pubweave.design import methods
from pubweave.design.tree.cost import tree_cost
from pubweave.design.tree.profile_inputs import prices_of, topology_of, traffic_of
from pubweave.model import plugins
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.files.topology import read_topology
from pubweave.model.ids import Link
from tests.naive.traffic import groups_of

# CI Figure 2: b2 and b3 share ten notifications that b1 only relays.
FIGURE_2 = {
    "delivery_trees": {"tree": [7, 3], "broker": ["b2", "b2"], "weight": [6.0, 4.0]},
    "tree_receivers": {"tree": [3, 7], "broker": ["b3", "b3"]},
    "broker_costs": {"broker": ["b1", "b2", "b3"], "processing_ms": [1.0, 3.0, 1.0]},
    "links": {
        "broker_a": ["b1", "b1", "b2"],
        "broker_b": ["b2", "b3", "b3"],
        "is_present": [True, True, False],
        "cost_ms": [2.0, 3.0, 4.0],
    },
}


@pytest.fixture
def figure_2(tmp_path: Path) -> Path:
    write_profile(tmp_path / "profile", FIGURE_2)
    (tmp_path / "tree.json").write_text(
        '{"nodes": [{"id": "b1"}, {"id": "b2"}, {"id": "b3"}], "links": '
        '[{"source": "b1", "target": "b2"}, {"source": "b1", "target": "b3"}]}'
    )
    return tmp_path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A profile of 24 brokers, too many for a proof."""
    size = ProfileSize(brokers=24, notifications=2_000, topics=10, patterns=8, receivers_mean=4)
    return write_large_profile(tmp_path_factory.mktemp("measured"), size, seed=5)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main.run([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def designed(capsys: pytest.CaptureFixture[str], method: str, files: Any, *more: object) -> Any:
    code, out, err = run(
        capsys,
        *("design", method, "--profile", files["profile"], "--topology", files["topology"]),
        *("--latency", files["latency"], "--time-limit", 600, "--json", *more),
    )
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_profile_gives_traffic_prices_and_topology(figure_2: Path) -> None:
    profile = WorkloadProfile(figure_2 / "profile")
    topology = topology_of(profile)
    assert topology.links == {Link("b1", "b2"), Link("b1", "b3")}
    traffic = traffic_of(profile, topology.brokers)
    assert groups_of(traffic) == [(("b2", "b3"), 10.0)]
    assert traffic.deliveries == 10.0
    prices = prices_of(profile, topology)
    assert prices.of_link(Link("b2", "b3")) == 4.0
    assert tree_cost(traffic, prices, topology).total == 100.0


def test_a_matrix_prices_what_no_link_has_measured(figure_2: Path) -> None:
    profile = WorkloadProfile(figure_2 / "profile")
    topology = topology_of(profile)
    round_trips = np.array([[0, 9, 9], [9, 0, np.nan], [9, 30, 0]])
    prices = prices_of(profile, topology, matrix_ms=round_trips)
    assert prices.of_link(Link("b2", "b3")) == 4.0
    write_profile(figure_2 / "bare", {**FIGURE_2, "links": {}})
    bare = prices_of(WorkloadProfile(figure_2 / "bare"), topology, matrix_ms=round_trips)
    assert bare.of_link(Link("b1", "b2")) == 2.0, "the topology's own latency comes first"
    assert bare.of_link(Link("b2", "b3")) == 15.0


def test_cost_tells_the_paper_example(figure_2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("cost", figure_2 / "tree.json", "--profile", figure_2 / "profile")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "100.0 ms for 10 notifications" in out
    code, out, _ = run(capsys, *arguments, "--json")
    document = json.loads(out)
    assert document["communication_ms"] == 50.0
    assert document["cost_per_delivery_ms"] == 10.0
    assert document["dearest_relays"][0]["relayed"] == 10.0


def test_exact_finds_the_direct_link_and_says_it_is_proven(
    figure_2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = figure_2 / "target.json"
    arguments = ("design", "exact", "--profile", figure_2 / "profile", "-o", target)
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "cost 100.0 -> 80.0 ms (-20.0%)" in out
    assert "proven" in out
    assert f"wrote {target}" in err
    found = read_topology(target)
    assert Link("b2", "b3") in found.links
    assert found.latency_ms[Link("b2", "b3")] == 4.0


@pytest.mark.parametrize("method", methods.METHODS)
def test_every_method_gives_a_tree_and_the_others_beside_it(
    method: str, measured: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target.json"
    document = designed(capsys, method, measured, "-o", target)
    assert read_topology(target).is_tree
    costs = {row["method"]: row["cost_ms"] for row in document["compared"]}
    assert set(costs) == {"before", *methods.METHODS}
    assert costs["exact"] == min(costs.values())
    assert document["after"]["cost_ms"] == pytest.approx(costs[method])
    assert document["before"]["cost_ms"] == pytest.approx(costs["before"])


def test_the_same_seed_gives_the_same_target(
    measured: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "one.json", tmp_path / "other.json"]
    for file in files:
        designed(capsys, "exact", measured, "--no-compare", "-o", file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_limits_bind_the_target(
    measured: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target.json"
    source = read_topology(measured["topology"])
    pinned, forbidden = sorted(source.links)[:2]
    document = designed(
        capsys,
        "exact",
        measured,
        *("--pin", pinned, "--forbid", forbidden, "--max-degree", 4, "--no-compare", "-o", target),
    )
    found = read_topology(target)
    assert pinned in found.links
    assert forbidden not in found.links
    assert max(map(found.degree, found.brokers)) <= 4
    bounded = designed(capsys, "exact", measured, "--max-changes", 5, "--no-compare", "-o", target)
    assert len(read_topology(target).links - source.links) <= 5
    assert document["after"]["cost_ms"] < bounded["after"]["cost_ms"] < bounded["before"]["cost_ms"]


def test_ctrl_c_keeps_the_best_so_far(
    measured: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = methods.exact

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return wanted(*arguments)

    monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, "exact": interrupted})
    target = tmp_path / "target.json"
    code, _, err = run(
        capsys,
        *("design", "exact", "--profile", measured["profile"], "--latency", measured["latency"]),
        *("-o", target),
    )
    assert code == 0
    assert "Ctrl-C" in err
    assert read_topology(target).is_tree


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--pin", "b1-b9"], "there is no broker 'b9'"),
        (["--pin", "b1-b2", "--forbid", "b2-b1"], "both pinned and forbidden"),
        (["--pin", "b1-b2", "--pin", "b2-b3", "--pin", "b1-b3"], "close a cycle"),
        (["--max-degree", "1"], "cannot do with 1 links"),
        (["--latency", "nowhere.csv"], "nowhere.csv"),
        (["--topology", "nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_input_is_one_message_and_code_2(
    more: list[str], told: str, figure_2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("design", "exact", "--profile", figure_2 / "profile", *more)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert told in err
    assert "Traceback" not in err


def test_without_prices_the_message_says_what_to_give(
    figure_2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    present = {name: values[:2] for name, values in FIGURE_2["links"].items()}  # type: ignore[attr-defined]
    write_profile(figure_2 / "few", {**FIGURE_2, "links": present})
    arguments = ("design", "exact", "--profile", figure_2 / "few")
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "--latency FILE" in err
    assert run(capsys, *arguments, "--assume-latency", "1")[0] == 0


def test_a_broker_that_the_topology_lacks_is_named(
    figure_2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = figure_2 / "small.json"
    small.write_text(
        '{"nodes": [{"id": "b1"}, {"id": "b2"}], "links": [{"source": "b1", "target": "b2"}]}'
    )
    code, _, err = run(capsys, "cost", small, "--profile", figure_2 / "profile")
    assert code == 2
    assert "'b3'" in err


HUB = '''
"""A design of another package: all brokers around one."""
from pubweave import Topology


def hub(profile, topology, options):
    centre = options.get("centre", min(topology.brokers))
    others = sorted(topology.brokers - {centre})
    return Topology.from_links((centre, other) for other in others)


def none(profile, topology, options):
    return Topology.from_links([("b1", "b9")])
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with two designs, as if it were installed beside pubweave."""
    site = tmp_path / "site"
    info = site / "hubs-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "hubs.py").write_text(HUB)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hubs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pubweave.designs]\nhub = hubs:hub\nnone = hubs:none\n")
    monkeypatch.syspath_prepend(str(site))
    plugins.plugins.cache_clear()
    yield
    plugins.plugins.cache_clear()
    sys.modules.pop("hubs", None)


@pytest.mark.usefixtures("installed")
def test_a_design_of_an_installed_package_is_a_method(
    figure_2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = figure_2 / "target.json"
    arguments = ("--profile", figure_2 / "profile", "-o", target)
    code, out, _ = run(capsys, "design", "hub", *arguments, "--set", "centre=b2", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["method"] == "hub"
    assert document["after"]["cost_ms"] == 80.0, "b2-b3 carries all, nobody relays"
    assert {row["method"] for row in document["compared"]} == {"before", "hub", *methods.METHODS}
    assert read_topology(target).links == {Link("b1", "b2"), Link("b2", "b3")}
    code, out, _ = run(capsys, "design", "hub", *arguments)
    assert code == 0
    assert "added by an installed package" in out


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rim"], "no 'rim' in designs: choose ci, lmst, lmit, mst, mit, exact, hub, none"),
        (["none"], "must keep the brokers: 'b2' is not in both"),
        (["hub", "--max-degree", "1"], "more than --max-degree 1"),
        (["hub", "--pin", "b2-b3"], "lacks the pinned link b2-b3"),
        (["hub", "--set", "centre"], "--set centre: write it as NAME=VALUE"),
        (["exact", "--set", "a=b"], "takes no option 'a'"),
    ],
)
def test_what_an_installed_design_makes_is_checked(
    figure_2: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    code, _, err = run(capsys, "design", *arguments, "--profile", figure_2 / "profile")
    assert code == 2
    assert told in err
