"""Recorded traffic played once on an overlay that stands still: what would it be like there?

The real broker core in virtual time, the recorded clients at their brokers, links as slow as they
are priced. Nothing fails and nothing changes; whoever compares two overlays plays the same record
on both. What is due and does not come, or comes twice, is a violation here as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.model.ids import BrokerId, Link
from pubweave.model.publications import Publication
from pubweave.model.records.recorded_traffic import RecordedPublication, RecordedTraffic
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.parts.plan_costs import percentile

CLIENT_LATENCY_S = 0.0005
REST_LIMIT_S = 60.0


@dataclass(frozen=True)
class Replayed:
    """What the record was like on one overlay."""

    publications: int
    deliveries: int
    latency_ms_mean: float
    latency_ms_p50: float
    latency_ms_p99: float
    hops_mean: float
    """Links between a publisher's and a receiver's broker, by delivery."""
    crossings: int
    """Publications over links: what the brokers sent each other."""
    handled_per_s: dict[BrokerId, float]
    """Publications that each broker took in, from clients and neighbors."""
    violations: tuple[str, ...]

    @property
    def crossings_per_delivery(self) -> float:
        return self.crossings / self.deliveries if self.deliveries else 0.0


def replay(
    topology: Topology,
    traffic: RecordedTraffic,
    *,
    latency_ms: Callable[[Link], float],
    processing_ms: float,
) -> Replayed:
    """Play a record on a topology whose links are this slow; a publication takes a broker
    ``processing_ms``."""
    return _Replay(topology, traffic, latency_ms, processing_ms).run()


class _Replay:
    def __init__(
        self,
        topology: Topology,
        traffic: RecordedTraffic,
        latency_ms: Callable[[Link], float],
        processing_ms: float,
    ) -> None:
        self._traffic = traffic
        self._world = World(0)
        self._topology = replace(
            topology, latency_ms={link: latency_ms(link) for link in topology.links}
        )
        self._overlay = TreeOverlay(
            self._world,
            self._topology,
            make_config=BrokerConfig,
            handling=HandlingTime(0.0, processing_ms / 1000.0),
        )
        self._overlay.on_delivery = self._on_delivery
        self._arrivals: list[tuple[float, BrokerId, BrokerId]] = []
        self._violations: list[str] = []

    def run(self) -> Replayed:
        for recorded in self._traffic.clients:
            self._overlay.join_recorded(
                recorded, latency_s=CLIENT_LATENCY_S, limits=SessionLimits()
            )
        self._rest("before the traffic")
        before = self._counted()
        began = self._world.now
        for publication in self._traffic.publications:
            self._world.at(began + publication.at_s, self._publish, publication)
        self._world.run_until(began + self._traffic.window_s)
        self._rest("after the traffic")
        self._overlay.check_deliveries()
        return self._summed_up(before)

    def _publish(self, recorded: RecordedPublication) -> None:
        client = self._overlay.clients.get(recorded.publisher)
        if client is not None:
            self._overlay.publish(client, recorded.topic, dict(recorded.attributes))

    def _on_delivery(self, client: SimClient, publication: Publication) -> None:
        latency_ms = 1000.0 * (self._world.now - publication.published_at)
        home = self._overlay.homes[publication.publisher]
        self._arrivals.append((latency_ms, home, client.home.name))

    def _rest(self, when: str) -> None:
        if not self._overlay.run_until_quiet(REST_LIMIT_S):
            self._violations.append(f"the overlay does not come to rest {when}")

    def _counted(self) -> dict[BrokerId, int]:
        return {
            name: node.broker.counters.publications_in
            for name, node in self._overlay.brokers.items()
        }

    def _summed_up(self, before: dict[BrokerId, int]) -> Replayed:
        overlay, window_s = self._overlay, self._traffic.window_s
        latencies = [latency_ms for latency_ms, _, _ in self._arrivals]
        hops = [len(self._topology.path(a, b)) - 1 for _, a, b in self._arrivals]
        handled = {name: count - before[name] for name, count in self._counted().items()}
        published = overlay.judge.publications
        count = max(1, len(latencies))
        return Replayed(
            publications=published,
            deliveries=len(latencies),
            latency_ms_mean=sum(latencies) / count,
            latency_ms_p50=percentile(latencies, 0.5),
            latency_ms_p99=percentile(latencies, 0.99),
            hops_mean=sum(hops) / count,
            # Whatever a broker took in and no client of it had published came over a link.
            crossings=sum(handled.values()) - published,
            handled_per_s={
                name: handled[name] / window_s if window_s > 0 else 0.0 for name in handled
            },
            violations=(*self._violations, *overlay.judge.violations),
        )
