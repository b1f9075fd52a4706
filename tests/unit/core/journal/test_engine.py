"""The rules of a journal, event by event: what waits, what is written, what if the disk fails."""

from __future__ import annotations

import pytest

from pubweave.core.journal.engine import (
    Command,
    End,
    JournalEngine,
    JournalPolicy,
    Operate,
    Release,
    TakeSnapshot,
    Wait,
)
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.model.messages.session import Ack, Pong
from pubweave.model.records.journal_records import (
    AppendBytes,
    Cut,
    DiskOperation,
    EventRecord,
    Install,
    Remove,
    Sync,
)
from pubweave.sim.kernel.disk import SimDisk
from pubweave.sim.kernel.world import World
from pubweave.wire.journal_codec import encode_record
from pubweave.wire.journal_files import JournalFiles, SnapshotHead, find_journal

HEAD = SnapshotHead("b1", "1.0")


def ack(number: int) -> Effect:
    return Transmit(1, (Ack(number),))


def record(number: int) -> bytes:
    return encode_record(EventRecord(float(number), "LinkAdded", (f"b{number}",)))


def begun(policy: JournalPolicy | None = None, disk: SimDisk | None = None) -> JournalEngine:
    """After the first snapshot."""
    names = [] if disk is None else disk.names()
    found = None if disk is None else find_journal(disk, HEAD)
    files = JournalFiles(HEAD, 0 if found is None else found.number, names)
    engine = JournalEngine(files, policy or JournalPolicy(), lambda connection: False)
    first = engine.begin(b"0", 0.0).operations
    if disk is not None:
        disk.carry_out(first)
    left = engine.done()
    for command in left:
        assert isinstance(command, Operate)
        if disk is not None:
            disk.carry_out(command.operations)
        engine.done()
    return engine


def kinds(commands: list[Command]) -> list[str]:
    """What is to be done, in words."""
    found: list[str] = []
    for command in commands:
        if isinstance(command, Operate):
            found += [type(operation).__name__ for operation in command.operations]
        else:
            found.append(type(command).__name__)
    return found


def test_what_nobody_waits_for_is_written_with_what_somebody_waits_for() -> None:
    engine = begun()
    assert engine.noted(record(1), []) == ([], [])
    assert engine.noted(record(2), [Transmit(1, (Pong(0.5),))]) == (
        [Transmit(1, (Pong(0.5),))],
        [],
    )
    leaving, commands = engine.noted(record(3), [ack(1)])
    assert leaving == []
    assert kinds(commands) == ["Cut", "AppendBytes", "Sync"]
    assert engine.waiting_bytes == 0
    assert engine.done() == [Release([ack(1)])]
    assert engine.settled_events == 3


def test_events_gather_while_a_batch_is_written() -> None:
    engine = begun()
    engine.noted(record(1), [ack(1)])
    assert engine.noted(record(2), [ack(2)]) == ([], [])
    commands = engine.done()
    assert kinds(commands) == ["AppendBytes", "Sync", "Release"]
    assert commands[-1] == Release([ack(1)])
    assert engine.done() == [Release([ack(2)])]


def test_much_is_written_though_nobody_waits() -> None:
    engine = begun(JournalPolicy(lazy_bytes=100))
    assert engine.noted(bytes(99), [])[1] == []
    assert kinds(engine.noted(bytes(1), [])[1]) == ["Cut", "AppendBytes", "Sync"]


def test_a_batch_that_failed_is_cut_off_and_written_again_until_it_works() -> None:
    engine = begun()
    [written] = engine.noted(record(1), [ack(1)])[1]
    assert isinstance(written, Operate)
    for now in (5.0, 6.0):
        assert engine.failed("no space", now) == [Wait(0.2)]
        assert (engine.problem, engine.problem_since) == ("no space", 5.0)
        assert engine.noted(record(2), [ack(2)]) == ([], [])
        [again] = engine.waited()
        assert again == written
        assert isinstance(again.operations[0], Cut)
    assert kinds(engine.done()) == ["AppendBytes", "Sync", "Release"]
    assert engine.problem == ""
    assert engine.waited() == []


@pytest.mark.parametrize("policy", [JournalPolicy(snapshot_bytes=10), JournalPolicy(replay_s=0.5)])
def test_a_snapshot_replaces_a_journal_that_is_long(policy: JournalPolicy) -> None:
    engine = begun(policy)
    engine.noted(record(1), [ack(1)])
    engine.measured(1.0)
    engine.done()
    [asked] = engine.noted(record(2), [ack(2)])[1]
    assert asked == TakeSnapshot()
    assert kinds(engine.snapshot_taken(b"2", 0.1)) == ["Remove", "AppendBytes", "Sync", "Install"]
    assert kinds(engine.done()) == ["Remove", "Remove", "Release"]
    assert (engine.snapshots, engine.snapshot_events, engine.journal_bytes) == (1, 2, 0)
    assert engine.done() == []


def test_a_snapshot_that_takes_long_is_rare() -> None:
    engine = begun(JournalPolicy(replay_s=0.5))
    engine.measured(0.6)
    engine.noted(record(1), [ack(1)])
    engine.snapshot_taken(b"1", 1.0)
    engine.done()
    engine.done()
    engine.measured(2.9)
    assert kinds(engine.noted(record(2), [ack(2)])[1]) == ["Cut", "AppendBytes", "Sync"]
    engine.done()
    engine.measured(0.2)
    assert engine.noted(record(3), [ack(3)])[1] == [TakeSnapshot()]


