"""Topology files: node-link JSON as networkx writes it, and GraphML by the ending ``.graphml``.

A file of ours is checked word for word, and every complaint names the file and the field. GraphML
also carries maps of real networks, which have parallel links, self loops and unreachable parts:
the first two are merged away, the third is left to whoever needs a tree.

The same topology (with its latencies and attributes) always gives the same bytes, and a file
appears whole or not at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from pubweave.model.files.atomic import replace_file
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology, TopologyError

GRAPHML_SUFFIX = ".graphml"


def read_topology(path: str | Path) -> Topology:
    """The topology in a file; raises TopologyError naming the file and what is wrong with it."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror or error}") from error
    parse = parse_graphml if path.suffix.lower() == GRAPHML_SUFFIX else parse_json
    try:
        return parse(content)
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from error


def write_topology(topology: Topology, path: str | Path) -> None:
    """Write a topology so that the file is never seen half written."""
    path = Path(path)
    graphml = path.suffix.lower() == GRAPHML_SUFFIX
    try:
        content = to_graphml(topology) if graphml else to_json(topology).encode()
        replace_file(path, content)
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from error
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror or error}") from error


def to_json(topology: Topology) -> str:
    """Node-link JSON, one broker or link per line."""
    nodes = [
        json.dumps({**topology.broker_attributes.get(b, {}), "id": b}, sort_keys=True)
        for b in sorted(topology.brokers)
    ]
    links = []
    for link in sorted(topology.links):
        known = topology.latency_ms.get(link)
        latency = {} if known is None else {"latency_ms": float(known)}
        links.append(json.dumps({**latency, "source": link.a, "target": link.b}))
    return (
        '{"directed": false, "multigraph": false, "graph": {},\n'
        f'"nodes": {_json_lines(nodes)},\n"links": {_json_lines(links)}}}\n'
    )


def parse_json(content: bytes | str) -> Topology:
    """The topology in node-link JSON; raises TopologyError naming the field."""
    return parse_document(load_document(content))


