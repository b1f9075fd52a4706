"""POP's phase 2 (section 3.2): a request walks towards most subscribers, the answer walks back.

When a publisher's first broker has enough results and none outstanding, it asks itself. A broker
that is asked looks for a neighbor behind which there are more subscribers than everywhere else,
as far as it knows, and passes the request on to it, with itself on the list; if there is none, it
is the closest broker, and the list goes back to the first one.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.relocation.pop_tracing import PopTracing
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.design.relocation.rules import closest_neighbor
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.relocation import RelocationAnswer, RelocationRequest

MOST_HOPS = 10_000
"""No request passes more brokers, whatever a neighbor says."""

OnClosest = Callable[[ClientId, tuple[BrokerId, ...], float, float], None]
"""Of which publisher, the way to the closest broker, how long it took, and the instant."""


class PopSelection:
    """One broker's part in looking for the closest broker."""

    def __init__(
        self,
        own_id: BrokerId,
        tracing: PopTracing,
        *,
        threshold: int,
        least_gain: float,
        answer_limit_s: float,
        link: Callable[[BrokerId], Session | None],
        send: Callable[[Session, RelocationRequest | RelocationAnswer], None],
        on_closest: OnClosest,
    ) -> None:
        self._own_id = own_id
        self._tracing = tracing
        self._threshold = threshold
        self._least_gain = least_gain
        self._answer_limit_s = answer_limit_s
        self._link = link
        self._send = send
        self._on_closest = on_closest
        self._results: dict[ClientId, int] = {}
        self._asked: dict[ClientId, float] = {}

    def traced(self, publisher: ClientId, now: float) -> None:
        """One more result of a local publisher is in."""
        results = self._results[publisher] = self._results.get(publisher, 0) + 1
        if results < self._threshold or publisher in self._asked:
            return
        if self._tracing.is_awaited(publisher):
            return
        self._results[publisher] = 0
        self._asked[publisher] = now + self._answer_limit_s
        self._check(None, RelocationRequest(publisher, 0.0, ()), now)

    def receive_request(self, origin: Session, message: RelocationRequest, now: float) -> None:
        brokers = message.brokers
        if not brokers or brokers[0] != origin.remote or len(brokers) > MOST_HOPS:
            raise RemoteProtocolError("sends a relocation request that it has not passed")
        if self._own_id in brokers:
            raise RemoteProtocolError("sends a relocation request back")
        self._check(origin, message, now)

    def _check(self, origin: Session | None, message: RelocationRequest, now: float) -> None:
        table = self._tracing.tables.get(message.publisher)
        upstream = None if origin is None else origin.remote
        brokers = (self._own_id, *message.brokers)
        if table is not None and table.upstream == upstream:
            elsewhere = message.subscribers + (table.own or 0.0)
            # Only the first hop has to be worth a move; the others come for little more.
            least_gain = self._least_gain if origin is None else 0.0
            closest = closest_neighbor(table.averages, elsewhere, least_gain)
            link = None if closest is None else self._link(closest)
            if closest is not None and link is not None:
                others = sum(c for n, c in table.averages.items() if n != closest)
                request = RelocationRequest(message.publisher, elsewhere + others, brokers)
                self._send(link, request)
                return
        self._answer(RelocationAnswer(message.publisher, brokers), now)

    def receive_answer(self, origin: Session, message: RelocationAnswer, now: float) -> None:
        if self._own_id not in message.brokers:
            raise RemoteProtocolError("sends a relocation answer that is not for here")
        self._answer(message, now)

    def _answer(self, message: RelocationAnswer, now: float) -> None:
        """Pass an answer on towards the publisher, or take it in."""
        place = message.brokers.index(self._own_id) + 1
        if place < len(message.brokers):
            link = self._link(message.brokers[place])
            if link is not None:
                self._send(link, message)
        elif (until := self._asked.pop(message.publisher, None)) is not None:
            took_s = now - (until - self._answer_limit_s)
            self._on_closest(message.publisher, tuple(reversed(message.brokers)), took_s, now)

    def discard(self, publisher: ClientId) -> None:
        self._results.pop(publisher, None)
        self._asked.pop(publisher, None)

    def give_up_late(self, now: float) -> None:
        for publisher in [p for p, until in self._asked.items() if until <= now]:
            del self._asked[publisher]
