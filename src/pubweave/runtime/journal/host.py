"""The journal of a broker on this machine: what is to be written, and what waits for it.

Between `broker/host`, which hands over every event with its effects and gets back those that may
leave, and `JournalWriter`, which has the disk. A snapshot is taken in the event loop, which takes
as long as the broker's state is large, and is written beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.journal.recovery import (
    HANDLING_MEASURED,
    EffectOrder,
    come_back,
    give_hint,
    hint_record,
    is_onlooker,
    record_of,
    replay,
)
from pubweave.core.journal.snapshot import SnapshotError, restore_broker, take_snapshot
from pubweave.core.metering.metering import Metering
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import Event
from pubweave.model.records.status import JournalStatus
from pubweave.runtime.journal.disk import FileDisk, state_shape
from pubweave.runtime.net.clock import UnixClock
from pubweave.runtime.net.errors import OverlayError
from pubweave.wire.journal_codec import JournalDamagedError, encode_record
from pubweave.wire.journal_files import (
    JournalContents,
    JournalFiles,
    JournalRefusedError,
    SnapshotHead,
    find_journal,
)

# Writes a journal in a thread of its own: one batch or snapshot at a time, until it is on disk.
#
# What cannot be written is tried again for as long as it takes: the broker routes on, and whoever
# waits for an acknowledgement waits.


RETRY_S = 0.2


class JournalWriter:
    """The thread of one journal. All methods are for the thread of the event loop."""

    def __init__(self, files: JournalFiles, on_done: Callable[[bool], None]) -> None:
        """``on_done`` hears in the event loop that what was given last is on disk, and whether
        that is a snapshot."""
        self.problem = ""
        """Why the disk takes nothing at the moment; empty: it does."""
        self._files = files
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[bytes, bytes | None] | None] = SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def write(self, records: bytes) -> None:
        """Put a batch behind the others."""
        self._jobs.put((records, None))

    def begin(self, snapshot: bytes, records: bytes) -> None:
        """Put a snapshot in place of all before it; if the disk has no room for it, write the
        batch that it stands for."""
        self._jobs.put((records, snapshot))

    def close(self) -> None:
        """Write what was given and end; what the disk refuses now is given up."""
        self._is_closing.set()
        self._jobs.put(None)
        self._thread.join()

    # --- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            while (is_snapshot := self._write(*job)) is None:
                if self._is_closing.wait(RETRY_S):
                    return
            try:
                self._loop.call_soon_threadsafe(self._on_done, is_snapshot)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _write(self, records: bytes, snapshot: bytes | None) -> bool | None:
        """Whether a snapshot was written; None: nothing was."""
        is_snapshot = False
        try:
            if snapshot is not None:
                is_snapshot = self._files.begin_or_append(snapshot, records)
            else:
                self._files.append(records)
                self._files.sync()
        except OSError as error:
            if not self.problem:
                log.error("the journal cannot be written: %s", error)
            self.problem = error.strerror or str(error)
            return None
        if snapshot is not None and not is_snapshot:
            log.warning("the disk took no snapshot of %d bytes", len(snapshot))
        if self.problem:
            log.warning("the journal is written again")
            self.problem = ""
        return is_snapshot


log = logging.getLogger(__name__)

WINDOWS = 4
"""So many times as much may be under way unacknowledged where acknowledgements wait for a disk:
a window is used once in the time of one to two syncs."""
REPLAY_S = 3.0
"""When the events of a journal took so long to handle, a snapshot replaces it: it would take as
long to go through them again."""
SNAPSHOT_RATIO = 3
"""Unless they took less than so many times what the last snapshot took to take."""
SNAPSHOT_BYTES = 256 << 20
"""Nor does a journal grow beyond this, however fast its events were handled."""
LAZY_BYTES = 1 << 20
"""Events for which nobody waits are written when there is this much."""
HANDLING_EVERY_S = 1.0
SMOOTHING = 0.02
"""The weight of one more event in the mean time that a message takes."""


def patient(config: BrokerConfig) -> BrokerConfig:
    """The settings of a broker with a journal, given those of one without."""
    return replace(config, limits=config.limits.widened(WINDOWS), topics=config.topics.patient())


def known_for_s(config: BrokerConfig) -> float:
    """How long publications are kept for a broker that is away, where brokers route by topic: as
    long as it is known, and it told of itself a quarter of that before it went at the latest."""
    return max(config.topics.keep_s, 0.75 * config.topics.forget_after_s)


@cache
def code_version() -> str:
    """The version of pubweave with a digest of what decides in a broker: only the same code goes
    the same way by the same events."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[2]
    for name in ("core", "design", "model", "wire"):
        for path in sorted((package / name).rglob("*.py")):
            digest.update(path.read_bytes())
    return f"{version('pubweave')}+{digest.hexdigest()[:12]}"


