"""One run of POP's and GRAPE's evaluation: real cores in virtual time, measured at its end.

Brokers trace, select and migrate by themselves; nothing here helps them. Every delivery is
expected beforehand (three filters per symbol), so that what is lost or doubled is seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.core.config.session import SessionLimits
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.relocation.relocator import Relocator
from pubweave.core.vocabulary.effects import FollowRedirect, ReportMove
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.experiments.grape.setting import GrapeSetting, StockWorld
from pubweave.generate.workloads.clients import Content
from pubweave.generate.workloads.stocks import Distribution, StockPublisher
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, Link
from pubweave.model.publications import Publication
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay

HANDLING = HandlingTime(per_message_s=0.0005, per_match_s=0.002)
"""What a Java broker of 2009 on a shared machine is taken to need."""
SETTLING_S = 120.0
"""At most so long until all tables stand; traffic begins then."""
TIMELINE_S = 20.0
"""Figure 6 shows figures of pieces of this length."""
BASELINE, POP = "baseline", "pop"
WITH_SUBSCRIBERS = "+subscribers"
"""At the end of a variant's name: subscribers move, too."""
ROOM = 1.5
"""So many times its share of all clients a broker has room for."""


def relocation_of(
    variant: str, threshold: int = 100, setting: GrapeSetting | None = None
) -> RelocationConfig:
    """The brokers' setting: ``baseline``, ``pop``, or GRAPE's ``load75``, ``delay100`` and so on.

    With another threshold POP traces at most half of it in a window, as the paper does (5.2)."""
    used = setting or GrapeSetting()
    with_subscribers = variant.endswith(WITH_SUBSCRIBERS)
    variant = variant.removesuffix(WITH_SUBSCRIBERS)
    if variant == BASELINE:
        return RelocationConfig()
    if variant == POP:
        return RelocationConfig(
            RelocationMode.POP,
            pop_window_s=used.pop_window_s,
            pop_most_traced=max(1, threshold // 2),
            pop_threshold=threshold,
            least_gain=used.least_gain,
            rest_s=used.rest_s,
        )
    name = variant.rstrip("0123456789")
    preference = Preference(Priority(name), float(variant.removeprefix(name)))
    clients = used.publishers * (1 + used.subscribers)
    return RelocationConfig(
        RelocationMode.GRAPE,
        preference,
        grape_threshold=threshold,
        subscribers=with_subscribers,
        most_clients=math.ceil(ROOM * clients / used.brokers),
        least_gain=used.least_gain,
        rest_s=used.rest_s,
    )


@dataclass(frozen=True)
class Figures:
    """Averages over a stretch of time."""

    message_rate: float
    """Messages per second that a broker takes in, publications and all others."""
    input_utilization: float
    """The share of its time that a broker needs for them."""
    delay_ms: float
    hops: float
    """Brokers that a delivery has passed."""


@dataclass(frozen=True)
class RunOutcome:
    """What one run came to."""

    variant: str
    distribution: str
    spread: int
    threshold: int
    seed: int
    end: Figures
    overhead: float
    """Messages that are no publications, of all that brokers took in, over the whole run."""
    publications: int
    """That brokers took in, over the whole run."""
    trace_messages: int
    """Of traces, selections and rounds."""
    migration_messages: int
    """Of migrations; what is left of the overhead are subscriptions that follow the moves."""
    memory_bytes: float
    """The most that a broker's traces occupied at a time, on average over brokers."""
    moves: int
    waits: tuple[tuple[int, float], ...]
    """Of each migration: its hops, and the publisher's wait in seconds."""
    selections: int
    selection_s: float
    """Mean time from the end of a trace to the decision."""
    lost: int
    doubled: int
    timeline: tuple[Figures, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class GrapeTask:
    """One run of a figure."""

    setting: GrapeSetting
    variant: str
    distribution: Distribution
    spread: int
    threshold: int
    seed: int
    data: Path | None
    with_timeline: bool = False


class StockOverlay(TreeOverlay):
    """An overlay that counts deliveries instead of checking each."""

    def watch(self, world: StockWorld) -> None:
        self.hops_from = {b: world.topology.hops_from(b) for b in world.brokers}
        self.delay_s = self.hops = 0.0
        self.delivered = self.doubled = 0
        self.waits: list[tuple[int, float]] = []
        self._last: dict[tuple[str, str], int] = {}

    def _on_notification(self, client: SimClient, publication: Publication) -> None:
        pair = (client.name, publication.publisher)
        if publication.sequence <= self._last.get(pair, 0):
            self.doubled += 1
            return
        self._last[pair] = publication.sequence
        self.delivered += 1
        self.delay_s += self.world.now - publication.published_at
        publisher_at = self.clients[publication.publisher].home.name
        self.hops += 1 + self.hops_from[publisher_at][client.home.name]

    def _on_move(self, client: SimClient, effect: FollowRedirect | ReportMove) -> None:
        super()._on_move(client, effect)
        if isinstance(effect, ReportMove):
            self.waits.append((effect.hops, effect.wait_s))


class StockRun:
    """One variant in one world."""

    def __init__(self, world: StockWorld, task: GrapeTask) -> None:
        self.world = world
        self.task = task
        config = relocation_of(task.variant, task.threshold, task.setting)
        self.overlay = StockOverlay(
            World(task.seed),
            world.topology,
            make_config=lambda name: BrokerConfig(name, relocation=config),
            handling=HANDLING,
            latency_s=lambda link: self._one_way_s(link),
        )
        self.overlay.watch(world)
        self._expected = 0
        self._memory = dict.fromkeys(self.overlay.brokers, 0)
        self._join()

    def _one_way_s(self, link: Link) -> float:
        return self.world.client_ms(link.a, link.b) / 1000.0

    # --- clients ---------------------------------------------------------------------------

    def _join(self) -> None:
        workload = self.world.workload
        for publisher in workload.publishers:
            client = self._attach(publisher.client, publisher.broker, publisher.broker)
            for filter_ in publisher.advertisements:
                client.core.advertise(filter_)
            client.flush()
        for subscriber in workload.subscribers:
            machine = self.world.machine_of(subscriber.symbol)
            client = self._attach(subscriber.client, subscriber.broker, machine)
            self.overlay.subscribe(client, subscriber.filter)
            client.flush()

    def _attach(self, name: str, home: BrokerId, machine: BrokerId) -> SimClient:
        distance_s = {b: self.world.client_ms(machine, b) / 1000.0 for b in self.world.brokers}
        self.overlay.join(name, home, latency_s=distance_s[home], limits=SessionLimits())
        client = self.overlay.clients[name]
        client.latency_to = distance_s.__getitem__
        return client

    def _publish(
        self, publisher: StockPublisher, contents: Iterator[Content], until: float
    ) -> None:
        """One quote now, the next after a second."""
        now = self.overlay.world.now
        if now >= until:
            return
        topic, attributes = next(contents)
        client = self.overlay.clients[publisher.client]
        publication = client.core.publish(topic, attributes, b"", now)
        client.flush()
        wanted = self._wanted[publisher.symbol]
        self._expected += sum(count for f, count in wanted.items() if f.matches(publication))
        self.overlay.world.after(
            1.0 / publisher.rate_per_s, self._publish, publisher, contents, until
        )

    def _count_filters(self) -> dict[str, dict[Filter, int]]:
        wanted: dict[str, dict[Filter, int]] = {}
        for subscriber in self.world.workload.subscribers:
            of_symbol = wanted.setdefault(subscriber.symbol, {})
            of_symbol[subscriber.filter] = of_symbol.get(subscriber.filter, 0) + 1
        return wanted

    # --- the run ---------------------------------------------------------------------------

    def play(self) -> RunOutcome:
        """Let it run to its end."""
        overlay, setting = self.overlay, self.task.setting
        if not overlay.run_until_quiet(SETTLING_S):
            raise RuntimeError("the overlay has not settled")
        self._wanted = self._count_filters()
        until = overlay.world.now + setting.duration_s
        before = self._counted()
        workload = self.world.workload
        for number, publisher in enumerate(workload.publishers):
            offset_s = number / len(workload.publishers) / publisher.rate_per_s
            contents = workload.publications(publisher)
            overlay.world.after(offset_s, self._publish, publisher, contents, until)
        timeline = [
            self._pass(TIMELINE_S)
            for _ in range(int((setting.duration_s - setting.measured_s) / TIMELINE_S))
        ]
        end = self._pass(until - overlay.world.now)
        after = self._counted()
        timeline.append(end)
        overlay.run_until_quiet(SETTLING_S)
        return self._outcome(before, after, end, tuple(timeline) if self.task.with_timeline else ())

    def _pass(self, seconds: float) -> Figures:
        """Let time pass; the averages of it."""
        overlay = self.overlay
        messages, publications = self._counted()
        delay_s, hops, delivered = overlay.delay_s, overlay.hops, overlay.delivered
        until = overlay.world.now + seconds
        while overlay.world.now < until:
            overlay.world.run_until(min(until, overlay.world.now + 5.0))
            self._note_memory()
        messages = self._counted()[0] - messages
        publications = self._counted()[1] - publications
        busy_s = HANDLING.per_message_s * messages + HANDLING.per_match_s * publications
        share = 1.0 / (seconds * len(overlay.brokers))
        count = max(1, overlay.delivered - delivered)
        return Figures(
            message_rate=messages * share,
            input_utilization=busy_s * share,
            delay_ms=1000.0 * (overlay.delay_s - delay_s) / count,
            hops=(overlay.hops - hops) / count,
        )

    def _counted(self) -> tuple[int, int]:
        """Messages and, of those, publications that all brokers have taken in."""
        counters = [node.broker.counters for node in self.overlay.brokers.values()]
        return sum(c.messages_in for c in counters), sum(c.publications_in for c in counters)

    def _note_memory(self) -> None:
        for name, node in self.overlay.brokers.items():
            relocator = node.broker.part(Relocator)
            assert relocator is not None
            self._memory[name] = max(self._memory[name], relocator.counted().memory_bytes)

    def _outcome(
        self,
        before: tuple[int, int],
        after: tuple[int, int],
        end: Figures,
        timeline: tuple[Figures, ...],
    ) -> RunOutcome:
        overlay = self.overlay
        messages, publications = after[0] - before[0], after[1] - before[1]
        brokers = [node.broker for node in overlay.brokers.values()]
        relocators = [broker.part(Relocator) for broker in brokers]
        statuses = [relocator.counted() for relocator in relocators if relocator is not None]
        migrations = [broker.part(MigrationCoordinator) for broker in brokers]
        decided = sum(status.decided for status in statuses)
        return RunOutcome(
            variant=self.task.variant,
            distribution=self.task.distribution.value,
            spread=self.task.spread,
            threshold=self.task.threshold,
            seed=self.task.seed,
            end=end,
            overhead=(messages - publications) / messages,
            publications=publications,
            trace_messages=sum(status.messages_out for status in statuses),
            migration_messages=sum(
                coordinator.counted().messages_out
                for coordinator in migrations
                if coordinator is not None
            ),
            memory_bytes=sum(self._memory.values()) / len(self._memory),
            moves=len(overlay.waits),
            waits=tuple(overlay.waits),
            selections=decided,
            selection_s=sum(s.deciding_s for s in statuses) / max(1, decided),
            lost=self._expected - overlay.delivered,
            doubled=overlay.doubled,
            timeline=timeline,
        )
