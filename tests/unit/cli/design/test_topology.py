"""The command ``pubweave topology``."""

from __future__ import annotations

import json
from pathlib import Path

import networkx
import pytest
from click.testing import CliRunner, Result

from pubweave.cli.design.topology import topology
from pubweave.generate.topologies.trees import chain, fanout_tree
from pubweave.model.files.topology import parse_json, read_topology, write_topology
from pubweave.model.ids import Link, natural_order
from pubweave.model.topology import Topology
from pubweave.plots.topology_text import draw_tree, summarize


def run(*arguments: object) -> Result:
    return CliRunner().invoke(topology, [str(argument) for argument in arguments])


def run_well(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def map_file(tmp_path: Path) -> Path:
    path = tmp_path / "map.graphml"
    networkx.write_graphml(networkx.cycle_graph(6), path)
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ["hierarchical", "-n", 30, "--max-degree", 6, "--unbalanced"],
        ["hierarchical", "-n", 30, "--balanced"],
        ["fanout", "-n", 30, "--fanout", 3],
        ["chain", "-n", 30],
        ["star", "-n", 30],
        ["random", "-n", 30],
        ["underlay", "-n", 30, "--domains", 5, "--routers-per-domain", 10],
        ["underlay", "-n", 30, "--domains", 5, "--routers-per-domain", 10, "--tree", "minimum"],
    ],
)
def test_each_kind_writes_the_tree_it_was_asked_for(
    tmp_path: Path, arguments: list[object]
) -> None:
    path = tmp_path / "t.json"
    said = run_well("generate", *arguments, "--seed", 5, "-o", path)
    assert f"wrote {path}: 30 brokers, 29 links" in said.stdout
    made = read_topology(path)
    assert made.is_tree
    assert made.latency_ms.keys() == made.links
    printed = run_well("generate", *arguments, "--seed", 5).stdout
    assert printed == path.read_text(), "standard output has the same bytes"


@pytest.mark.parametrize("kind", ["minimum", "uniform"])
def test_a_network_gives_its_spanning_tree(map_file: Path, kind: str) -> None:
    made = parse_json(run_well("generate", "network", map_file, "--tree", kind).stdout)
    assert made.is_tree
    assert len(made.brokers) == 6


def test_the_seed_decides() -> None:
    one, again, other = (
        run_well("generate", "random", "--seed", seed).stdout for seed in (1, 1, 2)
    )
    assert one == again != other


def test_latencies_can_come_from_a_matrix(tmp_path: Path) -> None:
    matrix = tmp_path / "rtt.csv"
    matrix.write_text("0,8,8\n8,0,8\n8,8,0\n")
    made = parse_json(run_well("generate", "chain", "-n", 3, "--rtt", matrix).stdout)
    assert set(made.latency_ms.values()) == {4.0}
    refused = run("generate", "chain", "-n", 4, "--rtt", matrix)
    assert refused.exit_code == 2
    assert "4 brokers need a larger RTT matrix" in refused.stderr


