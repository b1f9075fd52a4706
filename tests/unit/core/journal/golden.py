"""Old journals that every later version has to read: ``python -m tests.unit.core.journal.golden``
writes them anew, which is for a new format only.

Each is the state of one broker of a simulated run. What it had is written down beside it."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec

from pubweave.core.broker import Broker
from pubweave.core.journal.snapshot import take_snapshot
from pubweave.model.records.journal_records import AppendBytes
from pubweave.sim.overlays.base import SimOverlay
from pubweave.sim.simulate import SCENARIOS
from pubweave.wire.journal_files import JournalFiles, SnapshotHead

FILES = Path(__file__).with_name("golden")
RUNS = (
    ("relocate", 1),
    ("reorganize", 1),
    ("transform", 3),
    ("churn", 1),
    ("rendezvous", 1),
    ("mqtt", 2),
)


class Golden(msgspec.Struct):
    """A journal, and what the broker had that wrote it."""

    scenario: str
    seed: int
    broker: str
    snapshot: bytes
    """The whole file, with its head."""
    clients: list[str]
    links: list[str]
    subscriptions: int


def had(broker: Broker) -> tuple[list[str], list[str], int]:
    """What can be asked of a broker whatever its classes are called."""
    sessions = broker.sessions
    return sorted(sessions.clients), sorted(sessions.links), broker.routing.sizes().subscriptions


class Camera:
    """Takes a snapshot of every broker once a second of a run, and keeps the largest."""

    def __init__(self, overlay: SimOverlay) -> None:
        self._overlay = overlay
        self.broker = ""
        self.state = b""
        self.had: tuple[list[str], list[str], int] = ([], [], 0)
        overlay.world.at(1.0, self._look)

    def _look(self) -> None:
        world = self._overlay.world
        for node in self._overlay.brokers.values():
            if node.core is not None:
                state = take_snapshot(node.core)
                if len(state) > len(self.state):
                    self.broker, self.state, self.had = node.name, state, had(node.core)
        world.at(world.now + 1.0, self._look)


def write() -> None:
    """One broker of each run, while it is busy."""
    FILES.mkdir(exist_ok=True)
    for scenario, seed in RUNS:
        run: Any = SCENARIOS[scenario].begin(seed, durability="journal", max_brokers=8)
        camera = Camera(run.overlay)
        run.run()
        files = JournalFiles(SnapshotHead(camera.broker, "golden"))
        written = files.snapshot(camera.state, is_last=True)
        [content] = [each.data for each in written if isinstance(each, AppendBytes)]
        golden = Golden(scenario, seed, camera.broker, content, *camera.had)
        packed = zlib.compress(msgspec.msgpack.encode(golden), 9)
        (FILES / f"{scenario}.bin").write_bytes(packed)


def read(scenario: str) -> Golden:
    """One of them."""
    packed = (FILES / f"{scenario}.bin").read_bytes()
    return msgspec.msgpack.decode(zlib.decompress(packed), type=Golden)


if __name__ == "__main__":
    write()
