"""Topology files: what is written can be read, and bad files are told apart."""

from __future__ import annotations

import json
from pathlib import Path

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.model.files import atomic as whole_files
from pubweave.model.files.topology import (
    parse_graphml,
    parse_json,
    read_topology,
    to_graphml,
    to_json,
    write_topology,
)
from pubweave.model.ids import Link
from pubweave.model.topology import Topology, TopologyError
from tests.shared_data import shared_data

IDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    brokers = draw(st.lists(IDS, unique=True, max_size=6))
    pairs = [Link.between(a, b) for a in brokers for b in brokers if a < b]
    links = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    known = draw(st.dictionaries(st.sampled_from(links), st.floats(0, 1e6))) if links else {}
    hosts = draw(st.dictionaries(st.sampled_from(brokers), st.integers(0, 9))) if brokers else {}
    attributes = {broker: {"host": f"h{n}", "port": n} for broker, n in hosts.items()}
    return Topology(frozenset(brokers), frozenset(links), known, attributes)


@given(topologies())
def test_json_is_read_back_as_it_was_written(topology: Topology) -> None:
    again = parse_json(to_json(topology))
    assert again == topology
    assert again.latency_ms == topology.latency_ms
    assert again.broker_attributes == topology.broker_attributes
    assert to_json(again) == to_json(topology)


@given(topologies())
def test_json_is_the_document_that_networkx_writes(topology: Topology) -> None:
    graph = networkx.Graph()
    for broker in sorted(topology.brokers):
        graph.add_node(broker, **topology.broker_attributes.get(broker, {}))
    for link in sorted(topology.links):
        known = topology.latency_ms.get(link)
        graph.add_edge(*link, **({} if known is None else {"latency_ms": known}))
    ours = json.loads(to_json(topology))
    theirs = networkx.node_link_data(graph, edges="links")

    def normalized(document: dict[str, object]) -> dict[str, object]:
        # networkx goes by insertion where one end of a link is the other's neighbor already.
        ends = [
            {
                **link,
                "source": min(link["source"], link["target"]),
                "target": max(link["source"], link["target"]),
            }
            for link in document["links"]  # type: ignore[attr-defined]
        ]
        return {**document, "links": sorted(ends, key=lambda e: (e["source"], e["target"]))}

    assert normalized(ours) == normalized(theirs)


@given(topologies())
def test_graphml_is_read_back_as_it_was_written(topology: Topology) -> None:
    again = parse_graphml(to_graphml(topology))
    assert again == topology
    assert again.latency_ms == topology.latency_ms
    assert again.broker_attributes == topology.broker_attributes
    assert to_graphml(again) == to_graphml(topology)


@pytest.mark.parametrize("name", ["t.json", "t.graphml", "t.GRAPHML"])
def test_files_go_round(tmp_path: Path, name: str) -> None:
    latency_ms = {Link("b1", "b2"): 12.5}
    topology = Topology.from_links([("b1", "b2"), ("b2", "b3")], latency_ms=latency_ms)
    write_topology(topology, tmp_path / name)
    again = read_topology(tmp_path / name)
    assert again == topology
    assert again.latency_ms == latency_ms
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing else is left behind"


def test_the_bytes_do_not_depend_on_the_order_of_making() -> None:
    pairs = [("b1", "b2"), ("b2", "b3"), ("b10", "b2")]
    one = Topology.from_links(pairs)
    other = Topology.from_links([(b, a) for a, b in reversed(pairs)])
    assert to_json(one) == to_json(other)
    assert to_graphml(one) == to_graphml(other)


def test_integer_ids_become_strings() -> None:
    text = '{"nodes": [{"id": 1}, {"id": 2}], "links": [{"source": 1, "target": 2}]}'
    assert parse_json(text) == Topology.from_links([("1", "2")])


def _document(nodes: object = None, links: object = None, **more: object) -> str:
    known = [{"id": "b1"}, {"id": "b2"}, {"id": "b3"}]
    return json.dumps({"nodes": known if nodes is None else nodes, "links": links or [], **more})


