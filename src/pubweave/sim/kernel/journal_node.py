"""The journal of a simulated broker: `core.journal.engine` on a simulated disk.

Events are encoded and decoded as they would be, operations take virtual time one by one, and a
broker that starts again is made from what its disk has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.journal.engine import (
    Command,
    JournalEngine,
    Operate,
    Release,
    TakeSnapshot,
    Wait,
)
from pubweave.core.journal.recovery import (
    come_back,
    is_onlooker,
    record_of,
    replay,
)
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.metering.metering import Metering
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.core.vocabulary.events import ActionDecided, Event
from pubweave.core.vocabulary.rare_branches import sometimes
from pubweave.model.messages.session import Message
from pubweave.model.records.journal_records import (
    AppendBytes,
    DiskOperation,
    EventRecord,
    Install,
    Sync,
)
from pubweave.sim.kernel.clocks import Clock
from pubweave.sim.kernel.disk import DiskSetting, SimDisk, size_of
from pubweave.sim.kernel.marks import RunBranch
from pubweave.sim.kernel.world import World
from pubweave.wire.codec import FrameDecoder, encode_all
from pubweave.wire.journal_codec import encode_record
from pubweave.wire.journal_files import JournalFiles, SnapshotHead, find_journal

Shape = tuple[tuple[str, int, int], ...]


def shape(effects: list[Effect]) -> Shape:
    """Effects so far as others count them, in no order: that of two destinations may change."""
    if not effects:
        return ()
    return tuple(
        sorted(
            (
                type(effect).__name__,
                effect.connection if isinstance(effect, Transmit) else 0,
                len(effect.messages) if isinstance(effect, Transmit) else 0,
            )
            for effect in effects
        )
    )


class SimJournal:
    """One broker's journal through all its incarnations."""

    def __init__(self, world: World, broker: str, setting: DiskSetting) -> None:
        self.world = world
        self.clock = Clock()
        """Of the broker's process."""
        self.disk = SimDisk(world)
        self.recoveries = 0
        self.replayed = 0
        self.snapshots = 0
        self.snapshots_refused = 0
        self.carry_out: Callable[[list[Effect]], None] = lambda effects: None
        """Hears of the effects that need not wait any more."""
        self.on_snapshot: Callable[[float], None] | None = None
        """Hears once that a snapshot is being written, and for how long."""
        self.differences = 0
        """Events by which a broker that came back would have done something else."""
        self._setting = setting
        self._head = SnapshotHead(broker, "simulated")
        self._number = 0
        self._core: Broker | None = None
        self._engine: JournalEngine | None = None
        """Of this life; None: it is over, or has not begun."""
        self._lived: list[Shape] = []
        """What each event of this life made the broker do."""
        self._snapshot_events = 0
        """How many events of this life the last snapshot has."""

    @staticmethod
    def as_received(messages: Sequence[Message]) -> Sequence[Message]:
        """Messages as they come from a wire: a journal gives back the same."""
        return FrameDecoder().feed(encode_all(messages))

    # --- a life ----------------------------------------------------------------------------

    def recover(self, config: BrokerConfig, metering: Metering | None) -> Broker | None:
        """The broker that the disk has, after all it went through; None: it has none."""
        found = find_journal(self.disk, self._head)
        if found is None:
            return None
        now = self.clock.read(self.world.now)
        core = restore_broker(found.snapshot, config, epoch=1, now=now, metering=metering)
        records, again = list(found.records()), list[Shape]()
        if any(isinstance(r, EventRecord) and r.name == ActionDecided.__name__ for r in records):
            sometimes(RunBranch.COMMIT_REPLAYED)
        if records and records[-1].now > now:
            sometimes(RunBranch.CLOCK_TURNED_BACK)
        self.replayed += replay(core, records, lambda effects: again.append(shape(effects)))
        lived = self._lived[self._snapshot_events :]
        self.differences += sum(a != b for a, b in zip(lived, again, strict=False))
        self.recoveries += 1
        self._number = found.number
        return core

    def begin(self, core: Broker, epoch: int, *, is_back: bool) -> list[Effect]:
        """From here on this broker's events are written down; what it wants done first."""
        if is_back:
            self.clock.not_before(self.world.now, core.maintenance.checked_at)
        now = self.clock.read(self.world.now)
        effects = come_back(core, epoch=epoch, now=now) if is_back else []
        self._core = core
        self._lived = []
        self._snapshot_events = 0
        files = JournalFiles(self._head, self._number, self.disk.names())
        policy = self._setting.policy
        engine = JournalEngine(files, policy, lambda number: is_onlooker(core, number))
        # A broker that cannot write its first snapshot does not start: here it has waited.
        troubles = self.disk.full_until, self.disk.failing_until
        self.disk.full_until = self.disk.failing_until = 0.0
        self.disk.carry_out(engine.begin(take_snapshot(core), 0.0).operations)
        self.disk.full_until, self.disk.failing_until = troubles
        self._engine = engine
        self._do(engine, engine.done())
        return effects

    def contents(self) -> tuple[bytes, bytes, list[Shape]]:
        """The last snapshot, the records behind it that are on disk, and what they caused."""
        found = find_journal(self.disk, self._head)
        assert found is not None
        records = b"".join(found.journal[start:end] for start, end in found.batches)
        count = sum(1 for _ in found.records())
        return (
            found.snapshot,
            records,
            self._lived[self._snapshot_events : self._snapshot_events + count],
        )

    def crashed(self) -> None:
        self._core = self._engine = None
        self.disk.crash()

    # --- events ----------------------------------------------------------------------------

    def noted(
        self, event: Event, now: float, effects: list[Effect], handled_s: float
    ) -> list[Effect]:
        """An event was handled; which of its effects may leave at once."""
        engine = self._engine
        assert engine is not None
        self._lived.append(shape(effects))
        engine.measured(handled_s)
        leaving, commands = engine.noted(encode_record(record_of(event, now)), effects)
        self._do(engine, commands)
        return leaving

    def _do(self, engine: JournalEngine, commands: Sequence[Command]) -> None:
        for command in commands:
            if engine is not self._engine:
                return  # it crashed meanwhile
            match command:
                case Operate(operations):
                    self._operate(engine, operations)
                case TakeSnapshot():
                    assert self._core is not None
                    snapshot = take_snapshot(self._core)
                    self._do(engine, engine.snapshot_taken(snapshot, 0.0))
                case Release(effects):
                    self.carry_out(effects)
                case Wait(seconds):
                    self.world.after(seconds, self._waited, engine)

    def _waited(self, engine: JournalEngine) -> None:
        if engine is self._engine:
            self._do(engine, engine.waited())

    def _operate(self, engine: JournalEngine, operations: Sequence[DiskOperation]) -> None:
        """Begin the first of these, and in time go on to the next."""
        operation = operations[0]
        try:
            self.disk.begin(operation)
        except OSError as error:
            self.world.after(0.0, self._failed, engine, error)
            return
        duration_s = 0.0
        if isinstance(operation, AppendBytes):
            duration_s = size_of(operation) / self._setting.bytes_per_s
        elif isinstance(operation, Sync | Install):
            duration_s = self._setting.sync_s + self.disk.extra_s
        if isinstance(operations[-1], Install) and self.on_snapshot is not None:
            self.on_snapshot(2 * (self._setting.sync_s + self.disk.extra_s))
            self.on_snapshot = None
        self.world.after(duration_s, self._operated, engine, operations)

    def _operated(self, engine: JournalEngine, operations: Sequence[DiskOperation]) -> None:
        if engine is not self._engine:
            return
        try:
            self.disk.end(operations[0])
        except OSError as error:
            self._failed(engine, error)
            return
        if len(operations) > 1:
            self._operate(engine, operations[1:])
            return
        before = engine.snapshots
        commands = engine.done()
        if engine.snapshots > before:
            self.snapshots += 1
            self._snapshot_events = engine.snapshot_events
            self.world.note(self._head.broker, "  a snapshot replaces the journal")
        self._do(engine, commands)

    def _failed(self, engine: JournalEngine, error: OSError) -> None:
        if engine is self._engine:
            self.world.note(self._head.broker, f"  journal: {error.strerror}")
            before = engine.snapshots_refused
            commands = engine.failed(error.strerror or "", self.clock.read(self.world.now))
            self.snapshots_refused += engine.snapshots_refused - before
            self._do(engine, commands)
