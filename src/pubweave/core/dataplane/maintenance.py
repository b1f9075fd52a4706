"""Periodic work of a broker: heartbeats, expiry of clients and stale entries, load samples."""

from __future__ import annotations

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.metering.counters import LoadWindow
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.vocabulary.effects import Effect

PUBLISHERS_SWEEP_S = 60.0
"""How often publishers without an advertisement are discarded."""


class Maintenance:
    """Runs once per tick."""

    def __init__(self, services: BrokerServices[RoutingStrategy]) -> None:
        now = services.started_at
        self._services = services
        self._config = services.config
        self._grace = services.grace
        self._ping_at = now
        self._sweep_at = now + PUBLISHERS_SWEEP_S
        self.tick_at = now + self._config.tick_s
        self.load = LoadWindow(now)

    @property
    def checked_at(self) -> float:
        """When the last tick was, or the start."""
        return self.tick_at - self._config.tick_s

    def on_tick(self, now: float, effects: list[Effect]) -> None:
        self.tick_at = now + self._config.tick_s
        services, sessions = self._services, self._services.sessions
        if now >= self._ping_at:
            self._ping_at = now + self._config.ping_every_s
            sessions.keep_alive(now, effects)
        for session, reason in sessions.lapsed_clients(services.flow.congested_since, now):
            services.teardown.expire(session, reason, now)
        self._forget_stale(now)
        if self.load.due(now, self._config.load_window_s):
            self._sample_load(now)
        if now >= self._sweep_at:
            self._sweep_at = now + PUBLISHERS_SWEEP_S
            services.sequences.forget_unknown()
        self._give_up_absent(now)

    def _forget_stale(self, now: float) -> None:
        routing = self._services.routing
        for client in routing.gate.waiting:
            self._grace.note_waiting(client, now)
        for session in self._grace.over(now):
            if not routing.is_held(session):
                self._services.counters.publisher_waits_over += routing.gate.is_shut(session)
                self._grace.discard(session)
                if routing.forget_stale(session):
                    self._grace.synced(session, now)

    def _give_up_absent(self, now: float) -> None:
        """Stop waiting for neighbors that never connected: count what waits for them as lost."""
        services = self._services
        for link in services.sessions.links.values():
            if link.is_congested and services.routing.give_up(link, now):
                services.counters.publications_lost_at_most += link.forget_waiting()
                services.relieve(link)

    def _sample_load(self, now: float) -> None:
        services, meter = self._services, self._services.meter
        if meter is not None:
            services.counters.records_dropped += meter.pop_dropped()
        window_s, counted = self.load.turn(services.counters.status(), now)
        if meter is not None:
            sizes = services.routing.sizes()
            meter.load_sampled(window_s, counted, sizes, services.sessions, now)