def test_without_room_for_a_snapshot_the_journal_goes_on() -> None:
    """And the next one is tried when the journal has grown as much again."""
    engine = begun(JournalPolicy(snapshot_bytes=100))
    engine.noted(bytes(90), [ack(1)])
    engine.done()
    assert engine.noted(record(2), [ack(2)])[1] == [TakeSnapshot()]
    engine.snapshot_taken(b"2", 0.0)
    commands = engine.failed("no space", 1.0)
    assert engine.problem == ""
    assert kinds(commands) == ["Remove", "Remove", "Cut", "AppendBytes", "Sync"]
    assert engine.done() == [Release([ack(2)])]
    assert kinds(engine.noted(record(3), [ack(3)])[1]) == ["AppendBytes", "Sync"]
    engine.done()
    assert engine.noted(record(4), [ack(4)])[1] == [TakeSnapshot()]


def test_a_broker_of_which_there_can_be_no_snapshot_goes_on() -> None:
    engine = begun(JournalPolicy(replay_s=0.5))
    engine.measured(1.0)
    engine.noted(record(1), [ack(1)])
    assert kinds(engine.snapshot_taken(None, 0.0)) == ["Cut", "AppendBytes", "Sync"]
    assert engine.done() == [Release([ack(1)])]


def test_the_end_is_a_snapshot_behind_everything() -> None:
    engine = begun()
    engine.noted(record(1), [])
    assert kinds(engine.finish()) == ["Cut", "AppendBytes", "Sync"]
    assert engine.done() == [TakeSnapshot(is_last=True)]
    assert kinds(engine.snapshot_taken(b"1", 0.0)) == ["Remove", "AppendBytes", "Sync", "Install"]
    assert kinds(engine.done()) == ["Remove", "Remove"]
    assert engine.done() == [End()]


@pytest.mark.parametrize("is_waiting", [True, False])
def test_what_the_disk_refuses_at_the_end_is_given_up(is_waiting: bool) -> None:
    engine = begun()
    engine.noted(record(1), [ack(1)])
    if is_waiting:
        engine.failed("no space", 1.0)
        assert engine.finish() == [End()]
        assert engine.waited() == []
    else:
        assert engine.finish() == []
        assert engine.failed("no space", 1.0) == [End()]


# --- on a disk that fails ------------------------------------------------------------------


class Driver:
    """Lives with a disk that is full or fails now and then; a snapshot is how many events there
    were. It stops at a chosen operation, which has begun and did not end."""

    def __init__(self, world: World, engine: JournalEngine, disk: SimDisk, first: int) -> None:
        self.world = world
        self.engine = engine
        self.disk = disk
        self.first = first
        self.operations_left = world.integer(1, 120)
        self.released: list[int] = []

    @property
    def is_over(self) -> bool:
        return self.operations_left <= 0

    def do(self, commands: list[Command]) -> None:
        waiting = list(commands)
        while waiting and not self.is_over:
            match waiting.pop(0):
                case Operate(operations):
                    waiting[:0] = self._operate(list(operations))
                case TakeSnapshot():
                    taken = str(self.first + self.engine.events).encode()
                    waiting[:0] = self.engine.snapshot_taken(taken, 0.0)
                case Release(effects):
                    self.released += [
                        message.received
                        for effect in effects
                        if isinstance(effect, Transmit)
                        for message in effect.messages
                        if isinstance(message, Ack)
                    ]
                case Wait():
                    self._trouble()
                    waiting[:0] = self.engine.waited()

    def _operate(self, operations: list[DiskOperation]) -> list[Command]:
        for operation in operations:
            self._trouble()
            self.operations_left -= 1
            try:
                self.disk.begin(operation)
                if self.is_over:
                    return []
                self.disk.end(operation)
            except OSError as error:
                return self.engine.failed(str(error), 0.0)
        return self.engine.done()

    def _trouble(self) -> None:
        self.disk.full_until = 1.0 if self.world.chance(0.2) else 0.0
        self.disk.room = self.world.choice([0, 10, 100])
        self.disk.failing_until = 1.0 if self.world.chance(0.2) else 0.0


@pytest.mark.parametrize("seed", range(120))
def test_what_was_released_is_found_after_any_crash(seed: int) -> None:
    """All that was released, and nothing but what happened, in order; through several lives."""
    world = World(seed)
    disk = SimDisk(world)
    count = 0
    for _ in range(4):
        engine = begun(JournalPolicy(lazy_bytes=200, snapshot_bytes=300), disk)
        # The first snapshot of this life says how many events there were before it.
        driver = Driver(world, engine, disk, count)
        first = count
        while not driver.is_over:
            count += 1
            effects = [ack(count)] if world.chance(0.7) else []
            driver.do(engine.noted(record(count), effects)[1])
        disk.heal()
        disk.crash()
        found = find_journal(disk, HEAD)
        assert found is not None
        snapshot = int(found.snapshot) or first
        numbers = [int(each.now) for each in found.records()]
        assert numbers == list(range(snapshot + 1, snapshot + 1 + len(numbers)))
        reached = snapshot + len(numbers)
        assert max(driver.released, default=0) <= reached <= count
        assert driver.released == sorted(driver.released)
        count = reached


def test_the_operations_of_a_snapshot_install_only_what_is_synced() -> None:
    engine = begun(JournalPolicy(replay_s=0.5))
    engine.measured(1.0)
    engine.noted(record(1), [ack(1)])
    [command] = engine.snapshot_taken(b"1", 0.0)
    assert isinstance(command, Operate)
    remove, append, sync, install = command.operations
    assert isinstance(remove, Remove)
    assert isinstance(append, AppendBytes)
    assert sync == Sync(append.name)
    assert install == Install(append.name, "2.snapshot")
