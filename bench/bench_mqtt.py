"""The MQTT door beside mosquitto and amqtt, in one run: QoS 0, QoS 1, idle clients, a sluggard.

    python -m bench.bench_mqtt [--rounds 3] [--only NAME] [--json FILE]

QoS 0 goes through the load generators of `bench_sockets` (3.1.1, 100 bytes, one topic), QoS 1 and
the rest through `load_mqtt`. Rounds are interleaved, the median counts. Mosquitto gets no limit on
what is under way, no persistence and no log; so does amqtt, with fewer messages.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import mqtt5
import numpy as np

from bench import rivals
from bench.load_mqtt import idle_connections, latencies_ms, measure_qos_one
from bench.load_processors import processes_cpu_s
from bench.load_run import Load, measure
from pubweave.wire.mqtt.codec import V3, V5, MqttDecoder, encode

MOSQUITTO, AMQTT, PUBWEAVE = "mosquitto", "amqtt", "pubweave"
IDLE = 5000
SLUGGARD_RATE_PER_S = 2000.0
SLUGGARD_S = 8.0
ROOM = """[broker.entry]
connections = 20000
connections_per_address = 20000
connections_per_s = 100000.0
connection_burst = 20000
"""
ONLY = ("qos0", "qos1", "slow", "codec", "idle", "sluggard")
Start = Callable[[], AbstractContextManager[rivals.Brokers]]


@dataclass
class Figure:
    """Deliveries a second of one broker in one scenario, by round."""

    scenario: str
    broker: str
    rates: list[float] = field(default_factory=list)
    per_cpu_s: list[float] = field(default_factory=list)
    lost: int = 0
    failure: str = ""

    def summary(self) -> dict[str, Any]:
        if not self.rates:
            return {"scenario": self.scenario, "broker": self.broker, "failure": self.failure}
        return {
            "scenario": self.scenario,
            "broker": self.broker,
            "delivered_per_s": statistics.median(self.rates),
            "lowest": min(self.rates),
            "highest": max(self.rates),
            "per_cpu_s": statistics.median(self.per_cpu_s),
            "lost": self.lost,
        }


Measure = Callable[[rivals.Brokers], tuple[float, float, int]]


def qos_zero(load: Load) -> Measure:
    def once(brokers: rivals.Brokers) -> tuple[float, float, int]:
        measured = measure(brokers, load)
        return measured.delivered_per_s, measured.delivered_per_broker_cpu_s, measured.lost

    return once


def qos_one(count: int, subscribers: int = 1, *, with_sluggard: bool = False) -> Measure:
    def once(brokers: rivals.Brokers) -> tuple[float, float, int]:
        before = processes_cpu_s(brokers.pids)
        result = measure_qos_one(brokers.ports[0], count, subscribers, with_sluggard=with_sluggard)
        used_s = max(0.01, processes_cpu_s(brokers.pids) - before)
        lost = count * subscribers - result.delivered + count - result.acknowledged
        return result.delivered / result.seconds, result.delivered / used_s, lost

    return once


def for_each(measure: Measure, subscribers: int) -> Measure:
    """What one of so many subscribers gets."""

    def once(brokers: rivals.Brokers) -> tuple[float, float, int]:
        rate, per_cpu_s, lost = measure(brokers)
        return rate / subscribers, per_cpu_s / subscribers, lost

    return once


def throughput_cases(only: str | None) -> list[tuple[str, str, Start, Measure]]:
    """Scenario, broker, how it starts and what is measured."""
    mosquitto = unbounded_mosquitto
    found: list[tuple[str, str, Start, Measure]] = []
    if only in (None, "qos0"):
        few, fan = Load(20_000, warm_count=200), Load(30_000, subscribers=10)
        found += [
            ("QoS 0, 1 -> 1", MOSQUITTO, mosquitto, qos_zero(Load(200_000))),
            ("QoS 0, 1 -> 1", AMQTT, rivals.amqtt, qos_zero(few)),
            ("QoS 0, 1 -> 1", PUBWEAVE, rivals.door, qos_zero(Load(200_000))),
            ("QoS 0, 1 -> 10", MOSQUITTO, mosquitto, qos_zero(fan)),
            ("QoS 0, 1 -> 10", PUBWEAVE, rivals.door, qos_zero(fan)),
        ]
    if only in (None, "qos1"):
        found += [
            ("QoS 1, 1 -> 1", MOSQUITTO, mosquitto, qos_one(50_000)),
            ("QoS 1, 1 -> 1", AMQTT, rivals.amqtt, qos_one(3_000)),
            ("QoS 1, 1 -> 1", PUBWEAVE, rivals.door, qos_one(50_000)),
            ("QoS 1, 1 -> 10", MOSQUITTO, mosquitto, qos_one(10_000, 10)),
            ("QoS 1, 1 -> 10", PUBWEAVE, rivals.door, qos_one(10_000, 10)),
        ]
    if only in (None, "slow"):
        alone, beside = qos_one(50_000), qos_one(50_000, with_sluggard=True)
        another = for_each(qos_one(50_000, 2), 2)
        found += [
            ("QoS 1, alone", MOSQUITTO, mosquitto, alone),
            ("QoS 1, another", MOSQUITTO, mosquitto, another),
            ("QoS 1, a slow one", MOSQUITTO, mosquitto, beside),
            ("QoS 1, alone", PUBWEAVE, rivals.door, alone),
            ("QoS 1, another", PUBWEAVE, rivals.door, another),
            ("QoS 1, a slow one", PUBWEAVE, rivals.door, beside),
            ("QoS 1, one that ends", PUBWEAVE, short_door, beside),
        ]
    return found


def short_door() -> AbstractContextManager[rivals.Brokers]:
    """Where the session of a client that does not read soon has more than it may keep."""
    return configured_door("[broker.mqtt]\nqueue_messages = 2000\n")


def unbounded_mosquitto() -> AbstractContextManager[rivals.Brokers]:
    return rivals.mosquitto(no_delay=False, more=["max_inflight_messages 0"])


def throughput(rounds: int, only: str | None) -> list[dict[str, Any]]:
    cases = throughput_cases(only)
    figures = [Figure(scenario, broker) for scenario, broker, _, _ in cases]
    for number in range(rounds):
        for (scenario, broker, start, once), figure in zip(cases, figures, strict=True):
            print(f"  round {number + 1}/{rounds}: {scenario}, {broker}", file=sys.stderr)
            try:
                with start() as brokers:
                    rate, per_cpu_s, lost = once(brokers)
            except (rivals.RivalMissingError, OSError, RuntimeError) as error:
                figure.failure = str(error) or type(error).__name__
                continue
            figure.rates.append(rate)
            figure.per_cpu_s.append(per_cpu_s)
            figure.lost += lost
    return [figure.summary() for figure in figures]


def memory_kib(pid: int) -> int:
    """What the process has in memory, as Linux counts it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def roomy_door() -> AbstractContextManager[rivals.Brokers]:
    """For thousands of clients of one address, who are an attack by default."""
    return configured_door(ROOM)


