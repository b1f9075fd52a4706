"""What the driver of a broker takes from its machine: the clock, sockets, a disk, a thread, chance.

A simulation gives another one, and nothing else has to be replaced for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from socket import socket
from typing import Any

from pubweave.core.journal.engine import JournalPolicy
from pubweave.runtime.journal.disk import FileDisk, OpenDisk
from pubweave.runtime.net.addresses import bound_sockets
from pubweave.runtime.net.clock import UnixClock


class Machine:
    """This one."""

    def __init__(self) -> None:
        self.clock = UnixClock()
        self.journal_policy = JournalPolicy()

    def secret(self) -> bytes:
        """Bytes that nobody guesses."""
        return secrets.token_bytes()

    def listening_sockets(self, places: Iterable[Any], port: int) -> Iterator[socket]:
        """Sockets bound at all the places; OSError where one cannot be had."""
        return bound_sockets(places, port)

    def disk(self, directory: Path) -> OpenDisk:
        """The files of a directory; OSError if it cannot be had."""
        return FileDisk(directory)

    def thread(self, name: str) -> Executor:
        """One thread, for what blocks."""
        return ThreadPoolExecutor(1, thread_name_prefix=name)
