"""What a journal costs, and how long a broker takes to come back from one.

    python -m bench.bench_journal [--rounds 3] [--only throughput|recovery] [--json]

Throughput: the same load (`bench_sockets`) on brokers without and with a journal, in turn; the
ratio of medians counts (bar: 0.4). Recovery: a broker with 100,000 subscriptions that has written
1 GB of journal (bar: 15 s), at the worst moment, right before a snapshot is due; and, for
comparison, one that has taken no snapshot since. The subscriptions are IPITT's and came over five
links; one client publishes over the whole content space.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench import rivals
from bench.load_run import Load, measure
from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.journal.engine import JournalPolicy
from pubweave.core.journal.recovery import record_of
from pubweave.core.journal.snapshot import take_snapshot
from pubweave.core.vocabulary.events import ConnectionOpened, Event, LinkAdded, MessagesReceived
from pubweave.generate.topologies.trees import random_tree
from pubweave.generate.workloads.ipitt import ipitt_workload, publications
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Hello,
    Message,
    Role,
    Subscribe,
)
from pubweave.model.publications import make_publication
from pubweave.runtime.journal.disk import FileDisk
from pubweave.runtime.journal.host import WINDOWS, BrokerJournal, code_version
from pubweave.runtime.net.clock import UnixClock
from pubweave.wire.codec import FrameDecoder, encode_all
from pubweave.wire.journal_codec import encode_record
from pubweave.wire.journal_files import JournalFiles, SnapshotHead

THROUGHPUT_BAR = 0.4
RECOVERY_BAR_S = 15.0
SUBSCRIPTIONS = 100_000
LINKS = 5
JOURNAL_BYTES = 1_000_000_000
BATCH = 100
CASES = ((1000, True), (4000, False))
"""Bytes of payload, and whether snapshots are taken on the way."""


def throughput(rounds: int, directory: Path) -> list[dict[str, Any]]:
    """Deliveries per second without and with a journal, for one broker and for a chain of two."""
    found = []
    for chain, count in ((1, 300_000), (2, 150_000)):
        granted = {"memory": SessionLimits(), "journal": SessionLimits().widened(WINDOWS)}
        seen: dict[str, list[float]] = {"memory": [], "journal": []}
        for number in range(rounds):
            for durability, rates in seen.items():
                journals = directory / f"{chain}-{number}" if durability == "journal" else None
                load = Load(count, window_bytes=granted[durability].window_bytes)
                with rivals.pubweave(chain, journals=journals) as brokers:
                    measured = measure(brokers, load)
                assert not measured.lost, f"{measured.lost} lost"
                rates.append(measured.delivered_per_s)
                print(f"chain {chain}, {durability}: {rates[-1]:,.0f}/s", file=sys.stderr)
        medians = {name: statistics.median(rates) for name, rates in seen.items()}
        found.append(
            {
                "chain": chain,
                **{f"{name}_per_s": round(median) for name, median in medians.items()},
                "ratio": round(medians["journal"] / medians["memory"], 3),
                "bar": THROUGHPUT_BAR,
            }
        )
    return found


class _Recorded:
    """A broker that lives through events and writes them into a journal, without sockets."""

    def __init__(self, directory: Path) -> None:
        self.config = BrokerConfig("b1")
        self.broker = Broker(self.config, epoch=1, now=0.0)
        self.now = 0.0
        head = SnapshotHead(self.config.id, code_version())
        self.files = JournalFiles(head)
        self._disk = FileDisk(directory)
        self._handled_s = self._snapshot_s = 0.0

    def give(self, event: Event) -> bytes:
        self.now += 0.001
        began = time.perf_counter()
        self.broker.handle(event, self.now)
        self._handled_s += time.perf_counter() - began
        return encode_record(record_of(event, self.now))

    def take_snapshot(self) -> None:
        began = time.perf_counter()
        snapshot = take_snapshot(self.broker)
        self._snapshot_s = time.perf_counter() - began
        self._handled_s = 0.0
        self._disk.carry_out(self.files.snapshot(snapshot))
        self.files.installed()
        self._disk.carry_out(self.files.clearing())
        self.files.cleared()

    def write(self, records: bytes) -> None:
        self._disk.carry_out(self.files.batch(records))
        self.files.written()

    @property
    def snapshot_is_near(self) -> float:
        """How much of the way to the next snapshot is gone, by the rule of the engine."""
        policy = JournalPolicy()
        due_s = max(policy.replay_s, policy.snapshot_ratio * self._snapshot_s)
        return self._handled_s / due_s

    def messages(self, connection: int, messages: list[Message]) -> bytes:
        decoded = FrameDecoder().feed(encode_all(messages))
        return self.give(MessagesReceived(connection, decoded, self.now))

    def greet(self, connection: int, role: Role, name: str) -> None:
        self.give(ConnectionOpened(connection))
        hello = Hello(PROTOCOL_VERSION, role, name, 1, 0, 0, 1 << 30, routing="tree")
        self.messages(connection, [hello])


def make_journal(
    directory: Path, subscriptions: int, payload_bytes: int, size: int, *, snapshots: bool
) -> int:
    """The journal of a broker with this many subscriptions, after so many bytes of publications;
    how many publications."""
    recorded = _Recorded(directory)
    rng = np.random.default_rng(1)
    workload = ipitt_workload(random_tree(1, rng), rng, 1, subscriptions)
    recorded.greet(LINKS, Role.CLIENT, "p")
    offered = workload.publishers[0].advertisements
    recorded.messages(LINKS, [Advertise(f"p:a{n}", each) for n, each in enumerate(offered)])
    for link in range(LINKS):
        recorded.give(LinkAdded(f"a{link}"))
        recorded.greet(link, Role.BROKER, f"a{link}")
        told = workload.subscribers[link::LINKS]
        recorded.messages(link, [Subscribe(f"{each.client}:s", each.filter) for each in told])
    recorded.take_snapshot()
    return _publish(recorded, payload_bytes, size, snapshots)


def _publish(recorded: _Recorded, payload_bytes: int, size: int, snapshots: bool) -> int:
    contents = publications(np.random.default_rng(2))
    links = [recorded.broker.sessions.links[f"a{link}"] for link in range(LINKS)]
    written = count = 0
    while written < size or (snapshots and recorded.snapshot_is_near < 0.95):
        if snapshots and recorded.snapshot_is_near > 1.0:
            recorded.take_snapshot()
        batch: list[Message] = []
        for topic, attributes in islice(contents, BATCH):
            count += 1
            payload = bytes(payload_bytes)
            batch.append(make_publication("p", count, topic, attributes, payload, recorded.now))
        records = [recorded.messages(LINKS, batch)]
        for connection, link in enumerate(links):
            if link.unacked:
                ack = Ack(link.acked + len(link.unacked))
                records.append(recorded.messages(connection, [ack]))
        together = b"".join(records)
        recorded.write(together)
        written += len(together)
    return count


def recovery(directory: Path, subscriptions: int, size: int) -> list[dict[str, Any]]:
    """How long a broker takes to come back."""
    found = []
    for payload_bytes, snapshots in CASES:
        where = directory / f"recovery-{payload_bytes}"
        count = make_journal(where, subscriptions, payload_bytes, size, snapshots=snapshots)
        bytes_there = sum(path.stat().st_size for path in where.iterdir())
        journal = BrokerJournal(where, BrokerConfig("b1"), UnixClock())
        began = time.perf_counter()
        broker = journal.recover(None)
        seconds = time.perf_counter() - began
        assert broker is not None
        assert broker.routing.sizes().subscriptions == subscriptions
        assert broker.last_sequence("p") == count
        found.append(
            {
                "payload_bytes": payload_bytes,
                "takes_snapshots": snapshots,
                "publications": count,
                "bytes_left": bytes_there,
                "seconds": round(seconds, 2),
                "bar_s": RECOVERY_BAR_S,
            }
        )
        print(found[-1], file=sys.stderr)
        for path in where.iterdir():
            path.unlink()
    return found


def run(
    rounds: int = 3, *, only: str | None = None, size: int = JOURNAL_BYTES
) -> dict[str, list[dict[str, Any]]]:
    """All figures, or ``only`` one part of them."""
    with tempfile.TemporaryDirectory(prefix="pubweave-journal-", dir=".") as scratch:
        directory = Path(scratch)
        told: dict[str, list[dict[str, Any]]] = {}
        if only != "recovery":
            told["throughput"] = throughput(rounds, directory)
        if only != "throughput":
            told["recovery"] = recovery(directory, SUBSCRIPTIONS, size)
        return told


def main() -> int:
    """The command line; exit code 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("throughput", "recovery"))
    parser.add_argument("--bytes", type=int, default=JOURNAL_BYTES, help="of the journal")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    told = run(given.rounds, only=given.only, size=given.bytes)
    for row in (*told.get("throughput", ()), *told.get("recovery", ())):
        print(json.dumps(row) if given.json else row)
    missed = any(row["ratio"] < row["bar"] for row in told.get("throughput", ())) or any(
        row["seconds"] > row["bar_s"] for row in told.get("recovery", ())
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
