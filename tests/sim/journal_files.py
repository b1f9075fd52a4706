"""Journals of simulated runs in files, replayed by another process: ``write DIR``, ``check DIR``.

The second process compares what each event makes a broker do with what the first one noted."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from pubweave.core.journal.recovery import replay
from pubweave.core.journal.snapshot import restore_broker
from pubweave.core.vocabulary.effects import Effect
from pubweave.sim.kernel.journal_node import Shape, shape
from pubweave.sim.simulate import SCENARIOS
from pubweave.wire.journal_codec import decode_records

RUNS = (
    ("transform", 3),
    ("relocate", 1),
    ("reorganize", 2),
    ("churn", 1),
    ("churn", 2),
    ("rendezvous", 1),
    ("rendezvous", 2),
)


class Noted(msgspec.Struct):
    """One broker's snapshot, the records behind it, and what they made it do."""

    broker: str
    snapshot: bytes
    records: bytes
    lived: list[Shape]


def write(directory: Path) -> int:
    """Run and note; 1 if nothing could be noted."""
    for scenario, seed in RUNS:
        run = SCENARIOS[scenario].begin(seed, durability="journal", max_brokers=8)
        run.run()
        noted = []
        for node in run.overlay.brokers.values():
            noted.append(Noted(node.name, *node.journal.contents()))
        (directory / f"{scenario}-{seed}.msgpack").write_bytes(msgspec.msgpack.encode(noted))
    return 0


def check(directory: Path) -> int:
    """Replay; how many journals went another way."""
    differing = 0
    for scenario, seed in RUNS:
        run = SCENARIOS[scenario].begin(seed, durability="journal", max_brokers=8)
        data = (directory / f"{scenario}-{seed}.msgpack").read_bytes()
        for noted in msgspec.msgpack.decode(data, type=list[Noted]):
            config = run._config(noted.broker)
            broker = restore_broker(noted.snapshot, config, epoch=1, now=0.0)
            again: list[Shape] = []

            def watch(effects: list[Effect], again: list[Shape] = again) -> None:
                again.append(shape(effects))

            replay(broker, decode_records(noted.records), watch)
            differing += again != noted.lived
    return differing


if __name__ == "__main__":
    sys.exit({"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2])))
