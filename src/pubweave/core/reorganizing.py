"""The self-organizing mode of a broker (CI section 4): what it does when, and with whom.

Present only in brokers that were told to organize themselves. Time is cut into windows of one
interval on the common clock. In the first part of a window a broker tells its neighborhood what
its clients were interested in during the last one; in the second part, when it has heard the
others, it asks for the link that it would profit from most; refused, for the next one, a few
times. The moments within both parts are each broker's own, so that not all ask at once.

Broadcasts carry nothing that routing needs: one that would have to wait behind publications, or
that cannot be understood, is dropped.
"""

from __future__ import annotations

import math
import zlib

from pubweave.core.actions import BrokerActions
from pubweave.core.bloom import BloomFilter, adapted_parameters
from pubweave.core.broker_inside import BrokerInside
from pubweave.core.effects import ProbeBroker
from pubweave.core.events import BrokerProbed, ExchangeEnded
from pubweave.core.exchange_requests import ExchangeRequests
from pubweave.core.interest_cache import InterestCache
from pubweave.core.link_prices import LinkPrices
from pubweave.core.neighborhood import Neighborhood, broadcast_fault
from pubweave.core.organize_config import OrganizeConfig
from pubweave.core.ring_costs import RingCosts, Wish
from pubweave.core.session import RemoteProtocolError, Session
from pubweave.model.ids import BrokerId
from pubweave.model.messages import (
    ExchangeReply,
    ExchangeRequest,
    InterestBroadcast,
    OrganizeMessage,
)
from pubweave.model.status import OrganizeStatus

TELLING = (0.02, 0.3)
"""The part of a window in which brokers tell what they know."""
ASKING = (0.5, 0.9)
"""The part of a window in which brokers ask for links."""
REQUESTS_PER_INTERVAL = 3
"""A broker whose wish was refused asks for its next one, and so on, at most so often."""


