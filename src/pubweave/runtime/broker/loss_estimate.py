"""What only a broker without a journal has, noted now and then, so that its loss can be told.

A broker that is killed takes along what it had acknowledged and nobody else has yet. It cannot say
so any more, and what comes back in its place knows nothing. So it notes in a small file how much it
is, many times a second; the kernel keeps that through a kill -9. Whoever is started in its place
counts it as what may be lost, and says so. It is an upper bound of that moment: some of it has
arrived and was not acknowledged yet.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from pubweave.core.broker import Broker
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.events import DriverCounted, Event
from pubweave.runtime.net.clock import UnixClock

log = logging.getLogger(__name__)

EVERY_S = 0.05
SHARE = 0.02
"""At most so much of the time goes into notes: with many sessions they are made less often."""
_LENGTH = 512
"""Notes are written over each other: all are as long as this."""


class LossEstimate(msgspec.Struct, frozen=True):
    """What waited in a broker's memory, and for how many."""

    broker: str
    noted_at: float
    notifications: int = 0
    clients: int = 0
    publications: int = 0
    neighbors: int = 0
    mqtt: int = 0
    """Publications in MQTT sessions."""

    @property
    def is_nothing(self) -> bool:
        return not (self.notifications or self.publications or self.mqtt)

    @property
    def in_words(self) -> str:
        return (
            f"{self.notifications} notifications for {self.clients} clients, {self.publications} "
            f"messages for {self.neighbors} neighbors and {self.mqtt} publications in MQTT sessions"
        )


def held_by(broker: Broker, now: float) -> LossEstimate:
    """What a broker would take along. O(sessions)."""
    clients, notifications = _queued(broker.sessions.clients.values())
    neighbors, publications = _queued(broker.sessions.links.values())
    door = broker.mqtt
    waiting = 0 if door is None else door.status(now).waiting
    return LossEstimate(
        broker.config.id, now, notifications, clients, publications, neighbors, waiting
    )


def _queued(sessions: Iterable[Session]) -> tuple[int, int]:
    """How many sessions something waits for, and how much."""
    queued = [session.queue_messages + len(session.pending) for session in sessions]
    return sum(map(bool, queued)), sum(queued)


class LossNotes:
    """One broker's notes, from `start` to `stop`."""

    def __init__(self, path: Path, broker: Broker, handle: Callable[[Event], None]) -> None:
        """``handle`` gives the broker an event."""
        self._path = path
        self._broker = broker
        self._handle = handle
        self._clock = UnixClock()
        self._file: int | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Tell what the one before has taken along, and begin. A file that cannot be written is
        told and done without: nothing depends on it."""
        self._tell_lost()
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            log.warning("what is lost if this broker is killed cannot be noted: %s", error)
            return
        self._task = asyncio.create_task(self._note_on())

    async def _note_on(self) -> None:
        while self._file is not None:
            began = self._clock.now()
            self.note()
            await asyncio.sleep(max(EVERY_S, (self._clock.now() - began) / SHARE))

    def note(self) -> None:
        if self._file is not None:
            text = msgspec.json.encode(held_by(self._broker, self._clock.now()))
            try:
                os.pwrite(self._file, text.ljust(_LENGTH), 0)
            except OSError as error:
                log.warning("what would be lost cannot be noted: %s", error)

    def stop(self) -> None:
        """An orderly end: whoever waits is told by the sessions themselves."""
        if self._task is not None:
            self._task.cancel()
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._path.unlink(missing_ok=True)

    def _tell_lost(self) -> None:
        try:
            held = msgspec.json.decode(self._path.read_bytes(), type=LossEstimate)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            log.warning("what the broker before this one took along is not known: %s", error)
            return
        if held.broker != self._broker.config.id or held.is_nothing:
            return
        self._handle(DriverCounted("notifications_lost_at_most", held.notifications + held.mqtt))
        self._handle(DriverCounted("publications_lost_at_most", held.publications))
        log.warning(
            "broker %s was killed without a journal: at most %s are lost",
            held.broker,
            held.in_words,
        )
