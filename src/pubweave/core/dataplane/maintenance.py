"""Periodic work of a broker: heartbeats, expiry of clients and stale entries, load samples."""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.dataplane.publishing import Publishing
from pubweave.core.metering.counters import Counters, LoadWindow
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import Effect
from pubweave.model.records.status import JournalStatus

PUBLISHERS_SWEEP_S = 60.0
"""How often publishers without an advertisement are discarded."""


def no_journal(now: float) -> None:
    """The journal status of a driver without a journal."""
    return None


class Maintenance:
    """Runs once per tick. ``expire`` ends a client's session, ``is_held`` says whether an action
    holds a link."""

    def __init__(
        self,
        config: BrokerConfig,
        sessions: SessionTable,
        routing: RoutingStrategy,
        publishing: Publishing,
        counters: Counters,
        meter: BrokerMeter | None,
        expire: Callable[[Session, str, float], None],
        is_held: Callable[[Session], bool],
        now: float,
    ) -> None:
        self._config = config
        self._sessions = sessions
        self._routing = routing
        self._publishing = publishing
        self._counters = counters
        self._meter = meter
        self._expire = expire
        self._is_held = is_held
        self._ping_at = now
        self._sweep_at = now + PUBLISHERS_SWEEP_S
        self._stale_until: dict[Session, float] = {}
        self.tick_at = now + config.tick_s
        self.load = LoadWindow(now)
        self.records_dropped = 0
        """Telemetry records that the driver's writer dropped."""
        self.journal_status: Callable[[float], JournalStatus | None] = no_journal

    def synced(self, link: Session, now: float) -> None:
        """A neighbor has sent its tables; entries that it left out expire after a grace period."""
        self._stale_until[link] = now + self._config.stale_grace_s

    def note_waiting(self, client: Session, now: float) -> None:
        """A client waits for answers of neighbors, for a limited time."""
        self._stale_until[client] = now + self._config.publisher_wait_s

    def discard(self, session: Session) -> None:
        """A session ended or restarted: drop its grace period."""
        self._stale_until.pop(session, None)

    def excuse(self, seconds: float) -> None:
        """Extend grace periods by a local pause."""
        self._stale_until = {link: at + seconds for link, at in self._stale_until.items()}

    @property
    def checked_at(self) -> float:
        """When the last tick was, or the start."""
        return self.tick_at - self._config.tick_s

    def on_tick(self, now: float, effects: list[Effect]) -> None:
        self.tick_at = now + self._config.tick_s
        if now >= self._ping_at:
            self._ping_at = now + self._config.ping_every_s
            self._sessions.keep_alive(now, effects)
        for session, reason in self._sessions.lapsed_clients(now):
            self._expire(session, reason, now)
        for link, until in list(self._stale_until.items()):
            if now >= until and not self._is_held(link):
                del self._stale_until[link]
                if self._routing.forget_stale(link):
                    self._stale_until[link] = now + self._config.stale_grace_s
        if self.load.due(now, self._config.load_window_s):
            self._sample_load(now)
        if now >= self._sweep_at:
            self._sweep_at = now + PUBLISHERS_SWEEP_S
            self._publishing.forget_unknown_publishers()

    def _sample_load(self, now: float) -> None:
        meter = self._meter
        if meter is not None:
            self._counters.records_dropped = meter.dropped_records + self.records_dropped
        window_s, counted = self.load.turn(self._counters.status(), now)
        if meter is not None:
            meter.load_sampled(window_s, counted, self._routing.sizes(), self._sessions, now)
