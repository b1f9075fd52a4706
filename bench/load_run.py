"""One measurement: a publisher process, brokers, a subscriber process, and what came of it.

The clock starts when the warm-up has reached every subscriber and the first message of the run is
sent; it stops when the last one has reached the last subscriber.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from bench.load_frames import content_filters, expected_deliveries
from bench.load_processors import processor_count
from bench.load_task import LoadReport, LoadTask
from bench.rivals import ROOT, Brokers
from pubweave.core.config.session import SessionLimits

CLIENT_MODULES = ("bench.load_publisher", "bench.load_subscriber")
LIBRARY_MODULES = ("bench.load_library", "bench.load_library")


@dataclass(frozen=True)
class Load:
    """What is sent to whom. ``content_subscriptions`` 0: everybody wants the one topic."""

    count: int
    subscribers: int = 1
    content_subscriptions: int = 0
    rate_per_s: float = 0.0
    warm_count: int = 2000
    window_messages: int = 8000
    """Where a broker does not acknowledge: how many messages may be on their way."""
    window_bytes: int = SessionLimits.window_bytes
    """Where it does: how much of it, as the broker grants it."""
    library: bool = False
    seed: int = 7


@dataclass(frozen=True)
class Measured:
    """One repetition."""

    seconds: float
    published: int
    delivered: int
    lost: int
    disordered: int
    broker_cpu_s: float
    publisher_cpu_s: float
    subscriber_cpu_s: float
    other_cpu_share: float
    """Share of all processors that neither brokers nor load generators used while it ran."""
    latency_us: dict[str, float]

    @property
    def published_per_s(self) -> float:
        return self.published / self.seconds

    @property
    def delivered_per_broker_cpu_s(self) -> float:
        """Deliveries for one second of all brokers' processor time: what a busy machine distorts
        least."""
        return self.delivered / max(self.broker_cpu_s, 0.01)

    @property
    def delivered_per_s(self) -> float:
        return self.delivered / self.seconds


def measure(brokers: Brokers, load: Load) -> Measured:
    """Run a load once: the publisher at the first broker, the subscribers at the last."""
    near, far = socket.socketpair()
    with near, far:
        publisher_task, subscriber_task = _tasks(brokers, load, near.fileno(), far.fileno())
        publisher_module, subscriber_module = LIBRARY_MODULES if load.library else CLIENT_MODULES
        with _process(subscriber_module, subscriber_task, "subscriber") as subscriber:
            assert subscriber.stdout is not None
            if subscriber.stdout.readline().strip() != b"ready":
                raise RuntimeError("the subscriber process did not become ready")
            with _process(publisher_module, publisher_task, "publisher") as publisher:
                sent = _report(publisher)
            got = _report(subscriber)
    return _summed_up(load, subscriber_task, sent, got)


def _tasks(brokers: Brokers, load: Load, near: int, far: int) -> tuple[LoadTask, LoadTask]:
    total = load.warm_count + load.count
    warm: list[int] = []
    expected: list[int] = []
    seed = load.seed if load.content_subscriptions else None
    if seed is not None:
        filters = content_filters(load.content_subscriptions, seed, load.subscribers)
        warm, expected = expected_deliveries(filters, seed, load.warm_count, total)
    publisher = LoadTask(
        dialect=brokers.dialect,
        port=brokers.ports[0],
        client="pub",
        feedback_fd=near,
        warm_count=load.warm_count,
        count=load.count,
        content_seed=seed,
        rate_per_s=load.rate_per_s,
        window_messages=load.window_messages,
        window_bytes=load.window_bytes,
        limit_s=20.0,
    )
    subscriber = msgspec.structs.replace(
        publisher,
        port=brokers.ports[-1],
        client="sub",
        feedback_fd=far,
        connections=load.subscribers,
        subscriptions=load.content_subscriptions,
        broker_pids=list(brokers.pids),
        expected_warm=warm,
        expected=expected,
    )
    return publisher, subscriber


@contextlib.contextmanager
def _process(module: str, task: LoadTask, role: str) -> Iterator[subprocess.Popen[bytes]]:
    """A load generator; waits for its end, or ends it where something went wrong."""
    command = [sys.executable, "-m", module, msgspec.json.encode(task).decode(), role]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, pass_fds=(task.feedback_fd,)
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _report(process: subprocess.Popen[bytes]) -> LoadReport:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a load generator ended without a report")
    return msgspec.json.decode(line, type=LoadReport)


def _summed_up(load: Load, task: LoadTask, sent: LoadReport, got: LoadReport) -> Measured:
    seconds = got.finished_at - sent.started_at
    delivered = sum(got.received)
    expected = (
        sum(task.expected) - sum(task.expected_warm)
        if task.expected
        else load.count * load.subscribers
    )
    ours_s = got.broker_cpu_s + got.cpu_s + sent.cpu_s
    return Measured(
        seconds=seconds,
        published=load.count,
        delivered=delivered,
        lost=expected - delivered,
        disordered=got.disordered,
        broker_cpu_s=got.broker_cpu_s,
        publisher_cpu_s=sent.cpu_s,
        subscriber_cpu_s=got.cpu_s,
        other_cpu_share=max(0.0, got.machine_busy_s - ours_s) / (seconds * processor_count()),
        latency_us=_percentiles(got.latencies_us),
    )


def _percentiles(latencies_us: list[float]) -> dict[str, float]:
    if not latencies_us:
        return {}
    names = {"p10": 10, "p50": 50, "p90": 90, "p99": 99}
    values = np.percentile(latencies_us, list(names.values()))
    return {name: float(value) for name, value in zip(names, values, strict=True)}
