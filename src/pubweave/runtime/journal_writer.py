"""Writes a journal in a thread of its own: one batch or snapshot at a time, until it is on disk.

What cannot be written is tried again for as long as it takes: the broker routes on, and whoever
waits for an acknowledgement waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from pubweave.wire.journal_layout import JournalFiles

log = logging.getLogger(__name__)

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
