"""One simulated transformation of IPITT's evaluation (VI-A): its clients, a plan, what it cost.

The real brokers, agents and executor in virtual time (`sim.whatif.rehearsal`): publishers at the
root, subscribers at the leaves, nothing broken on purpose. The same input gives the same figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pubweave.core.vocabulary.events import Event, MessagesReceived
from pubweave.generate.topologies.latencies import draw_latencies
from pubweave.generate.workloads.ipitt import PUBLISHERS, RATE_PER_S, ipitt_workload, publications
from pubweave.model.ids import Link
from pubweave.model.messages.session import ShiftTables
from pubweave.model.plans import Plan
from pubweave.model.records.recorded_traffic import (
    RecordedClient,
    RecordedPublication,
    RecordedTraffic,
)
from pubweave.model.topology import Topology
from pubweave.sim.checkers.deployment import ActionHistory
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.parts.plan_costs import JudgedDelivery, percentile
from pubweave.sim.whatif.rehearsal import Rehearsal, RehearsalSetting

WINDOW_S = 20.0
"""So long is what publishers say before they repeat themselves."""
STORE_S = (0.001, 0.003)
"""One way to the store, which sits in the brokers' cluster as the paper's ZooKeeper does."""


@dataclass(frozen=True)
class TableTime(HandlingTime):
    """Handling that also takes time for routing tables that change hands.

    What lies between the last marker and the first publication let go (handing over, taking in,
    the slowest of the three switches) took the real core 35 us for each entry handed over and
    about 4 us for each subscription of the overlay, at 200, 1,000 and 3,000 subscribers (one core
    of a small server). All of it is charged to the new peer, while everybody holds."""

    per_entry_s: float = 35e-6
    per_switch_s: float = 0.0

    def of(self, event: Event) -> float:
        entries, switches = handed_over(event)
        return super().of(event) + self.per_entry_s * entries + self.per_switch_s * switches


PER_SUBSCRIPTION_S = 4e-6


def handed_over(event: Event) -> tuple[int, int]:
    """How many routing entries an event hands over, and how many hand-overs it completes."""
    parts = [
        message
        for message in (event.messages if isinstance(event, MessagesReceived) else ())
        if isinstance(message, ShiftTables)
    ]
    entries = sum(
        len(part.from_mover) + len(part.from_old_peer) + len(part.known_to_mover) for part in parts
    )
    return entries, sum(part.is_last for part in parts)


@dataclass(frozen=True)
class Cost:
    """What one transformation cost; latencies in ms at the 99th percentile."""

    plan_s: float
    affected_ms: float
    """Of deliveries on whose way an action held a link meanwhile."""
    unaffected_ms: float
    """Of the others that were under way during the transformation."""
    in_transit_ms: float
    """Of all that were under way during the transformation: the paper's metric."""
    quiet_ms: float
    """Of those before and after it."""
    delay_ms: float
    """By how much affected ones came later than the links of their way alone would make them."""
    affected: int
    queue_growth: float
    """Publications that a shift left waiting at a broker: 99th percentile over shifts and
    brokers. What waits for the shift begins at none."""
    hold_ms: float
    """Mean over the actions, from the first broker that holds to the last that lets go."""
    reserve_ms: float
    """Mean from the start of an action until something is held."""
    close_ms: float
    """Mean from there until the action is done in the store."""
    between_steps_ms: float
    """Mean from the last action of a step to the first of the next: topology, count, start."""
    deliveries: int
    violations: tuple[str, ...]


def paper_traffic(
    source: Topology, target: Topology, *, subscribers: int, seed: Sequence[int]
) -> RecordedTraffic:
    """The clients of VI-A on a tree, what they publish, and a latency for every link that a plan
    to the target may make: the same for all plans."""
    rng = np.random.default_rng(seed)
    pairs = (Link.between(a, b) for a, b in combinations(sorted(source.brokers), 2))
    latency_ms = {**draw_latencies(pairs, rng), **target.latency_ms, **source.latency_ms}
    workload = ipitt_workload(source, rng, PUBLISHERS, subscribers)
    clients = [
        RecordedClient(publisher.client, publisher.broker, (), publisher.advertisements)
        for publisher in workload.publishers
    ]
    clients += [
        RecordedClient(subscriber.client, subscriber.broker, (subscriber.filter,))
        for subscriber in workload.subscribers
    ]
    return RecordedTraffic(
        WINDOW_S, tuple(clients), tuple(_said(clients[:PUBLISHERS], rng)), latency_ms
    )


