"""Socket throughput and latency of pubweave beside mosquitto and amqtt, in one run.

Every case is measured in interleaved rounds (rival, pubweave, rival, ...), so that whatever else
the machine does hits all of them; the median counts, and the spread stands beside it. What is
measured and how is in the README next to this file.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from bench import rivals
from bench.load_run import Load, Measured, measure

ROUNDS = 3
CHAINS = (1, 2, 3)
CONTENT_SUBSCRIPTIONS = 1000
LATENCY_RATE_PER_S = 500.0
LATENCY_COUNT = 1500
MOSQUITTO, AMQTT, PUBWEAVE = "mosquitto", "amqtt", "pubweave"
Start = Callable[[], AbstractContextManager[rivals.Brokers]]


@dataclass(frozen=True)
class Case:
    """One broker (or chain) under one load."""

    scenario: str
    broker: str
    start: Start
    load: Load
    chain: int = 1
    sample_ratio: float | None = None
    """Telemetry: which share of publications is recorded; None: none, and no other record."""


@dataclass
class Outcome:
    """What the repetitions of a case gave."""

    case: Case
    repetitions: list[Measured] = field(default_factory=list)
    records_per_publication: float | None = None
    """Records of publications and deliveries that were found on disk afterwards."""
    failure: str = ""

    def median(self, figure: Callable[[Measured], float]) -> float:
        return statistics.median(figure(each) for each in self.repetitions)

    def summary(self) -> dict[str, Any]:
        """The figures as JSON."""
        case, repetitions = self.case, self.repetitions
        described: dict[str, Any] = {
            "scenario": case.scenario,
            "broker": case.broker,
            "chain": case.chain,
            "sample_ratio": case.sample_ratio,
            "failure": self.failure,
            "load": asdict(case.load),
        }
        if not repetitions:
            return described
        if not case.load.rate_per_s:
            delivered = [each.delivered_per_s for each in repetitions]
            described |= {
                "published_per_s": self.median(lambda m: m.published_per_s),
                "delivered_per_s": statistics.median(delivered),
                "delivered_per_s_min": min(delivered),
                "delivered_per_s_max": max(delivered),
                "delivered_per_broker_cpu_s": self.median(lambda m: m.delivered_per_broker_cpu_s),
            }
        else:
            described["latency_us"] = {
                name: self.median(lambda m, name=name: m.latency_us[name])  # type: ignore[misc]
                for name in repetitions[0].latency_us
            }
        return described | {
            "lost": sum(each.lost for each in repetitions),
            "disordered": sum(each.disordered for each in repetitions),
            "broker_cpu_share": self.median(lambda m: m.broker_cpu_s / m.seconds),
            "other_cpu_share": self.median(lambda m: m.other_cpu_share),
            "records_per_publication": self.records_per_publication,
            "repetitions": [asdict(each) for each in repetitions],
        }


def cases() -> list[Case]:
    """All measurements of one round, rivals first."""
    exact, fan_out = Load(300_000), Load(60_000, subscribers=10)
    few, few_fan_out = Load(20_000, warm_count=200), Load(4_000, subscribers=10, warm_count=200)
    content = Load(100_000, content_subscriptions=CONTENT_SUBSCRIPTIONS)
    content_fan_out = Load(100_000, content_subscriptions=CONTENT_SUBSCRIPTIONS, subscribers=10)
    chain_of_3 = (partial(rivals.mosquitto, 3), partial(rivals.pubweave, 3))
    found = [
        Case("exact topic 1 -> 1", MOSQUITTO, rivals.mosquitto, exact),
        Case("exact topic 1 -> 1", AMQTT, rivals.amqtt, few),
        Case("exact topic 1 -> 1", PUBWEAVE, rivals.pubweave, exact),
        Case("exact topic 1 -> 10", MOSQUITTO, rivals.mosquitto, fan_out),
        Case("exact topic 1 -> 10", AMQTT, rivals.amqtt, few_fan_out),
        Case("exact topic 1 -> 10", PUBWEAVE, rivals.pubweave, fan_out),
        Case("chain of 3, 1 -> 1", MOSQUITTO, chain_of_3[0], Load(150_000), 3),
        Case("chain of 3, 1 -> 1", PUBWEAVE, chain_of_3[1], Load(150_000), 3),
        Case("content 1 -> 1", PUBWEAVE, rivals.pubweave, content),
        Case("content 1 -> 10", PUBWEAVE, rivals.pubweave, content_fan_out),
        Case("client library 1 -> 1", PUBWEAVE, rivals.pubweave, Load(200_000, library=True)),
        Case("telemetry 1.0, 1 -> 1", PUBWEAVE, rivals.pubweave, exact, sample_ratio=1.0),
        Case("telemetry 0.01, 1 -> 1", PUBWEAVE, rivals.pubweave, exact, sample_ratio=0.01),
    ]
    slow = Load(LATENCY_COUNT, rate_per_s=LATENCY_RATE_PER_S, warm_count=200)
    for chain in CHAINS:
        bridged = partial(rivals.mosquitto, chain, no_delay=True)
        found += [
            Case("latency", MOSQUITTO, bridged, slow, chain),
            Case("latency", PUBWEAVE, partial(rivals.pubweave, chain), slow, chain),
        ]
    return found


def run(rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure everything; prints progress to stderr, raises nothing for a missing rival."""
    outcomes = [Outcome(case) for case in cases()]
    for number in range(rounds):
        for outcome in outcomes:
            case = outcome.case
            print(
                f"  round {number + 1}/{rounds}: {case.scenario}, {case.broker}, "
                f"{case.chain} broker(s)",
                file=sys.stderr,
            )
            _repeat(outcome)
    missing = {outcome.failure: None for outcome in outcomes if outcome.failure}
    per_hop_us = {name: _per_hop_us(outcomes, name) for name in (MOSQUITTO, PUBWEAVE)}
    return {
        "rounds": rounds,
        "cases": [outcome.summary() for outcome in outcomes],
        "added_latency_per_hop_us": per_hop_us,
        "bars": _bars(outcomes, per_hop_us),
        "failures": list(missing),
    }


