"""What strikes a run: resets, half-open connections, cuts, pauses of processes, crashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pubweave.drivers.overlay import DrivenBroker, DrivenOverlay
from pubweave.sim.eventloop.process import SimProcess
from pubweave.sim.kernel.world import World

LONG_S = (5.0, 25.0)
"""Longer than a neighbor may be silent, shorter than a client is remembered."""


@dataclass(frozen=True)
class FaultCounts:
    """How often each thing strikes in a round."""

    resets: int = 0
    half_open: int = 0
    cuts: int = 0
    pauses: int = 0
    crashes: int = 0
    long_share: float = 0.1
    """Of cuts and pauses."""

    @classmethod
    def draw(cls, world: World) -> FaultCounts:
        def some(most: int) -> int:
            return world.integer(1, most) if world.chance(0.6) else 0

        return cls(
            resets=some(8),
            half_open=some(3),
            cuts=some(4),
            pauses=some(4),
            crashes=world.integer(1, 2) if world.chance(0.4) else 0,
            long_share=world.choice([0.0, 0.1, 0.5]),
        )


class DriverFaults:
    """Strikes the processes and connections of an overlay and its clients."""

    def __init__(
        self,
        overlay: DrivenOverlay,
        clients: Callable[[], Sequence[SimProcess]],
        counts: FaultCounts,
        pause_s: tuple[float, float] | None = None,
    ) -> None:
        """``pause_s``: how long brokers are also stopped."""
        self.struck: Counter[str] = Counter()
        self._overlay = overlay
        self._loop = overlay.loop
        self._world = overlay.loop.world
        self._clients = clients
        self._counts = counts
        self._pause_s = pause_s

    def strike_until(self, end: float) -> None:
        """Draw when each thing happens."""
        counts, world = self._counts, self._world
        for count, what in (
            (counts.resets, self._reset),
            (counts.half_open, self._half_open),
            (counts.cuts, self._cut),
            (counts.pauses, self._pause),
            (counts.crashes, self._crash),
            (world.integer(1, 3) if self._pause_s is not None else 0, self._pause_broker),
        ):
            for _ in range(count):
                world.at(world.uniform(world.now, end), what)

    def heal(self) -> None:
        """End all of it."""
        self._loop.network.heal()
        for process in self._processes():
            process.go_on()
        for broker in self._overlay.brokers.values():
            if broker.is_down:
                self._overlay.restart(broker)

    def _processes(self) -> list[SimProcess]:
        brokers = [broker.process for broker in self._overlay.brokers.values()]
        return [*brokers, *self._clients()]

    def _duration(self) -> float:
        if self._world.chance(self._counts.long_share):
            return self._world.uniform(*LONG_S)
        return self._world.uniform(0.01, 2.0)

    def _note(self, what: str, text: str) -> None:
        self.struck[what] += 1
        self._world.note("fault", text)

    def _reset(self) -> None:
        """A box on the way forgets a connection and tells both ends, not always at once."""
        ends = self._loop.network.open_connections()
        if ends:
            end = self._world.choice(ends)
            self._note("resets", f"reset {end.process.name} - {end.far_end.process.name}")
            self._world.after(self._world.uniform(0.0, 0.01), end.break_off)
            self._world.after(self._world.uniform(0.0, 0.01), end.far_end.break_off)

    def _half_open(self) -> None:
        """One end hears of it, the other only when it sends."""
        ends = self._loop.network.open_connections()
        if ends:
            end = self._world.choice(ends)
            end = end if self._world.chance(0.5) else end.far_end
            self._note("half_open", f"half open: {end.process.name} is told")
            end.break_off()

    def _cut(self) -> None:
        ends = self._loop.network.open_connections()
        if ends:
            end = self._world.choice(ends)
            one, other = end.place[0], end.far_end.place[0]
            until = self._world.now + self._duration()
            ways = self._world.choice([((one, other),), ((other, one),), None])
            self._note("cuts", f"cut {ways or 'both ways'} {one} {other} until {until:.3f}")
            for source, target in ways or ((one, other), (other, one)):
                self._loop.network.cut(source, target, until)

    def _pause(self) -> None:
        process = self._world.choice(self._processes())
        until = self._world.now + self._duration()
        self._note("pauses", f"{process.name} is stopped until {until:.3f}")
        process.pause(until)

    def _pause_broker(self) -> None:
        assert self._pause_s is not None
        broker = self._world.choice(list(self._overlay.brokers.values()))
        until = self._world.now + self._world.uniform(*self._pause_s)
        self._note("pauses", f"{broker.process.name} is stopped until {until:.3f}")
        broker.process.pause(until)

    def _crash(self) -> None:
        up = [b for b in self._overlay.brokers.values() if not b.is_down and b.host is not None]
        if up:
            broker = self._world.choice(up)
            self.struck["crashes"] += 1
            self._overlay.crash(broker, with_machine=self._world.chance(0.5))
            self._world.after(self._world.uniform(0.05, 4.0), self._restart, broker)

    def _restart(self, broker: DrivenBroker) -> None:
        if broker.is_down:
            self._overlay.restart(broker)