def _said(
    publishers: Iterable[RecordedClient], rng: np.random.Generator
) -> list[RecordedPublication]:
    content = publications(rng)
    said = []
    for publisher in publishers:
        first_s = float(rng.uniform(0, 1 / RATE_PER_S))
        for number in range(round(WINDOW_S * RATE_PER_S)):
            topic, attributes = next(content)
            at_s = first_s + number / RATE_PER_S
            said.append(RecordedPublication(at_s, publisher.client, topic, attributes))
    return sorted(said, key=lambda publication: publication.at_s)


class DisruptionRun:
    """One plan on one tree under the paper's traffic: ``DisruptionRun(...).cost()``."""

    def __init__(
        self,
        source: Topology,
        plan: Plan,
        traffic: RecordedTraffic,
        *,
        seed: int = 0,
        store_s: tuple[float, float] = STORE_S,
    ) -> None:
        wanted = sum(len(client.subscriptions) for client in traffic.clients)
        handling = TableTime(per_switch_s=PER_SUBSCRIPTION_S * wanted)
        setting = RehearsalSetting(seed, handling, store_s)
        self.rehearsal = Rehearsal(source, plan, traffic, setting)

    def cost(self) -> Cost:
        return self._cost(self.rehearsal.run())

    def _cost(self, result: RunResult) -> Cost:
        deployments = self.rehearsal.deployments
        watch = deployments.watch
        judged = list(deployments.deliveries.judged(watch))
        affected = [delivery for delivery in judged if delivery.is_affected]
        actions = list(watch.actions.values())
        waiting = [
            float(report.held_messages) for action in actions for report in action.reports.values()
        ]
        during = [delivery for delivery in judged if delivery.is_during]
        return Cost(
            plan_s=watch.first_plan_s(),
            affected_ms=_p99(affected),
            unaffected_ms=_p99(d for d in during if not d.is_affected),
            in_transit_ms=_p99(during),
            quiet_ms=_p99(delivery for delivery in judged if not delivery.is_during),
            delay_ms=_rounded(percentile([self._delay_ms(d) for d in affected], 0.99)),
            affected=len(affected),
            queue_growth=percentile(waiting, 0.99),
            hold_ms=_mean_ms(a.hold_ended_at - a.hold_began_at for a in actions),
            reserve_ms=_mean_ms(a.hold_began_at - a.running_at for a in actions),
            close_ms=_mean_ms((a.over_at or 0.0) - a.hold_ended_at for a in actions),
            between_steps_ms=_mean_ms(_gaps(actions)),
            deliveries=len(judged),
            violations=result.violations,
        )

    def _delay_ms(self, delivery: JudgedDelivery) -> float:
        # Sums of floats depend on their order, and sets have none.
        way = [self.rehearsal.overlay.links[link] for link in sorted(delivery.way)]
        return delivery.latency_ms - 1000 * sum(link.latency_s for link in way)


def _gaps(actions: Iterable[ActionHistory]) -> list[float]:
    """Between the end of each step and the start of the next."""
    spans: dict[int, tuple[float, float]] = {}
    for action in actions:
        step = int(action.id.split("/")[1])
        began, ended = spans.get(step, (float("inf"), 0.0))
        spans[step] = min(began, action.running_at), max(ended, action.over_at or 0.0)
    return [spans[step + 1][0] - spans[step][1] for step in spans if step + 1 in spans]


def _p99(deliveries: Iterable[JudgedDelivery]) -> float:
    return _rounded(percentile([delivery.latency_ms for delivery in deliveries], 0.99))


def _mean_ms(seconds: Iterable[float]) -> float:
    listed = list(seconds)
    return _rounded(1000 * statistics.fmean(listed)) if listed else 0.0


def _rounded(value: float) -> float:
    return round(value, 3)
