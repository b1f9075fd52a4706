"""The figures of `bench_sockets` as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def lines(result: Mapping[str, Any]) -> Iterable[str]:
    """The whole report: throughput, latency, bars, and what could not be measured."""
    throughput = [case for case in result["cases"] if not case["load"]["rate_per_s"]]
    latency = [case for case in result["cases"] if case["load"]["rate_per_s"]]
    yield from _throughput_lines(throughput)
    yield ""
    yield from _latency_lines(latency, result["added_latency_per_hop_us"])
    yield ""
    yield f"{'bar':60s}{'seen':>12s}{'needed':>12s}"
    for bar in result["bars"]:
        verdict = {True: "met", False: "NOT MET", None: "not measured"}[bar["met"]]
        yield f"{bar['claim']:60s}{_figure(bar['seen'])}{_figure(bar['bar'])}  {verdict}"
    for failure in result["failures"]:
        yield f"not measured: {failure}"


def _throughput_lines(cases: list[dict[str, Any]]) -> Iterable[str]:
    yield (
        f"{'throughput':25s}{'broker':11s}{'published/s':>12s}{'delivered/s':>12s}"
        f"{'lowest':>12s}{'highest':>12s}{'times':>7s}{'lost':>6s}{'per cpu s':>11s}{'others':>8s}"
    )
    first: dict[str, float] = {}
    for case in cases:
        if "delivered_per_s" not in case:
            continue
        scenario, delivered = case["scenario"], case["delivered_per_s"]
        times = delivered / first.setdefault(scenario, delivered)
        records = case["records_per_publication"]
        yield (
            f"{scenario:25s}{case['broker']:11s}{case['published_per_s']:12,.0f}"
            f"{delivered:12,.0f}{case['delivered_per_s_min']:12,.0f}"
            f"{case['delivered_per_s_max']:12,.0f}{times:7.1f}{case['lost']:6d}"
            f"{case['delivered_per_broker_cpu_s']:11,.0f}{case['other_cpu_share']:8.0%}"
            + (f"  {records:.2f} records each" if records is not None else "")
        )


def _latency_lines(
    cases: list[dict[str, Any]], per_hop_us: Mapping[str, float | None]
) -> Iterable[str]:
    yield (
        f"{'latency (microseconds)':25s}{'broker':11s}{'10 %':>8s}{'median':>8s}"
        f"{'90 %':>8s}{'99 %':>8s}{'others':>8s}"
    )
    for case in cases:
        if "latency_us" not in case:
            continue
        figures = "".join(f"{value:8.0f}" for value in case["latency_us"].values())
        name = f"{case['chain']} broker(s)"
        yield f"{name:25s}{case['broker']:11s}{figures}{case['other_cpu_share']:8.0%}"
    for broker, added in per_hop_us.items():
        if added is not None:
            yield f"{'added per hop':25s}{broker:11s}{'':8s}{added:8.0f}"


def _figure(value: float | None) -> str:
    return f"{'-':>12s}" if value is None else f"{value:12,.0f}"
