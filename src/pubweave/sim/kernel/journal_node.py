"""The journal of a simulated broker: the real files and order on a simulated disk.

Events are encoded and decoded as they would be, batches are synced in virtual time, and a broker
that starts again is made from what its disk has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.journal.recovery import (
    HINTS,
    EffectOrder,
    come_back,
    give_hint,
    hint_record,
    is_onlooker,
    record_of,
    replay,
)
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.metering.metering import Metering
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.core.vocabulary.events import ConnectionId, Event
from pubweave.model.messages.session import Message
from pubweave.sim.kernel.disk import DiskSetting, SimDisk
from pubweave.sim.kernel.world import World
from pubweave.wire.codec import FrameDecoder, encode_all
from pubweave.wire.journal_codec import encode_record
from pubweave.wire.journal_files import JournalFiles, SnapshotHead, find_journal

RETRY_S = 0.05
"""A disk that refused a batch is tried again after this time."""


Shape = tuple[tuple[str, int, int], ...]


def shape(effects: list[Effect]) -> Shape:
    """Effects so far as others count them, in no order: that of two destinations may change."""
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
        self.disk = SimDisk(world)
        self.recoveries = 0
        self.replayed = 0
        self.snapshots = 0
        self.snapshots_refused = 0
        self.carry_out: Callable[[list[Effect]], None] = lambda effects: None
        """Hears of the effects that need not wait any more."""
        self._setting = setting
        self._head = SnapshotHead(broker, "simulated")
        self._core: Broker | None = None
        self._files = JournalFiles(self.disk, self._head, 0)
        self._order = EffectOrder(self._is_onlooker)
        self._gathered: list[bytes] = []
        self._is_busy = False
        self._life = 0
        self._lived: list[Shape] = []
        """What each event of this life made the broker do."""
        self._snapshot_events = 0
        """How many events of this life the last snapshot has."""
        self.differences = 0
        """Events by which a broker that came back would have done something else."""
        self._unsynced: deque[tuple[int, float]] = deque()
        """Numbers and instants of events that a crash would take along."""

    def _is_onlooker(self, connection: ConnectionId) -> bool:
        return self._core is not None and is_onlooker(self._core, connection)

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
        now = self.world.now
        core = restore_broker(found.snapshot, config, epoch=1, now=now, metering=metering)
        again: list[Shape] = []
        self.replayed += replay(core, found.records(), lambda effects: again.append(shape(effects)))
        lived = self._lived[self._snapshot_events :]
        self.differences += sum(a != b for a, b in zip(lived, again, strict=False))
        self.recoveries += 1
        self._files = JournalFiles(self.disk, self._head, found.number)
        return core

    def begin(self, core: Broker, epoch: int, *, is_back: bool) -> list[Effect]:
        """From here on this broker's events are written down; what it wants done first."""
        now = self.world.now
        effects = come_back(core, epoch=epoch, now=now) if is_back else []
        self._core = core
        self._order = EffectOrder(self._is_onlooker)
        self._gathered = []
        self._is_busy = False
        self._lived = []
        self._snapshot_events = 0
        self._life += 1
        # A broker that cannot write its first snapshot does not start: here it has waited.
        troubles = self.disk.full_until, self.disk.failing_until
        self.disk.full_until = self.disk.failing_until = 0.0
        self._files.begin(take_snapshot(core, now))
        self.disk.full_until, self.disk.failing_until = troubles
        return effects

    @property
    def unsynced_since(self) -> float:
        """When the first event was that a crash would take along."""
        return self._unsynced[0][1] if self._unsynced else self.world.now

    def contents(self) -> tuple[bytes, bytes, list[Shape]]:
        """The last snapshot, the records behind it that are on disk, and what they caused."""
        found = find_journal(self.disk, self._head)
        assert found is not None
        records = b"".join(found.journal[start:end] for start, end in found.batches)
        count = sum(getattr(record, "name", "") not in HINTS for record in found.records())
        return (
            found.snapshot,
            records,
            self._lived[self._snapshot_events : self._snapshot_events + count],
        )

    def crashed(self) -> None:
        self._life += 1
        self._unsynced.clear()
        self._core = None
        self.disk.crash()

    # --- events ----------------------------------------------------------------------------

    def noted(self, event: Event, now: float, effects: list[Effect]) -> list[Effect]:
        """An event was handled; which of its effects may leave at once."""
        self._gathered.append(encode_record(record_of(event, now)))
        leaving = self._order.noted(effects)
        self._unsynced.append((self._order.events, now))
        self._lived.append(shape(effects))
        self._write()
        return leaving

    def hint(self, hint: str, value: bool) -> None:
        """Tell the broker what it decides by, and write that down."""
        if self._core is not None:
            self._gathered.append(encode_record(hint_record(hint, value, self.world.now)))
            give_hint(self._core, hint, value)

    def _write(self) -> None:
        """Begin the next batch, or a snapshot in place of it, unless the disk is busy."""
        if self._is_busy or not self._order.is_awaited:
            return
        self._is_busy = True
        gathered, self._gathered = self._gathered, []
        if self._files.journal_bytes > self._setting.snapshot_bytes and self._core is not None:
            snapshot = take_snapshot(self._core, self.world.now)
            self.disk.putting(snapshot)
            self._later(self._put, snapshot, b"".join(gathered), self._order.events)
        else:
            self._try(b"".join(gathered), self._order.events, self._life)

    def _later(self, what: Callable[..., None], *args: object) -> None:
        delay_s = self._setting.sync_s + self.disk.extra_s
        self.world.after(delay_s, what, *args, self._life)

    def _try(self, records: bytes, events: int, life: int) -> None:
        if life != self._life:
            return
        try:
            self._files.append(records)
        except OSError:
            self.world.after(RETRY_S, self._try, records, events, life)
        else:
            self._later(self._sync, records, events)

    def _sync(self, records: bytes, events: int, life: int) -> None:
        if life != self._life:
            return
        try:
            self._files.sync()
        except OSError:
            self.world.after(RETRY_S, self._try, records, events, life)
        else:
            self._settled(events)

    def _put(self, snapshot: bytes, records: bytes, events: int, life: int) -> None:
        if life != self._life:
            return
        try:
            is_snapshot = self._files.begin_or_append(snapshot, records)
        except OSError:
            self.world.after(RETRY_S, self._put, snapshot, records, events, life)
            return
        if is_snapshot:
            self.snapshots += 1
            self._snapshot_events = events
        else:
            self.snapshots_refused += 1
        self._settled(events)

    def _settled(self, events: int) -> None:
        self._is_busy = False
        while self._unsynced and self._unsynced[0][0] <= events:
            self._unsynced.popleft()
        life = self._life
        self.carry_out(self._order.settled(events))
        if life == self._life:
            self._write()