def _repeat(outcome: Outcome) -> None:
    """One more repetition; a rival that is missing or fails is noted and left out."""
    if outcome.failure:
        return
    case = outcome.case
    try:
        if case.sample_ratio is not None:
            _repeat_recording(outcome, case.sample_ratio)
            return
        with case.start() as brokers:
            outcome.repetitions.append(measure(brokers, case.load))
    except rivals.RivalMissingError as error:
        outcome.failure = str(error)
    except RuntimeError as error:
        outcome.failure = f"{case.broker}, {case.scenario}: {error}"


def _repeat_recording(outcome: Outcome, sample_ratio: float) -> None:
    """With telemetry: also look at what is on disk after the broker has stopped."""
    load = outcome.case.load
    with tempfile.TemporaryDirectory(prefix="bench-telemetry-") as name:
        directory = Path(name)
        with rivals.pubweave(telemetry=directory, sample_ratio=sample_ratio) as brokers:
            outcome.repetitions.append(measure(brokers, load))
        written = sum(
            pyarrow.parquet.read_metadata(file).num_rows
            for table in ("publications", "deliveries")
            for file in directory.rglob(f"*{table}*/**/*.parquet")
        )
    outcome.records_per_publication = written / (load.warm_count + load.count)


def _per_hop_us(outcomes: list[Outcome], broker: str) -> float | None:
    """The slope of median latency over the number of brokers, by least squares."""
    points = [
        (outcome.case.chain, outcome.median(lambda m: m.latency_us["p50"]))
        for outcome in outcomes
        if outcome.case.broker == broker and outcome.case.load.rate_per_s and outcome.repetitions
    ]
    if len(points) < len(CHAINS):
        return None
    chains, medians = zip(*points, strict=True)
    return float(np.polyfit(chains, medians, 1)[0])


def _bars(outcomes: list[Outcome], per_hop_us: dict[str, float | None]) -> list[dict[str, Any]]:
    """What the issue asks for, beside what was seen; None where a rival was missing."""

    def rate(scenario: str, broker: str) -> float | None:
        for outcome in outcomes:
            case = outcome.case
            if (case.scenario, case.broker) == (scenario, broker) and outcome.repetitions:
                return outcome.median(lambda m: m.delivered_per_s)
        return None

    def routed(scenario: str) -> float | None:
        for outcome in outcomes:
            if outcome.case.scenario == scenario and outcome.repetitions:
                return outcome.median(lambda m: m.published_per_s)
        return None

    one, ten = rate("exact topic 1 -> 1", MOSQUITTO), rate("exact topic 1 -> 10", MOSQUITTO)
    wanted: list[tuple[str, float | None, float | None]] = [
        (
            "exact topic 1 -> 1: at least mosquitto (messages/s)",
            rate("exact topic 1 -> 1", PUBWEAVE),
            one,
        ),
        (
            "exact topic 1 -> 10: twice mosquitto (deliveries/s)",
            rate("exact topic 1 -> 10", PUBWEAVE),
            None if ten is None else 2 * ten,
        ),
        (
            "content 1 -> 1: a third of the first bar (publications/s)",
            routed("content 1 -> 1"),
            None if one is None else one / 3,
        ),
        (
            "content 1 -> 10: a third of the second bar (deliveries/s)",
            rate("content 1 -> 10", PUBWEAVE),
            None if ten is None else 2 * ten / 3,
        ),
    ]
    bars = [
        _bar(claim, seen, bar, seen is None or bar is None or seen >= bar)
        for claim, seen, bar in wanted
    ]
    hop_us = per_hop_us[PUBWEAVE]
    claim = "added median latency per hop: at most 100 (microseconds)"
    return [*bars, _bar(claim, hop_us, 100.0, hop_us is None or hop_us <= 100.0)]


def _bar(claim: str, seen: float | None, bar: float | None, is_met: bool) -> dict[str, Any]:
    known = seen is not None and bar is not None
    return {"claim": claim, "seen": seen, "bar": bar, "met": is_met if known else None}
