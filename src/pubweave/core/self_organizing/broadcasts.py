"""Broadcasts of brokers to their neighborhood, once per interval (CI section 4.3.1).

A broadcast carries the path back to its origin with its prices and, where cycles are priced by
common interest, a Bloom filter of what the origin's clients were interested in. Routing does not
need it: one that would have to wait behind publications is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.self_organizing.neighborhood import Neighborhood, broadcast_fault
from pubweave.core.self_organizing.notification_cache import NotificationCache
from pubweave.core.self_organizing.prices import LinkPrices
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.transformation.services import TreeServices
from pubweave.model.bloom import BloomFilter, adapted_parameters
from pubweave.model.messages.session import InterestBroadcast


class Broadcasts:
    """Sends, forwards and evaluates the broadcasts of one broker."""

    def __init__(
        self,
        services: TreeServices,
        config: OrganizeConfig,
        neighborhood: Neighborhood,
        prices: LinkPrices,
        interest: NotificationCache | None,
        *,
        send: Callable[[Session, InterestBroadcast], None],
        is_held: Callable[[Session], bool],
    ) -> None:
        """``interest`` is what to broadcast and compare; None to exchange paths alone."""
        self._services = services
        self._config = config
        self._neighborhood = neighborhood
        self._prices = prices
        self._interest = interest
        self._send = send
        self._is_held = is_held
        self._load = 0
        self.dropped = 0

    def _links(self) -> list[Session]:
        services = self._services
        return [link for link in services.routing.links if services.is_linked(link.remote)]

    # --- sending ---------------------------------------------------------------------------

    def send(self, busy_s: float) -> None:
        """Once per interval: sample prices, and broadcast."""
        self._prices.sample(self._links())
        message = self._own_message(busy_s)
        if self._interest is not None:
            message = self._with_filter(message, self._interest)
        for link in self._links():
            self._broadcast(link, message)

    def tell_busy(self, busy_s: float, gain: float) -> None:
        """Between two intervals: nobody need ask for a cycle through this broker for so long."""
        message = msgspec.structs.replace(self._own_message(busy_s), gain=gain)
        for link in self._links():
            self._broadcast(link, message)

    def _own_message(self, busy_s: float) -> InterestBroadcast:
        return InterestBroadcast(
            window=0,
            hops_left=self._config.eta - 1,
            brokers=(self._services.id,),
            processing=(self._prices.broker_price(),),
            link_costs=(),
            link_commons=(),
            bits=0,
            hashes=0,
            filter=b"",
            busy_s=busy_s,
        )

    def _with_filter(
        self, message: InterestBroadcast, interest: NotificationCache
    ) -> InterestBroadcast:
        window, keys = interest.last_window()
        # A decaying maximum: parameters should not follow every lull.
        self._load = max(len(keys), self._load // 2)
        bits, hashes = self._config.bloom_bits, self._config.bloom_hashes
        if self._config.adapt_bloom:
            bits, hashes = adapted_parameters(self._load)
        filter_ = BloomFilter(bits, hashes)
        filter_.add(keys)
        return msgspec.structs.replace(
            message, window=window, bits=bits, hashes=hashes, filter=filter_.to_bytes()
        )

    def _broadcast(self, link: Session, message: InterestBroadcast) -> None:
        """Send a broadcast unless it would delay other messages."""
        is_small = 4 * message.size_bytes <= link.remote_window_bytes
        if link.is_established and is_small and not link.waiting and not self._is_held(link):
            self._send(link, message)
        else:
            self.dropped += 1

    # --- receiving -------------------------------------------------------------------------

    def receive(self, origin: Session, message: InterestBroadcast) -> None:
        """A broadcast came over a link. RemoteProtocolError if it is none."""
        fault = broadcast_fault(message, origin.remote)
        if fault:
            raise RemoteProtocolError(f"sends a broadcast, but {fault}")
        own = self._services.id
        link_cost = self._prices.link_price(origin)
        if own in message.brokers or link_cost is None:
            return
        self._learn(origin, message, link_cost)
        if message.hops_left:
            onward = msgspec.structs.replace(
                message,
                hops_left=message.hops_left - 1,
                brokers=(*message.brokers, own),
                processing=(*message.processing, self._prices.broker_price()),
                link_costs=(*message.link_costs, link_cost),
                # The neighbor's own broadcast has just said what its link is worth.
                link_commons=(*message.link_commons, self._link_common(origin)),
            )
            for link in self._links():
                if link is not origin:
                    self._broadcast(link, onward)

    def _learn(self, origin: Session, message: InterestBroadcast, link_cost: float) -> None:
        if self._interest is None:
            self._neighborhood.learn_path(message, link_cost)
            return
        keys = self._interest.keys(message.window)
        if keys is None or not message.bits:
            return  # another window, or a broker that uses another rule
        try:
            self._neighborhood.learn(message, keys, link_cost, self._link_common(origin))
        except ValueError as error:
            raise RemoteProtocolError(f"sends {error}") from error

    def _link_common(self, link: Session) -> float:
        return self._neighborhood.common(link.remote) or 0.0
