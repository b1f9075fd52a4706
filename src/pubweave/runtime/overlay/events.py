"""What an overlay is told at its start, and what it tells of itself: plain values."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from pubweave.model.ids import BrokerId
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget


@dataclass(frozen=True)
class BrokerDied:
    """A broker's process ended by itself; it is started again unless ``restart_in_s`` is None."""

    broker: BrokerId
    pid: int
    exit_code: int
    log_lines: tuple[str, ...]
    restart_in_s: float | None

    def __str__(self) -> str:
        how = f"with code {self.exit_code}"
        if self.exit_code < 0:
            how = f"by {signal.Signals(-self.exit_code).name}"
        after = "" if self.restart_in_s is None else f", restarting in {self.restart_in_s:.1f} s"
        lines = "".join(f"\n  {line}" for line in self.log_lines)
        return f"broker {self.broker} (process {self.pid}) ended {how}{after}{lines}"


@dataclass(frozen=True)
class BrokerRestarted:
    """A broker that had died listens again."""

    broker: BrokerId
    pid: int

    def __str__(self) -> str:
        return f"broker {self.broker} listens again (process {self.pid})"


@dataclass(frozen=True)
class StoreTrouble:
    """The overlay's own ZooKeeper died or came back; brokers route on meanwhile."""

    text: str

    def __str__(self) -> str:
        return self.text


OverlayEvent = BrokerDied | BrokerRestarted | StoreTrouble


@dataclass(frozen=True)
class StoreChoice:
    """Have a store: an existing ensemble, or (None) an embedded one."""

    target: ZooKeeperTarget | None = None


@dataclass(frozen=True)
class StartProgress:
    """How far a start has come."""

    listening: int
    brokers: int
    links_up: int
    links: int