@contextlib.contextmanager
def configured_door(text: str) -> Iterator[rivals.Brokers]:
    with tempfile.TemporaryDirectory(prefix="bench-mqtt-") as directory:
        config = Path(directory) / "broker.toml"
        config.write_text(text)
        with rivals.door("--config", str(config)) as brokers:
            yield brokers


def idle(count: int = IDLE) -> list[dict[str, Any]]:
    """Memory of so many clients that say nothing, and whether the broker still serves others."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found = []
    starts: list[tuple[str, Start]] = [(MOSQUITTO, unbounded_mosquitto), (PUBWEAVE, roomy_door)]
    for broker, start in starts:
        print(f"  {count} idle connections, {broker}", file=sys.stderr)
        with start() as brokers:
            before = memory_kib(brokers.pids[0])
            began = time.monotonic()
            sockets = idle_connections(brokers.ports[0], count)
            seconds = time.monotonic() - began
            after = memory_kib(brokers.pids[0])
            cpu_s = processes_cpu_s(brokers.pids)
            time.sleep(5.0)
            cpu_s = processes_cpu_s(brokers.pids) - cpu_s
            rate = qos_one(2000)(brokers)[0]
            for sock in sockets:
                sock.close()
        found.append(
            {
                "broker": broker,
                "connections": count,
                "connected_per_s": count / seconds,
                "kib_each": (after - before) / count,
                "cpu_share_while_idle": cpu_s / 5.0,
                "qos1_delivered_per_s_meanwhile": rate,
            }
        )
    return found


def sluggard() -> list[dict[str, Any]]:
    """Latency of a subscriber that reads, without and with one that never does."""
    found = []
    prompt = partial(rivals.mosquitto, no_delay=True)
    starts: list[tuple[str, Start]] = [(MOSQUITTO, prompt), (PUBWEAVE, rivals.door)]
    for broker, start in starts:
        for present in (False, True):
            print(f"  a sluggard: {present}, {broker}", file=sys.stderr)
            with start() as brokers:
                before = memory_kib(brokers.pids[0])
                taken, lost = latencies_ms(
                    brokers.ports[0], SLUGGARD_RATE_PER_S, SLUGGARD_S, with_sluggard=present
                )
                grown_kib = memory_kib(brokers.pids[0]) - before
            median, high = np.percentile(taken, [50, 99]) if taken else (0.0, 0.0)
            found.append(
                {
                    "broker": broker,
                    "sluggard": present,
                    "delivered": len(taken),
                    "lost": lost,
                    "latency_ms_median": float(median),
                    "latency_ms_p99": float(high),
                    "memory_grown_kib": grown_kib,
                }
            )
    return found


def codec(count: int = 20_000) -> list[dict[str, Any]]:
    """Packets a second through our decoder, beside `mqtt5` alone, which leaves out the checks."""
    plain = mqtt5.PublishPacket("sensors/room/1", b"x" * 100, qos=mqtt5.QoS(1), packet_id=7)
    told = mqtt5.PublishPacket(
        "sensors/room/1", b"x" * 100, content_type="t", user_properties=[("key", "value")] * 3
    )
    found = []
    for name, version, packet in (
        ("5.0, no properties", V5, plain),
        ("5.0, 4 properties", V5, told),
        ("3.1.1", V3, plain),
    ):
        wire = encode(packet, version)
        decoder = MqttDecoder(1 << 20, version=version)
        began = time.process_time()
        for _ in range(count // 50):
            decoder.feed(wire * 50)
        ours_s = time.process_time() - began
        row: dict[str, Any] = {"packet": name, "decoded_per_s": count / ours_s}
        if version == V5:
            view = memoryview(wire)
            began = time.process_time()
            for _ in range(count):
                mqtt5.read(view)
            row["times_mqtt5_alone"] = (time.process_time() - began) / ours_s
        began = time.process_time()
        for _ in range(count):
            encode(packet, version)
        row["encoded_per_s"] = count / (time.process_time() - began)
        found.append(row)
    return found


def run(rounds: int = 3, only: str | None = None) -> dict[str, Any]:
    """All figures; a rival that is missing is named in them."""
    figures: dict[str, Any] = {"throughput": throughput(rounds, only)}
    if only in (None, "codec"):
        figures["codec"] = codec()
    if only in (None, "idle"):
        figures["idle"] = idle()
    if only in (None, "sluggard"):
        figures["sluggard"] = sluggard()
    return figures


def print_table(figures: dict[str, Any]) -> None:
    rates = {(f["scenario"], f["broker"]): f for f in figures["throughput"]}
    print(f"{'throughput':<22}{'broker':<11}{'delivered/s':>12}{'lowest':>10}{'highest':>10}"
          f"{'times':>7}{'lost':>6}{'per cpu s':>11}")  # fmt: skip
    for (scenario, broker), f in rates.items():
        if "failure" in f:
            print(f"{scenario:<22}{broker:<11}{f['failure']}")
            continue
        rival = rates.get((scenario, MOSQUITTO), {}).get("delivered_per_s")
        times = f"{f['delivered_per_s'] / rival:.2f}" if rival else "-"
        rate, low, high = f["delivered_per_s"], f["lowest"], f["highest"]
        print(f"{scenario:<22}{broker:<11}{rate:>12,.0f}{low:>10,.0f}{high:>10,.0f}"
              f"{times:>7}{f['lost']:>6}{f['per_cpu_s']:>11,.0f}")  # fmt: skip
    for name in ("codec", "idle", "sluggard"):
        for row in figures.get(name, []):
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(f"{name:<10}" + "  ".join(f"{key} {value}" for key, value in shown.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=ONLY)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    options = parser.parse_args()
    figures = run(options.rounds, options.only)
    print_table(figures)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
