"""The same figures in Prometheus' text format, one family after the other.

Names end in their base unit (seconds, bytes) and counters in ``_total``. What nobody has measured
is left out rather than written as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from pubweave.dashboard.documents import progress_of
from pubweave.dashboard.snapshot import BrokerView, LinkView, Snapshot
from pubweave.model.decisions import DecisionState
from pubweave.model.records.status import COUNTERS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, str], float | None]

_BROKER_GAUGES: dict[str, tuple[str, Callable[[BrokerView], float]]] = {
    "broker_up": ("Whether the broker answers.", lambda b: float(b.is_up)),
    "broker_clients": ("Attached clients.", lambda b: b.clients),
    "broker_subscriptions": ("Subscriptions in the tables.", lambda b: b.subscriptions),
    "broker_queue_bytes": ("Bytes kept for neighbors and clients.", lambda b: b.queue_bytes),
    "broker_queue_messages": ("Messages waiting for output.", lambda b: b.queue_messages),
    "broker_held_messages": ("Messages kept back for an action.", lambda b: b.held_messages),
}
_LINK_GAUGES: dict[str, tuple[str, Callable[[LinkView], float | None]]] = {
    "link_up": ("Whether both ends say that the link stands.", lambda k: float(k.is_up)),
    "link_messages_per_second": ("Messages, both directions.", lambda k: k.messages_per_s),
    "link_round_trip_seconds": (
        "The last round trip.",
        lambda k: None if k.rtt_ms is None else k.rtt_ms / 1000,
    ),
    "link_queue_bytes": ("Bytes waiting for this link.", lambda k: k.queue_bytes),
}


def metrics_text(snapshot: Snapshot) -> str:
    """All families of one snapshot."""
    lines: list[str] = []
    _overlay(lines, snapshot)
    for name, (meaning, value) in _BROKER_GAUGES.items():
        samples = [
            ({"broker": b.id}, value(b)) for b in snapshot.brokers if b.is_up or "up" in name
        ]
        _family(lines, name, "gauge", meaning, samples)
    for counter in COUNTERS:
        name, about = counter.name, counter.metadata
        counted = [
            ({"broker": b.id}, float(getattr(b.counters, name)))
            for b in snapshot.brokers
            if b.counters is not None
        ]
        meaning = f"{about['unit'].capitalize()}: {about['meaning']}."
        _family(lines, f"broker_{name}_total", "counter", meaning, counted)
    for name, (meaning, figure) in _LINK_GAUGES.items():
        told = [({"a": k.a, "b": k.b}, figure(k)) for k in snapshot.links]
        _family(lines, name, "gauge", meaning, told)
    return "\n".join(lines) + "\n"


def _overlay(lines: list[str], snapshot: Snapshot) -> None:
    def gauge(name: str, meaning: str, value: float | None) -> None:
        _family(lines, name, "gauge", meaning, [({"overlay": snapshot.overlay}, value)])

    gauge("snapshot_timestamp_seconds", "When these figures were taken.", snapshot.taken_at)
    gauge("brokers", "Brokers of the overlay.", len(snapshot.brokers))
    gauge("links", "Links of the overlay.", len(snapshot.links))
    gauge("publications_per_second", "Publications of all clients.", snapshot.publications_per_s)
    gauge("deliveries_per_second", "Notifications to all clients.", snapshot.deliveries_per_s)
    gauge(
        "cost_seconds_per_second",
        "Time that notifications spend on links and in brokers, per second (CI Eq. 2).",
        None if snapshot.cost_per_s is None else snapshot.cost_per_s / 1000,
    )
    _latency(lines, snapshot)
    _plan(lines, snapshot)
    gauge("decisions_waiting", "Decisions that wait for a person.", _waiting(snapshot))
    troubles = [({"kind": t.kind, "severity": t.severity.value}, 1.0) for t in snapshot.troubles]
    _family(lines, "trouble", "gauge", "1 for each trouble there is now.", troubles)


def _latency(lines: list[str], snapshot: Snapshot) -> None:
    if snapshot.latency is None:
        return
    shown = msgspec.structs.asdict(snapshot.latency)
    quantiles = {"0.5": "p50_ms", "0.95": "p95_ms", "0.99": "p99_ms"}
    samples = [({"quantile": q}, shown[field] / 1000) for q, field in quantiles.items()]
    meaning = "From publishing to delivery, over the last seconds of telemetry."
    _family(lines, "latency_seconds", "gauge", meaning, samples)
    meaning = "The mean of the same."
    _family(lines, "latency_mean_seconds", "gauge", meaning, [({}, shown["mean_ms"] / 1000)])


def _plan(lines: list[str], snapshot: Snapshot) -> None:
    deployment = snapshot.deployment
    if deployment is None:
        return
    labels = {"deployment": deployment.id, "state": deployment.state.value}
    meaning = "The share of the plan that is done."
    _family(lines, "plan_progress_ratio", "gauge", meaning, [(labels, progress_of(deployment))])


def _waiting(snapshot: Snapshot) -> float:
    return float(sum(d.state is DecisionState.WAITING for d in snapshot.decisions))


def _family(
    lines: list[str], name: str, kind: str, meaning: str, samples: Iterable[Sample]
) -> None:
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    lines.append(f"# HELP pubweave_{name} {meaning}")
    lines.append(f"# TYPE pubweave_{name} {kind}")
    for labels, value in known:
        lines.append(f"pubweave_{name}{_labels(labels)} {value!r}")


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
