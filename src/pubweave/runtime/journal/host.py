"""The journal of a broker on this machine: `core.journal.engine` on a disk of this machine.

Between `broker/host`, which hands over every event with its effects and gets back those that may
leave, and `FileDisk`, which is used in a thread of its own. A snapshot is taken in the event loop,
which takes as long as the broker's state is large, and is written beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
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
from pubweave.core.journal.recovery import (
    come_back,
    is_onlooker,
    record_of,
    replay,
)
from pubweave.core.journal.snapshot import SnapshotError, restore_broker, take_snapshot
from pubweave.core.metering.metering import Metering
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import Event
from pubweave.model.records.journal_records import DiskOperation
from pubweave.model.records.status import JournalStatus
from pubweave.runtime.journal.disk import FileDisk, OpenDisk
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

log = logging.getLogger(__name__)

WINDOWS = 4
"""So many times as much may be under way unacknowledged where acknowledgements wait for a disk:
a window is used once in the time of one to two syncs."""


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

    def __init__(
        self,
        directory: Path,
        config: BrokerConfig,
        clock: UnixClock,
        policy: JournalPolicy | None = None,
        *,
        open_disk: Callable[[Path], OpenDisk] = FileDisk,
        thread: Executor | None = None,
    ) -> None:
        """``thread``: where the disk is used; None: in one of its own. OverlayError if the
        directory cannot be had."""
        self.carry_out: Callable[[list[Effect]], None] = lambda effects: None
        """Hears of effects that need not wait any more."""
        self._directory = directory
        self._config = config
        self._clock = clock
        self._policy = policy or JournalPolicy()
        self._head = SnapshotHead(config.id, code_version())
        try:
            self._disk = open_disk(directory)
        except OSError as error:
            raise self._error(error) from error
        self._number = 0
        self._recovery = _Recovery()
        self._broker: Broker | None = None
        self._engine: JournalEngine | None = None
        self._thread = thread or ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._ended = asyncio.Event()

    def _error(self, error: Exception, remedy: str = "") -> OverlayError:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return OverlayError(f"the journal {self._directory}: {reason}{remedy}")

    # --- a life ----------------------------------------------------------------------------

    def recover(self, metering: Metering | None) -> Broker | None:
        """The broker that the journal has; None: it has none yet.

        OverlayError if there is one that cannot be gone on with. As long as `replay`."""
        began_at = self._clock.now()
        try:
            found = find_journal(self._disk, self._head)
            if found is None:
                return None
            broker = restore_broker(
                found.snapshot,
                self._config,
                epoch=1,
                now=began_at,
                metering=metering,
                journal_status=self.status,
            )
            self._recovery.events = replay(broker, found.records())
        except (
            JournalDamagedError,
            JournalRefusedError,
            SnapshotError,
            LookupError,
            OSError,
        ) as error:
            raise self._error(error) from error
        self._number = found.number
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
        if is_back:
            self._clock.not_before(broker.maintenance.checked_at)
        now = self._clock.now()
        if is_back:
            self._tell_absence(broker, now)
        effects = come_back(broker, epoch=epoch, now=now) if is_back else []
        self._broker = broker
        snapshot = take_snapshot(broker)
        try:
            files = JournalFiles(self._head, self._number, self._disk.names())
            engine = JournalEngine(files, self._policy, lambda number: is_onlooker(broker, number))
            self._disk.carry_out(engine.begin(snapshot, self._clock.now() - now).operations)
        except OSError as error:
            raise self._error(error, ": make room there, then start it again") from error
        self._engine = engine
        self._do(engine.done())
        return effects

    def _tell_absence(self, broker: Broker, now: float) -> None:
        """Where brokers route by topic, others do not wait for ever: nobody knows any more what
        a broker misses that they have forgotten."""
        away_s = now - broker.maintenance.checked_at
        kept_s = known_for_s(self._config)
        if broker.routing.routes_whole_topics and away_s > kept_s:
            log.warning(
                "broker %s was away for %.0f s: others keep publications for %.0f s, so its "
                "clients may have missed some",
                self._config.id,
                away_s,
                kept_s,
            )

    async def close(self) -> None:
        """Write what is left, until the disk has it, or has refused it."""
        if self._engine is not None:
            self._do(self._engine.finish())
            await self._ended.wait()
        self._thread.shutdown()
        self._disk.close()

    # --- events ----------------------------------------------------------------------------

    def noted(self, event: Event, now: float, effects: list[Effect]) -> list[Effect]:
        """An event was handled; which of its effects may leave at once. O(bytes)."""
        if self._engine is None:
            return effects
        leaving, commands = self._engine.noted(encode_record(record_of(event, now)), effects)
        if commands:
            self._do(commands)
        return leaving

    def _do(self, commands: Sequence[Command]) -> None:
        loop = asyncio.get_running_loop()
        engine = self._engine
        assert engine is not None
        for command in commands:
            match command:
                case Operate(operations):
                    self._thread.submit(self._operate, operations, loop)
                case TakeSnapshot():
                    self._do(engine.snapshot_taken(*self._take_snapshot()))
                case Release(effects):
                    self.carry_out(effects)
                case Wait(seconds):
                    loop.call_later(seconds, lambda: self._do(engine.waited()))
                case End():
                    self._ended.set()

    def _operate(
        self, operations: Sequence[DiskOperation], loop: asyncio.AbstractEventLoop
    ) -> None:
        """In the thread of the disk."""
        problem = ""
        try:
            self._disk.carry_out(operations)
        except OSError as error:
            problem = error.strerror or str(error)
        loop.call_soon_threadsafe(self._operated, problem)

    def _operated(self, problem: str) -> None:
        engine = self._engine
        assert engine is not None
        before, refused = engine.problem, engine.snapshots_refused
        self._do(engine.failed(problem, self._clock.now()) if problem else engine.done())
        if engine.snapshots_refused > refused:
            log.warning("the disk took no snapshot: %s", problem)
        if engine.problem and not before:
            log.error("the journal cannot be written: %s", problem)
        elif before and not engine.problem:
            log.warning("the journal is written again")

    def _take_snapshot(self) -> tuple[bytes | None, float]:
        assert self._broker is not None
        began_at = self._clock.now()
        try:
            snapshot = take_snapshot(self._broker)
        except SnapshotError:
            log.exception("no snapshot of broker %s; its journal grows on", self._config.id)
            return None, 0.0
        return snapshot, self._clock.now() - began_at

    def measured(self, handled_s: float) -> None:
        """How long an event took to handle: a replay takes as long."""
        if self._engine is not None:
            self._engine.measured(handled_s)

    def status(self, now: float) -> JournalStatus:
        """How the journal is doing."""
        status = JournalStatus(
            recovered_events=self._recovery.events, recovery_s=self._recovery.seconds
        )
        engine = self._engine
        if engine is None:
            return status
        return msgspec.structs.replace(
            status,
            problem=engine.problem,
            problem_s=now - engine.problem_since if engine.problem else 0.0,
            waiting_bytes=engine.waiting_bytes,
            journal_bytes=engine.journal_bytes,
            snapshots=engine.snapshots,
        )
