"""A run: one world and one overlay, the faults that strike them, and the parts that live there.

Each part is an object of its own: clients, brokers that come and go, plans that are carried out,
checkers. The phases are the same whatever the parts are: the start, then rounds of activity under
faults, each with a rest in which everything must have come and be true, and a burst of publications
whose receivers the truth alone names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.generate.topologies.latencies import Matrix
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.kernel.clocks import Clock
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.faults import FaultRates, Faults
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker
from pubweave.sim.kernel.rare_faults import NO_RARE_FAULTS, RARE, RareFaults, SmallLimits
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.base import SimOverlay

TelemetrySink = Callable[[str, Any, float], None]
REST_LIMIT_S = 180.0


@dataclass(frozen=True)
class Options:
    """What whoever starts a run may choose."""

    max_brokers: int
    rtt: Matrix | None = None
    """Round-trip times that latencies of links are taken from."""
    fault: str | None = None
    """What fails; None: drawn from the seed."""
    durability: str = "memory"
    """With ``journal`` brokers come back from their disks, and crashes excuse nothing."""
    strategy: str | None = None
    """How brokers route; None: drawn from the seed, or the scenario's own."""
    pause_s: tuple[float, float] | None = None
    """Brokers also stop for so long."""
    trace: Trace | None = None
    on_telemetry: TelemetrySink | None = None

    @property
    def is_durable(self) -> bool:
        return self.durability == "journal"


@dataclass(frozen=True)
class Setting:
    """What one run is like, drawn from its seed: what runs of every scenario have."""

    topology: Topology
    limits: SessionLimits
    handling: HandlingTime
    faults: FaultRates
    clients: int
    rounds: int
    round_s: float
    actions_per_round: int

    def describe(self) -> dict[str, Any]:
        """The setting for whoever reads of a failed run."""
        return {"brokers": len(self.topology.brokers), "clients": self.clients}


def with_disk_faults(rates: FaultRates) -> FaultRates:
    """Brokers with journals crash in every run, and their disks fail."""
    return replace(
        rates,
        broker_crash_per_s=max(rates.broker_crash_per_s, 0.3),
        boundary_crash_per_s=0.5,
        snapshot_crash_per_s=0.2,
        disk_full_per_s=0.1,
        disk_error_per_s=0.15,
        disk_slow_per_s=0.2,
    )


class SimPart:
    """Something that goes on in a run beside others. Each method does nothing by itself."""

    first_look_s = 0.0
    look_every_s = 0.25
    """When it is looked whether the run is at rest, if this part is the workload."""

    def start(self) -> None:
        """The run begins."""

    def begin(self, end: float) -> None:
        """A stretch of activity begins: schedule what is to happen until its end."""

    def crashed(self, broker: SimBroker) -> None:
        """A fault is about to crash a broker."""

    def stop(self) -> bool:
        """All is to come to rest: end what goes on; False if it does not end."""
        return True

    def at_rest(self) -> Iterable[str]:
        """The overlay is at rest: what is wrong, in words."""
        return ()

    def stuck(self) -> Iterable[str]:
        """The overlay does not come to rest: what this part knows of the reason."""
        return ()

    def before_burst(self) -> None:
        """All is true and at rest, and a burst of publications is next."""

    def settings(self) -> dict[str, Any]:
        """What the run is like, beside what `Setting.describe` says."""
        return {}

    def violations(self) -> Iterable[str]:
        """What went wrong, when the run is over."""
        return ()

    def counts(self) -> dict[str, int]:
        """What was counted."""
        return {}

    def measures(self) -> dict[str, float]:
        """What was measured; units last in the names."""
        return {}

    # --- of the workload: the part that has the clients ------------------------------------

    def is_quiet(self) -> bool:
        """Whether nothing is under way beside what the overlay knows of."""
        return True

    def burst(self) -> None:
        """Publish at rest: who must get it is known without looking at any table."""

    def after_burst(self) -> Iterable[str]:
        """The burst must have arrived: what is wrong, in words."""
        return ()


