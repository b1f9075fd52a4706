"""Faults by name, each with its magnitude in units, drawn from the run's seed.

What strikes often is here; `rare_faults` says what strikes few runs, and `second_faults` what
strikes where something is under way already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from pubweave.core.vocabulary.rare_branches import sometimes
from pubweave.sim.kernel.marks import RunBranch
from pubweave.sim.kernel.network import SimLink
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.rare_faults import NO_RARE_FAULTS, RareFaults
from pubweave.sim.kernel.second_faults import under_way
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

    @property
    def are_quiet(self) -> bool:
        """Whether nothing strikes at all."""
        return not any(getattr(self, f.name) for f in fields(self) if f.name.endswith("_per_s"))


QUIET = FaultRates(0.0, 0.0, (0.0, 0.0), 0.0, (0.0, 0.0), 0.0, (0.0, 0.0), 0.0, (0.0, 0.0))
"""Nothing is broken on purpose."""
LOOK_AGAIN_S = 0.1
ON_THE_WAY_S = 0.1
"""So long what a client says may be on its way to a broker."""
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
        rare: RareFaults = NO_RARE_FAULTS,
    ) -> None:
        self._world = world
        self._rates = rates
        self._rare = rare
        self._brokers = brokers
        self._links = links
        self._on_crash = on_crash
        self._until = 0.0
        self.long_pause_s: tuple[float, float] | None = None
        """For how long brokers stop besides; None: they do not."""
        self._long_pauses_left = LONG_PAUSES
        self._rare_pauses_left = rare.long_pauses
        self.lasts_until = 0.0
        """When the last cut of one direction or of a site ends."""
        self.counts: dict[str, int] = {}
        self.pauses: list[tuple[str, float, float]] = []
        """Which broker stopped, from when to when."""
        self.jumps: list[tuple[str, float, float]] = []
        """Which broker's clock jumped, when, and by how much."""
        self.sites: list[tuple[frozenset[str], float, float]] = []
        """Who was cut off from all others, from when to when."""

    def jumped_s(self, broker: str, since: float) -> float:
        """By how much a broker's clock has jumped, but for those that restarts bring."""
        return sum(by for name, at, by in self.jumps if name == broker and at >= since)

    def cuts(self, one: str, other: str) -> list[tuple[float, float]]:
        """When one of two was at a site that was away, and the other was not."""
        return [(at, to) for names, at, to in self.sites if (one in names) != (other in names)]

    def is_asleep_at(self, instant: float) -> bool:
        """Whether a broker that had stopped did not run then."""
        return any(began_at <= instant < ended_at for _, began_at, ended_at in self.pauses)

    def heard_at(self, broker: str, client: str, said_at: float) -> float:
        """When a broker gets to what a client says, about: behind cuts and pauses."""
        pauses = [(at, to) for name, at, to in self.pauses if name == broker]
        for began_at, ended_at in sorted(pauses + self.cuts(broker, client)):
            if began_at <= said_at + ON_THE_WAY_S and said_at < ended_at:
                said_at = ended_at
        return said_at

    def strike_until(self, instant: float) -> None:
        """Schedule the faults of the coming stretch of time."""
        self._until = instant
        rates, rare = self._rates, self._rare
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
            (rare.long_pause_per_s, self._pause_long),
            (rare.one_way_cut_per_s, self._cut_one_way),
            (rare.site_away_per_s, self._take_site_away),
            (rare.clock_jump_per_s, self._jump_clock),
            (rare.second_fault_per_s, self._look_for_second),
        ):
            if not rate:
                continue
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
            link.deaf_until = min(link.deaf_until, self._world.now)
        network = self._brokers[0].network
        network.site_until = min(network.site_until, self._world.now)
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

    def _pause(self, lasts_s: float, broker: SimBroker | None = None) -> None:
        broker = broker or self._world.choice(self._brokers)
        broker.busy_until = max(broker.busy_until, self._world.now + lasts_s)
        self.pauses.append((broker.name, self._world.now, broker.busy_until))
        self._count("broker_pause", f"{broker.name} {lasts_s:.3f} s")

    def _pause_long(self) -> None:
        if self._rare_pauses_left:
            self._rare_pauses_left -= 1
            self._pause(self._world.uniform(*self._rare.long_pause_s))
            self._count("long_pause", "")

    def _cut_one_way(self) -> None:
        """One end of a link gets nothing; the other one gets everything, and nobody is told."""
        broker = self._world.choice(self._brokers)
        if not broker.links:
            return
        link, far = broker.links[self._world.choice(sorted(broker.links))]
        lasts_s = self._world.uniform(*self._rare.one_way_cut_s)
        link.deaf, link.deaf_until = broker.name, self._world.now + lasts_s
        self.lasts_until = max(self.lasts_until, link.deaf_until)
        self._count("one_way_cut", f"{broker.name} gets nothing from {far.name} {lasts_s:.3f} s")

    def _take_site_away(self) -> None:
        """Neighbors of neighbors, maybe with their clients, are cut off from all others."""
        network = self._brokers[0].network
        if network.site_until > self._world.now or len(self._brokers) < 2:
            return
        site = self._draw_site(self._world.integer(1, len(self._brokers) // 2))
        names = {broker.name for broker in site}
        if self._world.chance(0.5):
            ends = {
                end.name for broker in site for c in broker.connections.values() for end in c.ends
            }
            names |= ends - {broker.name for broker in self._brokers}
        lasts_s = self._world.uniform(*self._rare.site_away_s)
        network.site, network.site_until = frozenset(names), self._world.now + lasts_s
        self.sites.append((network.site, self._world.now, network.site_until))
        self.lasts_until = max(self.lasts_until, network.site_until)
        self._count("site_away", f"{' '.join(sorted(names))} {lasts_s:.3f} s")

    def _draw_site(self, size: int) -> list[SimBroker]:
        site = [self._world.choice(self._brokers)]
        for broker in site:  # grows meanwhile
            for name in sorted(broker.links):
                far = broker.links[name][1]
                if len(site) < size and far in self._brokers and far not in site:
                    site.append(far)
        return site

    def _jump_clock(self) -> None:
        broker = self._world.choice(self._brokers)
        seconds = self._world.uniform(*self._world.choice(list(self._rare.clock_jump_s)))
        self.jumps.append((broker.name, self._world.now, seconds))
        self._count("clock_jump", f"{broker.name} {seconds:.3f} s")
        core = broker.core
        if core is not None and any(link.unacked for link in core.sessions.links.values()):
            sometimes(RunBranch.JUMP_WITH_UNACKED)
        broker.clock_jumps(seconds)

    # --- in pairs --------------------------------------------------------------------------

    def _look_for_second(self) -> None:
        """Strike where the consequences of something are under way, as soon as there are any."""
        found = [(node, what) for node in self._brokers if (what := under_way(node))]
        if found:
            node, what = self._world.choice(found)
            self._strike_second(node, what)
        elif self._world.now + LOOK_AGAIN_S < self._until:
            self._world.after(LOOK_AGAIN_S, self._look_for_second)

    def _strike_second(self, node: SimBroker, what: str) -> None:
        """At a broker, or at a neighbor of one that is away already."""
        world, rates = self._world, self._rates
        near = [far for name in sorted(node.links) if (far := node.links[name][1]) in self._brokers]
        if near and (world.chance(0.4) or not node.is_up() or node.busy_until > world.now):
            node = world.choice(near)
        can_crash = rates.broker_crash_per_s or rates.boundary_crash_per_s
        self._count(f"second_in_{what}", node.name)
        sometimes(RunBranch[f"SECOND_IN_{what.upper()}"])
        dice = world.integer(0, 3 if can_crash else 2)
        if dice == 3:
            self._crash(node)
        elif dice == 2:
            self._pause(world.uniform(*self._rare.second_pause_s), node)
        else:
            connections = [c for c in node.connections.values() if not c.is_dropped]
            if connections:
                node.network.drop(world.choice(connections))

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
        if any(far.busy_until > self._world.now + 0.1 for _, far in broker.links.values()):
            sometimes(RunBranch.CRASH_BESIDE_PAUSED)
        self._count("broker_crash", f"{broker.name} {down_s:.3f} s")
        self._on_crash(broker)
        broker.crash()
        self._world.after(down_s, self._restart, broker)

    def _restart(self, broker: SimBroker) -> None:
        if not broker.is_up() and broker in self._brokers:
            broker.start()
