"""The self-organizing mode of a broker (CI section 4): its schedule of broadcasts and requests.

Present only in brokers that organize themselves. Time is divided into windows of one interval on
the common clock. In the first part of a window a broker broadcasts to its neighborhood
(`broadcasts`). It asks for links (`self_organizing/consensus`), those with the highest expected
gain first: by interest in the second part, when it has received the others' broadcasts, and again
after every answer; by sides at moments all over the window, for all brokers desire links all the
time. Moments are drawn anew for each window, so that nobody is always in the same one's way. What
is noted of publications, and how a cycle is priced by it, depends on the estimate
(`self_organizing/cycle_cost_by_interest`). Where nothing flows, nothing is said.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any, get_args

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.dataplane.part import BrokerPart, EventHandler, MessageHandler
from pubweave.core.self_organizing.broadcasts import Broadcasts
from pubweave.core.self_organizing.consensus import ExchangeConsensus
from pubweave.core.self_organizing.cycle_cost_by_interest import (
    CycleCostByInterest,
    CycleView,
    DesiredLink,
)
from pubweave.core.self_organizing.cycle_cost_by_traffic import CycleCostByTraffic
from pubweave.core.self_organizing.neighborhood import Neighborhood
from pubweave.core.self_organizing.notification_cache import NotificationCache
from pubweave.core.self_organizing.prices import LinkPrices
from pubweave.core.self_organizing.traffic_sides import SLICES, TrafficSides
from pubweave.core.session.session import Session
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.transformation.services import TreeServices
from pubweave.core.vocabulary.effects import ProbeBroker
from pubweave.core.vocabulary.events import (
    BrokerProbed,
    ExchangeEnded,
    HandlingMeasured,
    OrganizingPaused,
)
from pubweave.design.ci.rules import Estimate
from pubweave.model.ids import BrokerId, Link
from pubweave.model.messages.session import (
    ExchangeReply,
    ExchangeRequest,
    InterestBroadcast,
    OrganizeMessage,
)
from pubweave.model.records.status import OrganizeStatus

BROADCASTING = (0.02, 0.3)
"""The part of a window in which brokers broadcast."""
ASKING = (0.5, 0.9)
"""The part of a window in which brokers ask for links, after the broadcasts."""
ALL_OF_IT = (0.0, 1.0)


class Unorganized(BrokerPart):
    """In place of an `Organizer`: passes over what others say that organize themselves."""

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        return dict.fromkeys(get_args(OrganizeMessage), lambda origin, message, now: None)


class Organizer(BrokerPart):
    """Schedules broadcasts and requests of one broker."""

    def __init__(
        self,
        services: TreeServices,
        actions: ActionCoordinator,
        config: OrganizeConfig,
    ) -> None:
        now = services.started_at
        self.config = config
        self.handling_ms = 0.0
        """What a notification takes to handle; the driver keeps this current."""
        self._services = services
        self._prices = LinkPrices(config, lambda: self.handling_ms)
        self._neighborhood = Neighborhood(
            services.id, keeps_hits=config.estimate is Estimate.CONJUNCTION
        )
        self.cache, self._view = self._make_view(now)
        self.observer = self.cache
        self._broadcasts = Broadcasts(
            services,
            config,
            self._neighborhood,
            self._prices,
            self.cache if isinstance(self.cache, NotificationCache) else None,
            send=self._send,
            is_held=services.routing.is_held,
        )
        self._requests = ExchangeConsensus(
            services,
            config,
            self._view,
            epoch=services.epoch,
            send=self._send,
            is_in_action=lambda now: actions.is_busy,
            on_changed=self._on_changed,
            price=self._prices.broker_price,
            on_refused=self._on_refused,
            on_locked=self._broadcasts.tell_busy,
        )
        self._tried: set[BrokerId] = set()
        self._messages_out = 0
        self._bytes_out = 0
        self._asked = 0
        self._broadcast_at = self._next_broadcast(now)
        self._ask_at = self._next_ask(now)

    def _make_view(self, now: float) -> tuple[NotificationCache | TrafficSides, CycleView]:
        """What is noted of publications, and how cycles are priced by it."""
        config, services = self.config, self._services
        neighborhood, prices = self._neighborhood, self._prices
        if config.is_by_sides:
            sides = TrafficSides(
                config.capacity, config.interval_s, now, lambda: services.routing.links
            )
            return sides, CycleCostByTraffic(services.id, config, neighborhood, prices, sides)
        cache = NotificationCache(config.capacity, config.interval_s, now)

        def own_count() -> int:
            return len(cache.last_window()[1])

        return cache, CycleCostByInterest(services.id, config, neighborhood, prices, own_count)

    def _next_broadcast(self, after: float) -> float:
        return self._instant(after, BROADCASTING, self.config.interval_s)

    def _next_ask(self, after: float) -> float:
        interval_s = self.config.interval_s
        if self.config.is_by_sides:
            times = self.config.requests_per_interval or SLICES
            return self._instant(after, ALL_OF_IT, interval_s / times)
        return self._instant(after, ASKING, interval_s)

    def _instant(self, after: float, part: tuple[float, float], every_s: float) -> float:
        """The next moment of this broker in a part of a period: another one in each period."""
        low, high = part
        number = math.floor(after / every_s)
        while True:
            drawn = zlib.crc32(f"{self._services.id} {number}".encode()) / 2**32
            moment = (number + low + (high - low) * drawn) * every_s
            if moment > after:
                return moment
            number += 1

    def event_handlers(self) -> Mapping[type[Any], EventHandler]:
        return dict.fromkeys(
            (BrokerProbed, ExchangeEnded, HandlingMeasured, OrganizingPaused), self.handle
        )

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        return dict.fromkeys(get_args(OrganizeMessage), self.receive)

    @property
    def deadline(self) -> float:
        return min(self._broadcast_at, self._ask_at, self.cache.turn_at)

    # --- events ----------------------------------------------------------------------------

    def on_deadline(self, now: float) -> None:
        if now < self.deadline:
            return
        self.cache.turn(now)
        if now >= self._broadcast_at:
            self._broadcast_at = self._next_broadcast(now)
            if not self._requests.is_paused:
                self._begin_interval(now)
        if now >= self._ask_at:
            self._ask_at = self._next_ask(now)
            if not self._requests.is_paused:
                self._ask_next(now)

    def receive(self, origin: Session, message: OrganizeMessage, now: float) -> None:
        """An organization message arrived over a link. RemoteProtocolError if it is invalid."""
        self.cache.turn(now)
        match message:
            case InterestBroadcast():
                self._broadcasts.receive(origin, message)
                self._requests.note_busy(message.brokers[0], message.busy_s, now)
                self._requests.note_gain(message.gain, now)
            case ExchangeRequest():
                self._requests.receive_request(origin, message, now)
            case ExchangeReply():
                self._requests.receive_reply(origin, message, now)

    def handle(
        self,
        event: BrokerProbed | ExchangeEnded | HandlingMeasured | OrganizingPaused,
        now: float,
    ) -> None:
        match event:
            case HandlingMeasured(message_ms):
                self.handling_ms = message_ms
            case OrganizingPaused(is_paused):
                self._requests.is_paused = is_paused
            case BrokerProbed(broker, rtt_ms):
                self._prices.probed(broker, rtt_ms, now)
            case ExchangeEnded(request_id, done, reason):
                self._requests.ended(request_id, done, reason, now)

    def _on_changed(self, removed: Link | None) -> None:
        """An exchange around here has ended; paths over a removed link are discarded."""
        if removed is not None:
            self._neighborhood.forget_link(removed)
        if isinstance(self.cache, TrafficSides):
            self.cache.spoil()

    # --- asking ----------------------------------------------------------------------------

    @property
    def _is_idle(self) -> bool:
        """Nothing flows here or, where only local clients count, in the neighborhood."""
        if not self.cache.is_idle:
            return False
        return self.config.is_by_sides or all(known.is_idle for _, known in self._neighborhood)

    def _begin_interval(self, now: float) -> None:
        """Probe prices, broadcast, and allow the same links to be asked for again."""
        self._requests.cool(now)
        self._tried.clear()
        self._asked = 0
        self._neighborhood.forget_stale()
        if self._is_idle:
            return
        for broker in self._prices.to_probe(self._promising(), now):
            self._services.emit(ProbeBroker(broker))
        self._broadcasts.send(self._requests.why_not(now)[1] or self._view.ready_in_s(now))

    def _on_refused(self, now: float) -> None:
        if not self.config.is_by_sides or self.config.requests_per_interval is None:
            self._ask_next(now)

    def _ask_next(self, now: float) -> None:
        """Ask for the best link that was not asked for in this interval yet."""
        limit = self.config.requests_per_interval
        is_over = limit is not None and self._asked >= limit
        if is_over or self._is_idle or not self._requests.may_ask(now):
            return
        candidates = filter(None, (self._desired_link(b, now) for b in self._promising()))
        for desired in sorted(candidates, key=lambda desired: (-desired.gain, desired.turn)):
            self._tried.add(desired.known.path[-1])
            if self._requests.ask(desired, now):
                self._asked += 1
                return

    def _promising(self) -> list[BrokerId]:
        """The brokers more than a hop away, those with the highest expected gain first."""
        gain = self._view.expected_gain
        far = [(gain(known), broker) for broker, known in self._neighborhood if len(known.path) > 2]
        return [broker for _, broker in sorted(far, reverse=True)]

    def _desired_link(self, broker: BrokerId, now: float) -> DesiredLink | None:
        known = self._neighborhood.get(broker)
        if broker in self._tried or known is None:
            return None
        if not self._requests.may_ask_for(known.path, now):
            return None
        if self._services.link(broker) is not None:
            return None  # the known path there is outdated
        return self._view.desired_link(broker, now)

    # --- sending and status ----------------------------------------------------------------

    def _send(self, link: Session, message: OrganizeMessage) -> None:
        self._messages_out += 1
        self._bytes_out += message.size_bytes
        self._services.send(link, message)

    def status(self, now: float) -> dict[str, Any]:
        return {"organizing": self.counted()}

    def counted(self) -> OrganizeStatus:
        counted = self._requests.counters
        return OrganizeStatus(
            heuristic=self.config.heuristic.value,
            eta=self.config.eta,
            interval_s=self.config.interval_s,
            known_brokers=len(self._neighborhood),
            proposed=counted.proposed,
            busy=counted.busy,
            declined=counted.declined,
            agreed=counted.agreed,
            done=counted.done,
            failed=counted.failed,
            messages_out=self._messages_out,
            bytes_out=self._bytes_out,
            broadcasts_dropped=self._broadcasts.dropped,
            windows_overflowed=(
                self.cache.overflows if isinstance(self.cache, TrafficSides) else 0
            ),
        )
