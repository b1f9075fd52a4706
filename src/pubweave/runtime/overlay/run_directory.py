"""A run directory: where one overlay keeps its state file, logs and telemetry.

``overlay.json`` is for people and for other commands; it appears whole or not at all. That the
overlay lives is a lock on ``overlay.lock``, which ends with the process that holds it, however
that ends: a stale state file never stands in the way.

What an earlier run left is set aside under ``earlier/``, so that the files of two runs never mix.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import re
import time
from collections import deque
from pathlib import Path
from typing import IO

import msgspec

from pubweave.model.ids import BrokerId
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.security.credentials import read_secret
from pubweave.runtime.security.directory import SecurityDirectory

DEFAULT_RUN_DIRECTORY = Path("runs/current")
RUN_DIRECTORY_VARIABLE = "PUBWEAVE_RUN"
STATE_FILE = "overlay.json"
LOCK_FILE = "overlay.lock"
TELEMETRY_DIRECTORY = "telemetry"
LOG_DIRECTORY = "logs"
ZOOKEEPER_DIRECTORY = "zookeeper"
ZOOKEEPER_AUTH_FILE = f"{ZOOKEEPER_DIRECTORY}/zookeeper-auth"
JOURNAL_DIRECTORY = "journal"
EARLIER_DIRECTORY = "earlier"
_LEFT_BEHIND = (
    STATE_FILE,
    LOG_DIRECTORY,
    TELEMETRY_DIRECTORY,
    ZOOKEEPER_DIRECTORY,
    JOURNAL_DIRECTORY,
)
FORMAT_VERSION = 1


class OverlayCondition(enum.Enum):
    """What the state file says of an overlay."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"


class BrokerState(msgspec.Struct, frozen=True):
    """Where a broker listens and which process it is (several share one in one process)."""

    address: str
    pid: int | None


class OverlayState(msgspec.Struct, frozen=True):
    """The content of ``overlay.json``."""

    overlay: str
    condition: OverlayCondition
    pid: int
    started_at: float
    strategy: str
    brokers: dict[BrokerId, BrokerState]
    links: list[tuple[BrokerId, BrokerId]]
    stopped_at: float | None = None
    zookeeper: str | None = None
    """Where plans for it are kept, as ``--zookeeper`` takes it; never with a login."""
    security: str | None = None
    """The directory that secures it; None: it is open."""
    format_version: int = FORMAT_VERSION


class RunDirectory:
    """A run directory claimed by this process until `release`."""

    def __init__(self, path: Path) -> None:
        """OverlayError if another overlay lives there, OSError if it cannot be written."""
        self.path = path
        self.telemetry = path / TELEMETRY_DIRECTORY
        self.zookeeper = path / ZOOKEEPER_DIRECTORY
        """All that an embedded ZooKeeper has; for this user only."""
        self.zookeeper_auth = path / ZOOKEEPER_AUTH_FILE
        """The login at an embedded ZooKeeper."""
        self._logs = path / LOG_DIRECTORY
        path.mkdir(parents=True, exist_ok=True)
        self._lock = self._claim()
        try:
            self._set_earlier_aside()
            self._logs.mkdir(exist_ok=True)
        except BaseException:
            self._lock.close()
            raise

    def log_file(self, broker: BrokerId) -> Path:
        # Ids are free text; the number keeps apart what the replacement makes equal.
        readable = re.sub(r"[^A-Za-z0-9_.-]", "-", broker).lstrip(".")[:100]
        suffix = "" if readable == broker else f"-{broker.encode().hex()[:40]}"
        return self._logs / f"{readable}{suffix}.log"

    def last_log_lines(self, broker: BrokerId, count: int = 10) -> list[str]:
        """The end of a broker's log, for the message that it died."""
        try:
            with self.log_file(broker).open(errors="replace") as log:
                return [line.rstrip("\n") for line in deque(log, maxlen=count)]
        except OSError:
            return []

    def write(self, state: OverlayState) -> None:
        """Replace the state file; it is never seen half written."""
        content = msgspec.json.format(msgspec.json.encode(state), indent=2)
        scratch = self.path / f".{STATE_FILE}.{os.getpid()}.tmp"
        scratch.write_bytes(content + b"\n")
        scratch.replace(self.path / STATE_FILE)

    def release(self) -> None:
        self._lock.close()

    def _claim(self) -> IO[str]:
        lock = (self.path / LOCK_FILE).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise OverlayError(self._refusal()) from None
        return lock

    def _refusal(self) -> str:
        whose = "another process"
        with contextlib.suppress(OverlayError):
            whose = f"process {read_state(self.path).pid}"
        return (
            f"an overlay is running in {self.path} ({whose}): "
            "stop it with Ctrl-C there, or choose another --run-dir"
        )

    def _set_earlier_aside(self) -> None:
        left = [entry for name in _LEFT_BEHIND if (entry := self.path / name).exists()]
        if not left:
            return
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(left[0].stat().st_mtime))
        aside = self.path / EARLIER_DIRECTORY / when
        number = 1
        while aside.exists():
            number += 1
            aside = aside.with_name(f"{when}-{number}")
        aside.mkdir(parents=True)
        for entry in left:
            entry.rename(aside / entry.name)


def read_state(directory: Path) -> OverlayState:
    """The state of the overlay in a run directory; OverlayError says what to do without one."""
    path = directory / STATE_FILE
    try:
        state = msgspec.json.decode(path.read_bytes(), type=OverlayState)
    except FileNotFoundError:
        raise OverlayError(
            f"no overlay in {directory}: start one with 'pubweave up', or name its --run-dir "
            "or an --address"
        ) from None
    except OSError as error:
        raise OverlayError(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise OverlayError(f"{path}: {error}; start the overlay again to renew it") from None
    if state.format_version > FORMAT_VERSION:
        raise OverlayError(
            f"{path}: format_version {state.format_version} is newer than this pubweave's "
            f"{FORMAT_VERSION}: use the newer version"
        )
    return state


def read_live_state(directory: Path) -> OverlayState:
    """The same for who needs the overlay to run; OverlayError if it was stopped."""
    state = read_state(directory)
    if state.condition is OverlayCondition.STOPPED:
        raise OverlayError(
            f"the overlay in {directory} was stopped: start it again with 'pubweave up', or name "
            "another --run-dir or an --address"
        )
    return state


def read_store_login(run_dir: Path, state: OverlayState) -> str | None:
    """The login at the ZooKeeper of an overlay: that of its own server, or that of its security
    directory; None if it has none."""
    own = run_dir / ZOOKEEPER_AUTH_FILE
    if own.exists():
        return read_secret(own)
    return None if state.security is None else SecurityDirectory(Path(state.security)).store_login()