class Organizer:
    """One broker's part in organizing the overlay."""

    def __init__(
        self,
        inside: BrokerInside,
        actions: BrokerActions,
        config: OrganizeConfig,
        epoch: int,
        now: float,
    ) -> None:
        self.config = config
        self.handling_ms = 0.0
        """What a notification takes to handle; the driver keeps this current."""
        self.cache = InterestCache(config.cache_entries, config.interval_s, now)
        self._inside = inside
        self._actions = actions
        self._prices = LinkPrices(config, lambda: self.handling_ms)
        self._around = Neighborhood(inside.id, keeps_hits=config.joint_triples)
        self._costs = RingCosts(inside.id, config, self._around, self._prices)
        self._requests = ExchangeRequests(
            inside,
            config,
            self._costs,
            epoch=epoch,
            send=self._send,
            is_in_action=lambda now: actions.status(now) is not None,
            forget_link=self._around.forget_link,
            price=self._prices.broker_price,
            on_refused=self._ask_next,
        )
        self._tried: set[BrokerId] = set()
        self._load = 0
        self._messages_out = 0
        self._bytes_out = 0
        self._broadcasts_dropped = 0
        # Each broker has its own moment in the parts of a window, always the same.
        self._moment = zlib.crc32(inside.id.encode()) % 1000 / 1000
        self._tell_at = self._instant(now, TELLING)
        self._ask_at = self._instant(now, ASKING)

    def _instant(self, after: float, part: tuple[float, float]) -> float:
        """The next moment of this broker in a part of a window."""
        interval_s = self.config.interval_s
        low, high = part
        offset_s = interval_s * (low + (high - low) * self._moment)
        number = math.floor((after - offset_s) / interval_s) + 1
        while number * interval_s + offset_s <= after:  # rounded down
            number += 1
        return number * interval_s + offset_s

    @property
    def deadline(self) -> float:
        return min(self._tell_at, self._ask_at)

    def pause(self, is_paused: bool) -> None:
        """Neither tell nor ask, and agree to nothing, until told otherwise."""
        self._requests.is_paused = is_paused

    # --- events ----------------------------------------------------------------------------

    def on_deadline(self, now: float) -> None:
        self.cache.turn(now)
        if now >= self._tell_at:
            self._tell_at = self._instant(now, TELLING)
            if not self._requests.is_paused:
                self._tell(now)
        if now >= self._ask_at:
            self._ask_at = self._instant(now, ASKING)
            if not self._requests.is_paused:
                self._ask(now)

    def take(self, origin: Session, message: OrganizeMessage, now: float) -> None:
        """A message about the organization came over a link. RemoteProtocolError if it is none."""
        self.cache.turn(now)
        match message:
            case InterestBroadcast():
                self._take_broadcast(origin, message)
            case ExchangeRequest():
                self._requests.take_request(origin, message, now)
            case ExchangeReply():
                self._requests.take_reply(origin, message, now)

    def take_event(self, event: BrokerProbed | ExchangeEnded, now: float) -> None:
        match event:
            case BrokerProbed(broker, rtt_ms):
                self._prices.probed(broker, rtt_ms, now)
            case ExchangeEnded(request_id, done, reason):
                self._requests.ended(request_id, done, reason, now)

    # --- telling and learning --------------------------------------------------------------

    def _links(self) -> list[Session]:
        return [link for link in self._inside.routing.links if self._inside.is_linked(link.remote)]

    def _tell(self, now: float) -> None:
        """Turn to a new interval: forget, sample prices, and broadcast the last window."""
        self._around.forget_stale()
        self._requests.cool(now)
        self._prices.sample(self._links())
        window, keys = self.cache.last_window()
        self._costs.own_count = len(keys)
        # The load of a few windows: parameters should not follow every lull.
        self._load = max(len(keys), self._load // 2)
        config = self.config
        bits, hashes = config.bloom_bits, config.bloom_hashes
        if config.adapt_bloom:
            bits, hashes = adapted_parameters(self._load)
        filter_ = BloomFilter(bits, hashes)
        filter_.add(keys)
        message = InterestBroadcast(
            window=window,
            hops_left=config.eta - 1,
            brokers=(self._inside.id,),
            processing=(self._prices.broker_price(),),
            link_costs=(),
            link_commons=(),
            bits=bits,
            hashes=hashes,
            filter=filter_.to_bytes(),
        )
        for link in self._links():
            self._broadcast(link, message)

    def _broadcast(self, link: Session, message: InterestBroadcast) -> None:
        """Send a broadcast where it is in nobody's way."""
        is_small = 4 * message.size_bytes <= link.remote_window_bytes
        if (
            link.is_established
            and is_small
            and not link.waiting
            and not self._actions.is_held(link)
        ):
            self._send(link, message)
        else:
            self._broadcasts_dropped += 1

    def _take_broadcast(self, origin: Session, message: InterestBroadcast) -> None:
        fault = broadcast_fault(message, origin.remote)
        if fault:
            raise RemoteProtocolError(f"sends a broadcast, but {fault}")
        own = self._inside.id
        link_cost = self._prices.link_price(origin)
        if own in message.brokers or link_cost is None:
            return
        keys = self.cache.keys(message.window)
        link_common = self._around.common(origin.remote) or 0.0
        if keys is not None:
            try:
                self._around.learn(message, keys, link_cost, link_common)
            except ValueError as error:
                raise RemoteProtocolError(f"sends {error}") from error
        if message.hops_left:
            # A neighbor's own broadcast has just told what its link is worth.
            link_common = self._around.common(origin.remote) or 0.0
            onward = InterestBroadcast(
                window=message.window,
                hops_left=message.hops_left - 1,
                brokers=(*message.brokers, own),
                processing=(*message.processing, self._prices.broker_price()),
                link_costs=(*message.link_costs, link_cost),
                link_commons=(*message.link_commons, link_common),
                bits=message.bits,
                hashes=message.hashes,
                filter=message.filter,
            )
            for link in self._links():
                if link is not origin:
                    self._broadcast(link, onward)

    # --- asking ----------------------------------------------------------------------------

    def _ask(self, now: float) -> None:
        """Have prices found out for the next time, and ask for a link."""
        for broker in self._prices.to_probe(self._promising(), now):
            self._inside.emit(ProbeBroker(broker))
        self._tried.clear()
        self._ask_next(now)

    def _ask_next(self, now: float) -> None:
        """Ask for the link that promises most, of those not asked for in this interval yet."""
        if len(self._tried) >= REQUESTS_PER_INTERVAL or self._requests.why_not(now):
            return
        wishes = [wish for broker in self._promising() if (wish := self._wish(broker, now))]
        for wish in sorted(wishes, key=lambda wish: -wish.gain):
            self._tried.add(wish.known.path[-1])
            if self._requests.ask(wish, now):
                return

    def _promising(self) -> list[BrokerId]:
        """The brokers more than a hop away, those with most in common first."""
        far = sorted(
            (known.common, broker) for broker, known in self._around if len(known.path) > 2
        )
        return [broker for _, broker in reversed(far)]

    def _wish(self, broker: BrokerId, now: float) -> Wish | None:
        if broker in self._tried or not self._requests.may_ask_for(broker):
            return None
        if self._inside.link(broker) is not None:
            return None  # what is known of the way there is of before
        return self._costs.wish(broker, now)

    # --- sending, and what to tell of it -----------------------------------------------------

    def _send(self, link: Session, message: OrganizeMessage) -> None:
        self._messages_out += 1
        self._bytes_out += message.size_bytes
        self._inside.send(link, message)

    def status(self) -> OrganizeStatus:
        counted = self._requests.counters
        return OrganizeStatus(
            heuristic=self.config.heuristic.value,
            eta=self.config.eta,
            interval_s=self.config.interval_s,
            known_brokers=len(self._around),
            proposed=counted.proposed,
            busy=counted.busy,
            declined=counted.declined,
            agreed=counted.agreed,
            done=counted.done,
            failed=counted.failed,
            messages_out=self._messages_out,
            bytes_out=self._bytes_out,
            broadcasts_dropped=self._broadcasts_dropped,
        )
