"""What was published and what arrived in a run under churn; who should have got what."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pubweave.model.publications import Publication
from pubweave.runtime.client.subscription import Subscription

HOMELESS_S = 3.0
"""A client whose broker died may miss what was published from just before until so long after."""
BEFORE_S = 0.5
PROMPT_S = 0.5
"""A delivery that takes longer was held up by a break."""


@dataclass
class Receipts:
    """Publications, subscriptions and deliveries, with their times."""

    is_over: bool = False
    _published: list[Publication] = field(default_factory=list)
    _subscribed: dict[tuple[str, str], float] = field(default_factory=dict)
    _received: dict[tuple[str, str], list[tuple[int, float]]] = field(default_factory=dict)
    _homeless: dict[str, list[float]] = field(default_factory=dict)

    def published(self, publication: Publication) -> None:
        self._published.append(publication)

    def subscribed(self, client: str, topic: str, at: float) -> None:
        """The broker has taken the subscription in: what is published from here on is due."""
        self._subscribed[client, topic] = at
        self._received[client, topic] = []

    def broker_died(self, clients: Collection[str], at: float) -> None:
        for client in clients:
            self._homeless.setdefault(client, []).append(at)

    async def receive(self, client: str, topic: str, subscription: Subscription) -> None:
        async for publication in subscription:
            self._received[client, topic].append((publication.sequence, time.time()))

    def _was_homeless(self, client: str, at: float) -> bool:
        return any(-BEFORE_S <= at - died <= HOMELESS_S for died in self._homeless.get(client, ()))

    def figures(self, events: Sequence[float]) -> dict[str, float | int]:
        """Counts over all pairs of publication and subscriber to which it was due."""
        told: dict[str, float | int] = dict.fromkeys(
            ("published", "due", "delivered", "delivered_late", "missing", "duplicates"), 0
        )
        told |= dict.fromkeys(("missing_of_homeless_clients", "out_of_order"), 0)
        slowest = held_up_until = 0.0
        came = {pair: dict(reversed(got)) for pair, got in self._received.items()}
        for got in self._received.values():
            sequences = [sequence for sequence, _ in got]
            told["duplicates"] += len(sequences) - len(set(sequences))
            told["out_of_order"] += sum(b < a for a, b in pairwise(sequences))
        for publication in self._published:
            told["published"] += 1
            for pair, since in self._subscribed.items():
                if pair[1] != publication.topic or publication.published_at < since:
                    continue
                told["due"] += 1
                at = came[pair].get(publication.sequence)
                homeless = self._was_homeless(pair[0], publication.published_at)
                if at is None:
                    told["missing_of_homeless_clients" if homeless else "missing"] += 1
                    continue
                told["delivered"] += 1
                took_s = at - publication.published_at
                if took_s > PROMPT_S and not homeless:
                    told["delivered_late"] += 1
                    slowest = max(slowest, took_s)
                    before = [e for e in events if e <= publication.published_at]
                    if before:
                        held_up_until = max(held_up_until, publication.published_at - before[-1])
        told["slowest_delivery_s"] = round(slowest, 2)
        told["held_up_until_s_after_event"] = round(held_up_until, 2)
        return told
