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

    def __init__(self, files: JournalFiles, on_done: Callable[[], None]) -> None:
        """``on_done`` hears in the event loop that what was given last is on disk."""
        self.problem = ""
        """Why the disk takes nothing at the moment; empty: it does."""
        self._files = files
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[bytes, bool] | None] = SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def write(self, records: bytes) -> None:
        """Put a batch behind the others."""
        self._jobs.put((records, False))

    def begin(self, snapshot: bytes) -> None:
        """Put a snapshot in place of all before it."""
        self._jobs.put((snapshot, True))

    def close(self) -> None:
        """Write what was given and end; what the disk refuses now is given up."""
        self._is_closing.set()
        self._jobs.put(None)
        self._thread.join()

    # --- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            while not self._is_written(*job):
                if self._is_closing.wait(RETRY_S):
                    return
            try:
                self._loop.call_soon_threadsafe(self._on_done)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _is_written(self, data: bytes, is_snapshot: bool) -> bool:
        try:
            if is_snapshot:
                self._files.begin(data)
            else:
                self._files.append(data)
                self._files.sync()
        except OSError as error:
            if not self.problem:
                log.error("the journal cannot be written: %s", error)
            self.problem = error.strerror or str(error)
            return False
        if self.problem:
            log.warning("the journal is written again")
            self.problem = ""
        return True