@dataclass
class _Recovery:
    """What a broker that came back found."""

    seconds: float = 0.0
    events: int = 0


class BrokerJournal:
    """One broker's journal, from `recover` over `begin` to `close`."""

    def __init__(self, directory: Path, config: BrokerConfig, clock: UnixClock) -> None:
        """OverlayError if the directory cannot be had."""
        self.carry_out: Callable[[list[Effect]], None] = lambda effects: None
        """Hears of effects that need not wait any more."""
        self.replay_s = REPLAY_S
        self.snapshot_bytes = SNAPSHOT_BYTES
        self._directory = directory
        self._config = config
        self._clock = clock
        self._head = SnapshotHead(config.id, code_version())
        try:
            self._disk = FileDisk(directory)
        except OSError as error:
            raise OverlayError(f"the journal {directory}: {error.strerror or error}") from error
        self._broker: Broker | None = None
        self._files = JournalFiles(self._disk, self._head, 0)
        self._writer: JournalWriter | None = None
        self._order = EffectOrder(self._is_onlooker)
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._given_events = 0
        self._is_busy = False
        self._snapshot_s = 0.0
        self._handled_s = 0.0
        self._snapshots = 0
        self._trouble_since: float | None = None
        self._recovery = _Recovery()
        self._handling_at = 0.0
        self._handling_ms = 0.0
        self._is_renewed = False
        self._is_snapshot_given = False
        self._renews = False
        """Whether the snapshot that was given last is to tell what no event does."""

    def _is_onlooker(self, connection: int) -> bool:
        return self._broker is not None and is_onlooker(self._broker, connection)

    # --- a life ----------------------------------------------------------------------------

    def recover(self, metering: Metering | None) -> Broker | None:
        """The broker that the journal has; None: it has none yet.

        OverlayError if there is one that cannot be gone on with. As long as `replay`."""
        began_at = self._clock.now()
        try:
            found = find_journal(self._disk, self._head, state_shape)
            if found is None:
                return None
            broker = restore_broker(
                found.snapshot, self._config, epoch=1, now=began_at, metering=metering
            )
            self._recovery.events = replay(broker, found.records())
        except (JournalDamagedError, JournalRefusedError, SnapshotError, LookupError) as error:
            raise OverlayError(f"the journal {self._directory}: {error}") from error
        except OSError as error:
            raise OverlayError(f"the journal {self._directory}: {error.strerror}") from error
        self._files = JournalFiles(self._disk, self._head, found.number)
        self._recovery.seconds = self._clock.now() - began_at
        self._tell_recovered(found)
        return broker

    def _tell_recovered(self, found: JournalContents) -> None:
        log.warning(
            "broker %s came back from its journal: %d events after snapshot %d in %.2f s%s",
            self._config.id,
            self._recovery.events,
            found.number,
            self._recovery.seconds,
            f", a torn tail of {found.torn_bytes} bytes cut off" if found.torn_bytes else "",
        )

    def begin(self, broker: Broker, epoch: int, *, is_back: bool) -> list[Effect]:
        """From here on everything is written down; what the broker wants done first.

        OverlayError if the first snapshot cannot be written: nothing was promised yet."""
        now = self._clock.now()
        if is_back:
            self._tell_absence(broker, now)
        effects = come_back(broker, epoch=epoch, now=now) if is_back else []
        self._broker = broker
        broker.maintenance.journal_status = self.status
        snapshot = take_snapshot(broker, now)
        self._snapshot_s = self._clock.now() - now
        try:
            self._files.begin(snapshot)
        except OSError as error:
            reason = f"{error.strerror or error}: make room there, then start it again"
            raise OverlayError(f"the journal {self._directory}: {reason}") from error
        self._writer = JournalWriter(self._files, self._settled)
        return effects

    def _tell_absence(self, broker: Broker, now: float) -> None:
        """Where brokers route by topic, others do not wait for ever: nobody knows any more what
        a broker misses that they have forgotten."""
        away_s = now - broker.maintenance.checked_at
        kept_s = known_for_s(self._config)
        if broker.topics is not None and away_s > kept_s:
            log.warning(
                "broker %s was away for %.0f s: others keep publications for %.0f s, so its "
                "clients may have missed some",
                self._config.id,
                away_s,
                kept_s,
            )

    def close(self) -> None:
        """Write what is left; blocks until the disk has it, or has refused it."""
        if self._writer is not None:
            if self._gathered:
                self._writer.write(b"".join(self._gathered))
            self._writer.close()
            self._seal(is_whole=not self._writer.problem)
            self._writer = None
        self._disk.close()

    def _seal(self, *, is_whole: bool) -> None:
        """The broker ends in an orderly way: a last snapshot, which other versions may be able to
        read. Without it the journal is as good, but only for this version."""
        if self._broker is None or not is_whole:
            return
        try:
            snapshot = take_snapshot(self._broker, self._clock.now())
            self._files.begin(snapshot, state_shape())
        except (OSError, SnapshotError) as error:
            log.warning("broker %s: no last snapshot: %s", self._config.id, error)

    # --- events ----------------------------------------------------------------------------

    def noted(self, event: Event, now: float, effects: list[Effect]) -> list[Effect]:
        """An event was handled; which of its effects may leave at once. O(bytes)."""
        self._gather(encode_record(record_of(event, now)))
        leaving = self._order.noted(effects)
        self._write()
        return leaving

    def measured(self, handled_s: float, messages: int, now: float) -> None:
        """How long an event took to handle; the mean per message is passed on to the core now and
        then, as an event like any other, because the core decides by it."""
        self._handled_s += handled_s
        self._handling_ms += SMOOTHING * (1000.0 * handled_s / messages - self._handling_ms)
        if now < self._handling_at or self._broker is None:
            return
        self._handling_at = now + HANDLING_EVERY_S
        self.hint(HANDLING_MEASURED, self._handling_ms, now)

    def hint(self, hint: str, value: float | bool, now: float) -> None:
        """Tell the broker what it decides by, and write that down."""
        self._gather(encode_record(hint_record(hint, value, now)))
        if self._broker is not None:
            give_hint(self._broker, hint, value)

    def renew(self) -> None:
        """Something else than an event changed the broker: only a snapshot can tell."""
        self._is_renewed = True

    def _gather(self, record: bytes) -> None:
        self._gathered.append(record)
        self._gathered_bytes += len(record)

    def _write(self) -> None:
        """Give the writer what has gathered, unless it is busy or nobody waits."""
        if self._is_busy or self._writer is None or self._broker is None:
            return
        if not self._order.is_awaited and self._gathered_bytes < LAZY_BYTES:
            return
        self._is_busy = True
        self._given_events = self._order.events
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        snapshot = self._try_snapshot(self._broker) if self._is_snapshot_due() else None
        self._is_snapshot_given = snapshot is not None
        if snapshot is None:
            self._writer.write(b"".join(gathered))
        else:
            self._writer.begin(snapshot, b"".join(gathered))

    def _is_snapshot_due(self) -> bool:
        return (
            self._is_renewed
            or self._handled_s > max(self.replay_s, SNAPSHOT_RATIO * self._snapshot_s)
            or self._files.journal_bytes > self.snapshot_bytes
        )

    def _try_snapshot(self, broker: Broker) -> bytes | None:
        """None if there can be none: then the journal goes on, which is as good, only longer."""
        began_at = self._clock.now()
        self._handled_s = 0.0
        try:
            snapshot = take_snapshot(broker, began_at)
        except SnapshotError:
            log.exception("no snapshot of broker %s; its journal grows on", self._config.id)
            self.snapshot_bytes *= 2
            return None
        self._snapshot_s = self._clock.now() - began_at
        self._renews, self._is_renewed = self._is_renewed, False
        return snapshot

    def _settled(self, is_snapshot: bool) -> None:
        self._is_busy = False
        if is_snapshot:
            self._snapshots += 1
        elif self._is_snapshot_given:
            self.snapshot_bytes *= 2  # there may be room for it later
            self._is_renewed = self._is_renewed or self._renews
        self.carry_out(self._order.settled(self._given_events))
        self._write()

    def status(self, now: float) -> JournalStatus:
        """How the journal is doing."""
        problem = "" if self._writer is None else self._writer.problem
        if not problem:
            self._trouble_since = None
        elif self._trouble_since is None:
            self._trouble_since = now
        return JournalStatus(
            problem=problem,
            problem_s=0.0 if self._trouble_since is None else now - self._trouble_since,
            waiting_bytes=self._gathered_bytes,
            journal_bytes=self._files.journal_bytes,
            snapshots=self._snapshots,
            recovered_events=self._recovery.events,
            recovery_s=self._recovery.seconds,
        )