def load_document(content: bytes | str) -> dict[str, Any]:
    """The JSON object in a file; raises TopologyError where it is none."""
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        raise TopologyError(
            f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except UnicodeDecodeError as error:
        raise TopologyError(f"not UTF-8 text: byte {error.start} cannot be decoded") from error
    except RecursionError as error:
        raise TopologyError("nested too deeply to be a topology") from error
    if not isinstance(document, dict):
        raise TopologyError("expected an object with 'nodes' and 'links'")
    return document


def parse_document(document: Mapping[str, Any]) -> Topology:
    """The topology in a node-link object; raises TopologyError naming the field."""
    if document.get("directed"):
        raise TopologyError("directed: overlay links have no direction, write false")
    attributes = _parse_nodes(_listed(document, "nodes"))
    latency_ms = _parse_links(_listed(document, "links"), attributes)
    return Topology(
        frozenset(attributes),
        frozenset(latency_ms),
        {link: ms for link, ms in latency_ms.items() if ms is not None},
        {broker: kept for broker, kept in attributes.items() if kept},
    )


def to_graphml(topology: Topology) -> bytes:
    """GraphML as networkx writes it without lxml; attributes must be plain values."""
    import networkx  # costs a third of a second, which JSON users need not pay

    graph = networkx.Graph()
    for broker in sorted(topology.brokers):
        attributes = topology.broker_attributes.get(broker, {})
        for name, value in attributes.items():
            if not isinstance(value, str | int | float):
                raise TopologyError(
                    f"broker {broker!r}: attribute {name!r} is a {type(value).__name__}, which "
                    "GraphML cannot hold; write JSON instead"
                )
        graph.add_node(broker, **{name: attributes[name] for name in sorted(attributes)})
    for link in sorted(topology.links):
        known = topology.latency_ms.get(link)
        graph.add_edge(link.a, link.b, **({} if known is None else {"latency_ms": float(known)}))
    target = BytesIO()
    # Not write_graphml: that writes other bytes where lxml happens to be installed.
    networkx.write_graphml_xml(graph, target)
    return target.getvalue() + b"\n"


def parse_graphml(content: bytes) -> Topology:
    """The topology in GraphML; of parallel links the fastest counts, self loops do not."""
    import networkx

    try:
        graph = networkx.read_graphml(BytesIO(content))
    except (ParseError, networkx.NetworkXError, ValueError, KeyError) as error:
        raise TopologyError(f"not GraphML: {error}") from error
    links: dict[Link, float | None] = {}
    for index, (source, target, attributes) in enumerate(graph.edges(data=True)):
        if source == target:
            continue
        link = Link.between(str(source), str(target))
        known = _latency(attributes.get("latency_ms"), f"edge {index} ({link})")
        before = links.get(link)
        links[link] = known if before is None else min(before, before if known is None else known)
    # Some maps repeat the id as an attribute; in JSON that name is taken.
    attributes_of = {
        str(node): {name: value for name, value in kept.items() if name != "id"}
        for node, kept in graph.nodes(data=True)
    }
    return Topology(
        frozenset(attributes_of),
        frozenset(links),
        {link: ms for link, ms in links.items() if ms is not None},
        {broker: kept for broker, kept in attributes_of.items() if kept},
    )


def _parse_nodes(nodes: list[Any]) -> dict[BrokerId, dict[str, Any]]:
    attributes: dict[BrokerId, dict[str, Any]] = {}
    for index, node in enumerate(nodes):
        field = f"nodes[{index}]"
        broker = _broker_id(_member(node, "id", field), f"{field}.id")
        if broker in attributes:
            raise TopologyError(f"{field}: broker {broker!r} is named twice")
        attributes[broker] = {name: value for name, value in node.items() if name != "id"}
    return attributes


def _parse_links(links: list[Any], brokers: Mapping[BrokerId, Any]) -> dict[Link, float | None]:
    latency_ms: dict[Link, float | None] = {}
    for index, entry in enumerate(links):
        field = f"links[{index}]"
        ends = []
        for role in ("source", "target"):
            end = _broker_id(_member(entry, role, field), f"{field}.{role}")
            if end not in brokers:
                raise TopologyError(f"{field}: {role} {end!r} is not among the nodes")
            ends.append(end)
        if ends[0] == ends[1]:
            raise TopologyError(f"{field}: broker {ends[0]!r} is linked to itself")
        link = Link.between(*ends)
        if link in latency_ms:
            raise TopologyError(f"{field}: link {link} is named twice")
        latency_ms[link] = _latency(entry.get("latency_ms"), field)
    return latency_ms


def _listed(document: Mapping[str, Any], name: str) -> list[Any]:
    if name not in document:
        hint = ""
        if name == "links" and "edges" in document:
            hint = " (it has 'edges': write it with node_link_data(graph, edges='links'))"
        raise TopologyError(f"the key {name!r} is missing{hint}")
    value = document[name]
    if not isinstance(value, list):
        raise TopologyError(f"{name}: expected a list, got {shown(value)}")
    return value


def _member(entry: Any, name: str, field: str) -> Any:
    if not isinstance(entry, dict):
        raise TopologyError(f"{field}: expected an object, got {shown(entry)}")
    if name not in entry:
        raise TopologyError(f"{field}: the key {name!r} is missing")
    return entry[name]


def _broker_id(value: Any, field: str) -> BrokerId:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return value
    raise TopologyError(f"{field}: a broker id is a non-empty string, got {shown(value)}")


def _latency(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TopologyError(f"{field}: latency_ms must be a number, got {shown(value)}")
    if not math.isfinite(value) or value < 0:
        raise TopologyError(f"{field}: latency_ms must be 0 or more, got {value}")
    return float(value)


def shown(value: Any) -> str:
    """A JSON value for a message, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _json_lines(items: Iterable[str]) -> str:
    body = ",\n".join(items)
    return f"[\n{body}\n]" if body else "[]"
