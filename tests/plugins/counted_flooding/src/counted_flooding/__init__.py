"""A strategy of another package: floods publications, and counts those of each topic.

It has a part of its own, which observes publications and answers the query ``counted``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pubweave.core.dataplane.part import BrokerPart
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.flooding import FloodingRouting
from pubweave.core.session.session import Session
from pubweave.core.strategies import Strategy
from pubweave.model.publications import Publication


class CountedFlooding(FloodingRouting):
    protocol = "counted"


class TopicCounts(BrokerPart):
    """How many publications of each topic a broker has passed on."""

    def __init__(self) -> None:
        self.observer = self
        self._counts: Counter[str] = Counter()

    def routed(self, publication: Publication, origin: Session, route: tuple[Session, ...]) -> None:
        self._counts[publication.topic] += 1

    def answer(self, verb: str, argument: str, now: float) -> Any:
        return dict(self._counts) if verb == "counted" else None


def make_parts(services: BrokerServices[CountedFlooding]) -> Sequence[BrokerPart]:
    return [TopicCounts()]


COUNTED = Strategy(CountedFlooding, make_parts)
