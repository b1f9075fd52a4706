"""A publisher's delivery statistics as a document: what ``pubweave relocate select`` decides from.

Node-link JSON (`model.files.topology`), whose nodes carry what each broker reports and which says
where the publisher is and how far it is from the brokers. docs/papers/pop-grape.md explains every
field; every complaint names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pubweave.design.relocation.rules import DeliveryReport
from pubweave.design.tree.traffic import DesignError
from pubweave.model.files.topology import load_document, parse_document, shown
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology, validate_tree

CLIENT = "client"
"""The name under which ``queue_match_ms`` has the delay towards clients."""


@dataclass(frozen=True)
class RelocationDocument:
    """What a document says, and what is odd about it."""

    reports: Mapping[BrokerId, DeliveryReport]
    publisher_at: BrokerId
    ping_ms: Mapping[BrokerId, float]
    """Of the brokers that answered; all 0 where the document has none."""
    remarks: tuple[str, ...]


def parse_statistics(content: bytes) -> RelocationDocument:
    """Read a document; DesignError or TopologyError names the field and what it must be."""
    document = load_document(content)
    if "links" not in document and "edges" in document:  # as networkx calls them since 3.4
        document["links"] = document["edges"]
    topology = parse_document(document)
    validate_tree(topology)
    if CLIENT in topology.brokers:
        raise DesignError(f"nodes: no broker can be called {CLIENT!r}, that is the clients' place")
    reports: dict[BrokerId, DeliveryReport] = {}
    remarks: list[str] = []
    for broker in sorted(topology.brokers):
        reports[broker] = _report(broker, topology, remarks)
    publisher_at = _publisher_at(document, topology)
    ping_ms = _ping_ms(document, topology, publisher_at, remarks)
    return RelocationDocument(reports, publisher_at, ping_ms, tuple(remarks))


def _report(broker: BrokerId, topology: Topology, remarks: list[str]) -> DeliveryReport:
    field = f"node {broker!r}"
    said = topology.broker_attributes.get(broker, {})
    deliveries = _number(said.get("deliveries", 0), f"{field}.deliveries")
    if deliveries != int(deliveries):
        raise DesignError(f"{field}.deliveries: expected a whole number, got {deliveries:g}")
    bits = _bits(said.get("bits", ""), f"{field}.bits")
    if bits.bit_count() > deliveries:
        remarks.append(
            f"{field}: {bits.bit_count()} bits are set, but there are only {deliveries:g} "
            "deliveries; each publication delivered here counts at least once"
        )
    delays = said.get("queue_match_ms", {})
    if not isinstance(delays, dict):
        raise DesignError(f"{field}.queue_match_ms: expected an object of delays by neighbor")
    neighbors = topology.neighbors[broker]
    strange = sorted(set(delays) - {*neighbors, CLIENT})
    if strange:
        raise DesignError(f"{field}.queue_match_ms: {strange[0]!r} is no neighbor of {broker!r}")
    for needed in (*neighbors, *((CLIENT,) if deliveries else ())):
        if needed not in delays:
            raise DesignError(f"{field}.queue_match_ms: the delay to {needed!r} is missing")
    hop_ms = {n: _number(delays[n], f"{field}.queue_match_ms.{n}") for n in neighbors}
    client_ms = _number(delays.get(CLIENT, 0.0), f"{field}.queue_match_ms.{CLIENT}")
    return DeliveryReport(deliveries, bits, hop_ms, client_ms)


def _bits(value: Any, field: str) -> int:
    """A hexadecimal number; bit n is publication n, so leading zeros make no difference."""
    if not isinstance(value, str):
        raise DesignError(f"{field}: expected a string of hexadecimal digits, got {shown(value)}")
    digits = value.removeprefix("0x")
    if any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise DesignError(f"{field}: {shown(value)} has other than hexadecimal digits")
    return int(digits, 16) if digits else 0


def _publisher_at(document: Mapping[str, Any], topology: Topology) -> BrokerId:
    value = _graph_value(document, "publisher_at")
    if value is None:
        raise DesignError("publisher_at: name the broker that the publisher is at")
    broker = str(value)
    if broker not in topology.brokers:
        raise DesignError(f"publisher_at: {shown(value)} is not among the nodes")
    return broker


def _ping_ms(
    document: Mapping[str, Any], topology: Topology, publisher_at: BrokerId, remarks: list[str]
) -> dict[BrokerId, float]:
    value = _graph_value(document, "ping_ms")
    if value is None:
        remarks.append("no ping_ms: every broker is taken to be equally far from the publisher")
        return dict.fromkeys(topology.brokers, 0.0)
    if not isinstance(value, dict):
        raise DesignError(f"ping_ms: expected an object of round trips by broker: {shown(value)}")
    ping_ms: dict[BrokerId, float] = {}
    for broker, round_trip in value.items():
        if broker not in topology.brokers:
            raise DesignError(f"ping_ms: {broker!r} is not among the nodes")
        if round_trip is not None:
            ping_ms[broker] = _number(round_trip, f"ping_ms.{broker}")
    silent = sorted(topology.brokers - set(ping_ms) - {publisher_at})
    if silent:
        remarks.append(f"no ping_ms, so no candidates: {', '.join(silent)}")
    if publisher_at not in ping_ms:
        remarks.append(f"no ping_ms of {publisher_at}, where the publisher is: taken as 0")
    return ping_ms


def _graph_value(document: Mapping[str, Any], name: str) -> Any:
    """A value of the document, or of the attributes of its graph, where networkx keeps them."""
    graph = document.get("graph")
    inside = graph.get(name) if isinstance(graph, dict) else None
    beside = document.get(name)
    if inside is not None and beside is not None and inside != beside:
        raise DesignError(f"{name}: it stands twice and differs, beside and inside 'graph'")
    return inside if beside is None else beside


def _number(value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DesignError(f"{field}: expected a number, got {shown(value)}")
    if not math.isfinite(value) or value < 0:
        raise DesignError(f"{field}: expected a number of 0 or more, got {shown(value)}")
    return float(value)
