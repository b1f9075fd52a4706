"""Faults by name, each with its magnitude in units, drawn from the run's seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pubweave.sim.kernel.network import SimLink
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.world import World


@dataclass(frozen=True)
class FaultRates:
    """How often each fault strikes in the whole overlay, per second of virtual time."""

    connection_drop_per_s: float = 0.5
    delay_spike_per_s: float = 0.1
    delay_spike_ms: tuple[float, float] = (50.0, 500.0)
    partition_per_s: float = 0.05
    partition_s: tuple[float, float] = (0.5, 8.0)
    broker_pause_per_s: float = 0.05
    broker_pause_s: tuple[float, float] = (0.1, 2.0)
    broker_crash_per_s: float = 0.0
    broker_down_s: tuple[float, float] = (0.1, 4.0)
    boundary_crash_per_s: float = 0.0
    """Crashes between two effects of a broker."""
    snapshot_crash_per_s: float = 0.0
    """Crashes while a broker's next snapshot is being written."""
    disk_full_per_s: float = 0.0
    disk_full_s: tuple[float, float] = (0.2, 3.0)
    disk_error_per_s: float = 0.0
    disk_error_s: tuple[float, float] = (0.1, 2.0)
    disk_slow_per_s: float = 0.0
    disk_slow_s: tuple[float, float] = (0.05, 1.0)


QUIET = FaultRates(0.0, 0.0, (0.0, 0.0), 0.0, (0.0, 0.0), 0.0, (0.0, 0.0), 0.0, (0.0, 0.0))
"""Nothing is broken on purpose."""
LONG_PAUSES = 3
"""How many a run has at most, in different stretches of its time."""


class Faults:
    """Strikes brokers and links of one run until told to stop."""

    def __init__(
        self,
        world: World,
        rates: FaultRates,
        brokers: list[SimBroker],
        links: list[SimLink],
        *,
        on_crash: Callable[[SimBroker], None],
    ) -> None:
        self._world = world
        self._rates = rates
        self._brokers = brokers
        self._links = links
        self._on_crash = on_crash
        self._until = 0.0
        self.long_pause_s: tuple[float, float] | None = None
        """For how long brokers stop besides; None: they do not."""
        self._long_pauses_left = LONG_PAUSES
        self.counts: dict[str, int] = {}

    def strike_until(self, instant: float) -> None:
        """Schedule the faults of the coming stretch of time."""
        self._until = instant
        rates = self._rates
        for rate, fault in (
            (rates.connection_drop_per_s, self._drop_connection),
            (rates.delay_spike_per_s, self._spike_delay),
            (rates.partition_per_s, self._partition),
            (rates.broker_pause_per_s, self._pause_broker),
            (rates.broker_crash_per_s, self._crash_broker),
            (rates.boundary_crash_per_s, self._crash_at_boundary),
            (rates.snapshot_crash_per_s, self._crash_in_snapshot),
            (rates.disk_full_per_s, self._fill_disk),
            (rates.disk_error_per_s, self._break_disk),
            (rates.disk_slow_per_s, self._slow_disk),
        ):
            expected = rate * (instant - self._world.now)
            for _ in range(int(self._world.rng.poisson(expected))):
                self._world.at(self._world.uniform(self._world.now, instant), fault)

        if self.long_pause_s is not None and self._long_pauses_left:
            self._long_pauses_left -= 1
            self._world.at(self._world.uniform(self._world.now, instant), self._sleep)

    def heal(self) -> None:
        """End what still lasts."""
        for link in self._links:
            link.extra_s = 0.0
            link.cut_until = min(link.cut_until, self._world.now)
        for broker in self._brokers:
            broker.crash_in = None
            if broker.journal is not None:
                broker.journal.disk.heal()
                broker.journal.on_snapshot = None
            if not broker.is_up():
                broker.start()

    def _count(self, name: str, text: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        self._world.note("fault", f"{name} {text}")

    def _drop_connection(self) -> None:
        if not self._links:
            return
        link = self._world.choice(self._links)
        if link.connection is not None and not link.connection.is_dropped:
            ends = "-".join(end.name for end in link.connection.ends)
            self._count("connection_drop", ends)
            self._brokers[0].network.drop(link.connection)

    def _spike_delay(self) -> None:
        if not self._links:
            return
        link = self._world.choice(self._links)
        link.extra_s = self._world.uniform(*self._rates.delay_spike_ms) / 1000.0
        self._count("delay_spike", f"{link.extra_s:.3f} s")
        self._world.after(self._world.uniform(0.2, 2.0), self._end_spike, link)

    def _end_spike(self, link: SimLink) -> None:
        link.extra_s = 0.0

    def _partition(self) -> None:
        if not self._links:
            return
        link = self._world.choice(self._links)
        lasts_s = self._world.uniform(*self._rates.partition_s)
        link.cut_until = self._world.now + lasts_s
        self._count("partition", f"{lasts_s:.3f} s")

    def _sleep(self) -> None:
        assert self.long_pause_s is not None
        self._pause(self._world.uniform(*self.long_pause_s))

    def _pause_broker(self) -> None:
        self._pause(self._world.uniform(*self._rates.broker_pause_s))

    def _pause(self, lasts_s: float) -> None:
        broker = self._world.choice(self._brokers)
        broker.busy_until = max(broker.busy_until, self._world.now + lasts_s)
        self._count("broker_pause", f"{broker.name} {lasts_s:.3f} s")

    def _crash_broker(self) -> None:
        self._crash(self._world.choice(self._brokers))

    def _crash_at_boundary(self) -> None:
        """Between two effects of whatever the broker does next."""
        broker = self._world.choice(self._brokers)
        broker.on_boundary = self._crash
        broker.crash_in = self._world.integer(1, 12)

    def _crash_in_snapshot(self) -> None:
        broker = self._world.choice(self._brokers)
        if broker.journal is not None:
            broker.journal.on_snapshot = lambda takes_s: self._world.after(
                self._world.uniform(0.0, takes_s), self._crash, broker
            )

    def _fill_disk(self) -> None:
        journal = self._world.choice(self._brokers).journal
        if journal is not None:
            lasts_s = self._world.uniform(*self._rates.disk_full_s)
            journal.disk.full_until = self._world.now + lasts_s
            journal.disk.room = self._world.choice([0, 1 << 8, 1 << 12, 1 << 16])
            self._count("disk_full", f"{lasts_s:.3f} s, {journal.disk.room} bytes left")

    def _break_disk(self) -> None:
        journal = self._world.choice(self._brokers).journal
        if journal is not None:
            lasts_s = self._world.uniform(*self._rates.disk_error_s)
            journal.disk.failing_until = self._world.now + lasts_s
            self._count("disk_error", f"{lasts_s:.3f} s")

    def _slow_disk(self) -> None:
        journal = self._world.choice(self._brokers).journal
        if journal is not None:
            journal.disk.slow_until = self._world.now + self._world.uniform(0.2, 2.0)
            journal.disk.slow_s = self._world.uniform(*self._rates.disk_slow_s)
            self._count("disk_slow", f"{journal.disk.slow_s:.3f} s")

    def _crash(self, broker: SimBroker) -> None:
        if not broker.is_up():
            return
        down_s = self._world.uniform(*self._rates.broker_down_s)
        self._count("broker_crash", f"{broker.name} {down_s:.3f} s")
        self._on_crash(broker)
        broker.crash()
        self._world.after(down_s, self._restart, broker)

    def _restart(self, broker: SimBroker) -> None:
        if not broker.is_up() and broker in self._brokers:
            broker.start()