def test_generate_reports_as_json(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    report = json.loads(run_well("generate", "star", "-n", 5, "-o", path, "--json").stdout)
    assert report["file"] == str(path)
    assert report["brokers"] == 5
    assert report["diameter_hops"] == 2


def test_mutate_says_which_links_went_and_came(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    write_topology(fanout_tree(21), before)
    arguments = ("mutate", before, "--ratio", 0.2, "--seed", 3, "-o", after)
    report = json.loads(run_well(*arguments, "--json").stdout)
    old, new = read_topology(before), read_topology(after)
    assert {Link(*ends) for ends in report["removed"]} == old.links - new.links
    assert {Link(*ends) for ends in report["added"]} == new.links - old.links
    assert len(report["removed"]) == 4
    said = run_well(*arguments).stdout
    assert "removed " + " ".join(map(str, sorted(old.links - new.links))) in said
    assert "added   " + " ".join(map(str, sorted(new.links - old.links))) in said


def test_mutate_without_a_file_keeps_standard_output_clean(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    write_topology(fanout_tree(21), before)
    result = run_well("mutate", before, "--ratio", 0.2)
    assert parse_json(result.stdout).is_tree
    assert result.stderr.startswith("removed ")


def test_show_describes_and_draws_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tree = fanout_tree(6)
    write_topology(Topology(tree.brokers, tree.links, dict.fromkeys(tree.links, 10.0)), path)
    said = run_well("show", path).stdout
    assert f"{path}: a tree" in said
    assert "brokers   6 (3 leaves)" in said
    assert "diameter  4 hops, 40.0 ms" in said
    drawing = said[said.index("\nb1\n") + 1 :].splitlines()
    assert drawing == [
        "b1",
        "|-- b2  10 ms",
        "|   |-- b4  10 ms",
        "|   `-- b5  10 ms",
        "`-- b3  10 ms",
        "    `-- b6  10 ms",
    ]


def test_show_reports_as_json(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write_topology(chain(4), path)
    report = json.loads(run_well("show", path, "--root", "b2", "--json").stdout)
    assert report == {
        "file": str(path),
        "brokers": 4,
        "links": 3,
        "tree": True,
        "components": 1,
        "degrees": {"1": 2, "2": 2},
        "leaves": 2,
        "diameter_hops": 3,
        "diameter_ms": None,
        "root": "b2",
        "depth_hops": 2,
    }


def test_show_says_why_something_is_no_tree(tmp_path: Path, map_file: Path) -> None:
    said = run_well("show", map_file).stdout
    assert "not a tree: 1 link(s) too many close a cycle" in said
    assert "diameter  3 hops" in said
    apart = tmp_path / "apart.json"
    write_topology(Topology.from_links([("b1", "b2")], brokers=["b3"]), apart)
    said = run_well("show", apart).stdout
    assert "not a tree: 2 parts without a link between them" in said
    assert "diameter  not known" in said
    empty = tmp_path / "empty.json"
    write_topology(Topology(frozenset(), frozenset()), empty)
    assert "no brokers" in run_well("show", empty).stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["show", "none.json"], "none.json: No such file"),
        (["mutate", "ring.json", "--ratio", 0.5], "ring.json: not a tree: b3-b1 closes a cycle"),
        (["mutate", "ring.json", "--ratio", 2], "2.0 is not in the range"),
        (["show", "ring.json", "--root", "b9"], "the root 'b9' is not among the brokers"),
        (["sow"], "no such command 'sow'; there are generate, mutate, show"),
        (["generate", "nosuch"], "'nosuch'; there are hierarchical, fanout, chain, star, random"),
        (["generate", "random", "-n", 0], "0 is not in the range"),
        (["generate", "hierarchical", "--max-degree", 1], "max degree 1 cannot hold 20 brokers"),
        (["generate", "network", "ring.graphml"], "ring.graphml: No such file"),
        (["generate", "chain", "-o", "nowhere/t.json"], "t.json: No such file"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_topology(fanout_tree(3).with_link(Link("b2", "b3")), "ring.json")
    result = run(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", [[], ["generate"], ["generate", "underlay"], ["mutate"]])
def test_help_shows_an_example(command: list[str]) -> None:
    said = run_well(*command, "--help").stdout
    assert "Example:" in said
    assert "pubweave topology" in said


def test_large_trees_are_drawn_in_part_and_deep_ones_at_all() -> None:
    deep = chain(3000)
    lines = list(draw_tree(deep, "b1"))
    assert len(lines) == 201
    assert lines[-1] == "... and 2800 more brokers (--all draws them)"
    assert len(list(draw_tree(deep, "b1", whole=True))) == 3000


def test_large_networks_that_are_no_trees_are_summarized_without_their_diameter() -> None:
    ring = chain(2500).with_link(Link.between("b1", "b2500"))
    assert summarize(ring).diameter_hops is None


def test_numbers_in_ids_sort_as_numbers() -> None:
    assert sorted(["b10", "b2", "a", "10", "9"], key=natural_order) == ["9", "10", "a", "b2", "b10"]
