"""What a workload says of its clients: where they attach, what they advertise or want."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import Value

Content = tuple[str, dict[str, Value]]
"""A publication's topic and attributes, before anybody published it."""


@dataclass(frozen=True)
class WorkloadPublisher:
    """A publisher at a broker; everything it publishes matches one of its advertisements."""

    client: ClientId
    broker: BrokerId
    advertisements: tuple[Filter, ...]
    rate_per_s: float


@dataclass(frozen=True)
class WorkloadSubscriber:
    """A subscriber at a broker, with one subscription."""

    client: ClientId
    broker: BrokerId
    filter: Filter
