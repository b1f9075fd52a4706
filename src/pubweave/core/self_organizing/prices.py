"""Prices of a notification: c of this broker's links and possible links, p of its own processing
(CI Eq. 1).

A price table takes precedence. Without one, links cost a hop each, or half their measured
round-trip time in ms. The paper assumes that the cost of a link that does not exist yet is known;
here the driver probes (`ProbeBroker`), a few brokers per interval, those with most in common first.
The lowest of the last samples counts: the excess is queueing, which moves with the traffic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.core.session.session import Session
from pubweave.model.ids import BrokerId

SAMPLES = 4
PROBES_PER_INTERVAL = 4
PROBED_FOR_INTERVALS = 20
"""How long the result of a probe is valid."""
LEAST_BROKER_MS = 0.01


class LinkPrices:
    """The prices that this broker knows of."""

    def __init__(self, config: OrganizeConfig, handling_ms: Callable[[], float]) -> None:
        self._config = config
        self._handling_ms = handling_ms
        self._samples: dict[BrokerId, deque[float]] = {}
        self._probed: dict[BrokerId, tuple[float, float | None]] = {}

    def broker_price(self) -> float:
        """What it costs this broker to handle a notification."""
        if self._config.broker_price is not None:
            return self._config.broker_price
        if self._config.link_price is LinkPrice.HOPS:
            return 1.0
        return max(LEAST_BROKER_MS, self._handling_ms())

    def link_price(self, link: Session) -> float | None:
        """What it costs to send a notification over a link; None if unknown."""
        given = self._given(link.remote)
        if given is not None:
            return given
        samples = self._samples.get(link.remote)
        if samples:
            return min(samples)
        return link.rtt_ms / 2 if link.rtt_ms is not None else None

    def new_link_price(self, broker: BrokerId, now: float) -> float | None:
        """What a link to a broker would cost; None if unknown."""
        given = self._given(broker)
        if given is not None:
            return given
        probed_at, rtt_ms = self._probed.get(broker, (now, None))
        lasts_s = PROBED_FOR_INTERVALS * self._config.interval_s
        return rtt_ms / 2 if rtt_ms is not None and now - probed_at < lasts_s else None

    def _given(self, broker: BrokerId) -> float | None:
        if broker in self._config.link_prices:
            return self._config.link_prices[broker]
        return 1.0 if self._config.link_price is LinkPrice.HOPS else None

    def sample(self, links: Iterable[Session]) -> None:
        """Once an interval: take note of the links' round-trip times."""
        sampled: dict[BrokerId, deque[float]] = {}
        for link in links:
            samples = self._samples.get(link.remote) or deque(maxlen=SAMPLES)
            if link.rtt_ms is not None:
                samples.append(link.rtt_ms / 2)
            sampled[link.remote] = samples
        self._samples = sampled

    def to_probe(self, brokers: Iterable[BrokerId], now: float) -> list[BrokerId]:
        """The brokers to probe now, of brokers ordered by expected gain."""
        asked: list[BrokerId] = []
        renew_s = PROBED_FOR_INTERVALS * self._config.interval_s / 2
        for broker in brokers:
            probed_at = self._probed.get(broker, (-float("inf"), None))[0]
            if self._given(broker) is None and now - probed_at > renew_s:
                self._probed[broker] = (now, self._probed.get(broker, (now, None))[1])
                asked.append(broker)
            if len(asked) == PROBES_PER_INTERVAL:
                break
        return asked

    def probed(self, broker: BrokerId, rtt_ms: float | None, now: float) -> None:
        """The result of a probe; a failed one is repeated later."""
        self._probed[broker] = (now, rtt_ms)