def _link(source: object, target: object, **more: object) -> dict[str, object]:
    return {"source": source, "target": target, **more}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"nodes": [}', "not JSON at line 1, column 12"),
        ("[]", "expected an object with 'nodes' and 'links'"),
        ('{"links": []}', "the key 'nodes' is missing"),
        ('{"nodes": []}', "the key 'links' is missing"),
        ('{"nodes": [], "edges": []}', "edges='links'"),
        ('{"nodes": {}, "links": []}', "nodes: expected a list, got {}"),
        (_document(directed=True), "directed: overlay links have no direction"),
        (_document(nodes=["b1"]), 'nodes[0]: expected an object, got "b1"'),
        (_document(nodes=[{"name": "b1"}]), "nodes[0]: the key 'id' is missing"),
        (_document(nodes=[{"id": ""}]), "nodes[0].id: a broker id is a non-empty string"),
        (_document(nodes=[{"id": True}]), "nodes[0].id: a broker id is a non-empty string"),
        (_document(nodes=[{"id": 1}, {"id": "1"}]), "nodes[1]: broker '1' is named twice"),
        (_document(links=[{"source": "b1"}]), "links[0]: the key 'target' is missing"),
        (
            _document(links=[_link("b1", "b2"), _link("b1", "b9")]),
            "links[1]: target 'b9' is not among the nodes",
        ),
        (_document(links=[_link("b9", "b1")]), "links[0]: source 'b9' is not among the nodes"),
        (_document(links=[_link("b1", "b1")]), "links[0]: broker 'b1' is linked to itself"),
        (
            _document(links=[_link("b1", "b2"), _link("b2", "b1")]),
            "links[1]: link b1-b2 is named twice",
        ),
        (
            _document(links=[_link("b1", "b2", latency_ms=-1)]),
            "links[0]: latency_ms must be 0 or more, got -1",
        ),
        (
            _document(links=[_link("b1", "b2", latency_ms=float("nan"))]),
            "links[0]: latency_ms must be 0 or more, got nan",
        ),
        (
            _document(links=[_link("b1", "b2", latency_ms="10")]),
            'links[0]: latency_ms must be a number, got "10"',
        ),
    ],
)
def test_a_bad_file_is_told_with_its_name_and_field(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(TopologyError) as caught:
        read_topology(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)


def test_what_is_not_text_or_not_there_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b'{"nodes": ["\xff"]}')
    with pytest.raises(TopologyError, match="not UTF-8 text: byte 12"):
        read_topology(path)
    with pytest.raises(TopologyError, match=r"none\.json: No such file"):
        read_topology(tmp_path / "none.json")


@pytest.mark.parametrize("content", ["<graphml", "<other/>", "{}"])
def test_bad_graphml_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.graphml"
    path.write_text(content)
    with pytest.raises(TopologyError, match=r"t\.graphml: not GraphML"):
        read_topology(path)


def test_attributes_that_graphml_cannot_hold_are_refused(tmp_path: Path) -> None:
    topology = Topology(frozenset({"b1"}), frozenset(), {}, {"b1": {"ports": [1, 2]}})
    with pytest.raises(TopologyError, match=r"t\.graphml: broker 'b1': attribute 'ports'"):
        write_topology(topology, tmp_path / "t.graphml")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_files.os, "fsync", full_disk)
    with pytest.raises(TopologyError, match=r"t\.json: No space left"):
        write_topology(Topology.from_links([("b1", "b2")]), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_map_with_parallel_links_and_self_loops_is_merged() -> None:
    graph = networkx.MultiGraph()
    graph.add_node(0, id=0, label="Here")
    graph.add_edge(0, 1)
    graph.add_edge(0, 1, latency_ms=4.0)
    graph.add_edge(1, 0, latency_ms=3.0)
    graph.add_edge(1, 1)
    graph.add_node(2)
    topology = parse_graphml("\n".join(networkx.generate_graphml(graph)).encode())
    assert topology == Topology.from_links([("0", "1")], brokers=["2"])
    assert topology.latency_ms == {Link("0", "1"): 3.0}
    assert topology.broker_attributes == {"0": {"label": "Here"}}


@pytest.mark.data
def test_maps_of_the_topology_zoo_can_be_read() -> None:
    sizes = {}
    for path in sorted(shared_data("topology/graphml").glob("*.graphml")):
        topology = read_topology(path)
        sizes[path.stem] = (len(topology.brokers), len(topology.links))
    assert sizes["Abilene"] == (11, 14)
    assert sizes["Colt"] == (153, 177)
    assert len(sizes) == 12