class SimRun:
    """One run. Whoever makes it adds parts and rounds; `run` may be called once."""

    def __init__(
        self,
        name: str,
        world: World,
        options: Options,
        setting: Setting,
        kind: Callable[..., SimOverlay],
        config: Callable[[BrokerId], BrokerConfig],
        *,
        latency_s: Callable[[Link], float] | None = None,
        spare: Collection[BrokerId] = (),
        spared: Collection[str] = (),
    ) -> None:
        """``kind`` makes the overlay: `TreeOverlay`, `TopicOverlay` or another one with the same
        keywords. ``latency_s``: of links that the topology did not have when the run began;
        ``spare``: brokers beside those of the topology; ``spared``: rare faults that the run has
        only if it is asked for them."""
        self.name = name
        self.world = world
        self.is_durable = options.is_durable
        if self.is_durable:
            setting = replace(setting, faults=with_disk_faults(setting.faults))
        self.rare = _draw_rare(world, options, setting, spared)
        if "clocks" in self.rare.kinds:
            world.draw_clock = partial(Clock.draw, world)
        if "small_limits" in self.rare.kinds:
            small = SmallLimits.draw(world)
            setting, usual = replace(setting, limits=small.limits), config

            def config(broker: BrokerId) -> BrokerConfig:
                return small.of(usual(broker))

        self.setting = setting
        self.overlay = kind(
            world,
            setting.topology,
            make_config=config,
            handling=setting.handling,
            on_telemetry=options.on_telemetry,
            latency_s=latency_s,
            spare=spare,
            disk=DiskSetting.draw(world) if self.is_durable else None,
        )
        self.living = list(self.overlay.brokers.values())
        """Brokers that faults may strike."""
        self.faults = Faults(
            world,
            setting.faults,
            self.living,
            self.overlay.paths,
            on_crash=self.crashed,
            rare=self.rare,
        )
        self.faults.long_pause_s = options.pause_s
        self.violations: list[str] = []
        self.homes: Callable[[], list[BrokerId]] = lambda: list(self.overlay.brokers)
        """Where clients may attach."""
        self.workload = SimPart()
        self.parts: list[SimPart] = []
        self.starts_at_rest = False
        """The overlay has to come to rest before the first round."""
        self.rounds: Sequence[Callable[[], object]] = [self.be_active] * setting.rounds
        """What a round consists of; it ends the run by returning False."""

    def compose(self, workload: SimPart, *parts: SimPart) -> None:
        """Set the parts, in the order in which they begin and act: the workload is last."""
        self.workload = workload
        self.parts = [*parts, workload]

    def run(self) -> RunResult:
        for part in self.parts:
            part.start()
        if not self.starts_at_rest or self.come_to_rest():
            for go_round in self.rounds:
                if go_round() is False or not self.come_to_rest():
                    break
                self.burst()
        return self.result()

    # --- phases ----------------------------------------------------------------------------

    def be_active(self) -> None:
        """A stretch of random activity under faults."""
        end = self.world.now + self.setting.round_s
        for part in self.parts[:-1]:
            part.begin(end)
        self.faults.strike_until(end)
        self.workload.begin(end)
        self.world.run_until(end)

    def come_to_rest(self) -> bool:
        """Everything heals and comes to rest, and then it must be as it should be."""
        for part in self.parts[:-1]:
            if not part.stop():
                return self._is_stuck()
        self.faults.heal()
        self.workload.stop()
        if not self.becomes_quiet():
            return self._is_stuck()
        for part in reversed(self.parts):
            for problem in part.at_rest():
                self.violate(problem)
        cores = ((client.name, client.core) for client in self.overlay.clients.values())
        self.overlay.limits.at_rest(cores, self.world.now)
        return True

    def becomes_quiet(self) -> bool:
        """Whether the overlay comes to rest in time."""
        world, workload = self.world, self.workload
        until = world.now + REST_LIMIT_S
        if workload.first_look_s:
            world.run_until(world.now + workload.first_look_s)
        while world.now < until:
            world.run_until(world.now + workload.look_every_s)
            if self.overlay.is_quiet() and workload.is_quiet():
                return True
        self.violate("the overlay does not come to rest")
        return False

    def _is_stuck(self) -> bool:
        for part in self.parts:
            for reason in part.stuck():
                self.violate(reason)
        return False

    def burst(self) -> None:
        for part in self.parts:
            part.before_burst()
        self.workload.burst()
        if self.becomes_quiet():
            for problem in self.workload.after_burst():
                self.violate(problem)

    def crashed(self, broker: SimBroker) -> None:
        """A fault is about to crash a broker: whoever began last hears of it first."""
        for part in reversed(self.parts):
            part.crashed(broker)

    def violate(self, text: str) -> None:
        self.violations.append(f"{self.world.now:.3f} {text}")

    # --- outcome ---------------------------------------------------------------------------

    def result(self) -> RunResult:
        """What came of the run, all parts together."""
        settings = self.setting.describe()
        violations = [*self.violations, *self.overlay.limits.violations]
        settings["rare"] = self.rare.kinds
        counts: dict[str, int] = {}
        measures: dict[str, float] = {}
        for part in reversed(self.parts):
            violations += part.violations()
            counts |= part.counts()
            measures |= part.measures()
            settings |= part.settings()
        trace = self.world.trace
        return RunResult(
            scenario=self.name,
            seed=self.world.seed,
            violations=tuple(violations),
            setting=settings,
            counts={**counts, "events": self.world.steps, **self.faults.counts},
            measures=measures,
            virtual_s=round(self.world.now, 3),
            trace_digest=trace.digest() if trace is not None else None,
        )


def _draw_rare(
    world: World, options: Options, setting: Setting, spared: Collection[str]
) -> RareFaults:
    """Where nothing fails, or one usual kind alone is to, nothing rare does."""
    if setting.faults.are_quiet or options.fault not in (None, *RARE):
        return NO_RARE_FAULTS
    return RareFaults.draw(world, options.fault, spared)
