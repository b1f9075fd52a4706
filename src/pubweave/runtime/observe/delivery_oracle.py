"""Who should have got what: the truth that a run over real sockets is judged by.

Every publication is held against every subscription with `Filter.matches`, the reference rule;
nothing here is shared with the matching index or the routing that are judged. It takes for
granted that all subscriptions stood before the first publication and until the last delivery.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pubweave.model.filters.filter import Filter, Operator
from pubweave.model.ids import ClientId
from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication

PublicationKey = tuple[ClientId, int]


@dataclass(frozen=True)
class DeliveryVerdict:
    """What became of all expected deliveries; anything but ``delivered`` should be 0."""

    publications: int
    expected: int
    delivered: int
    lost: int
    duplicated: int
    unexpected: int
    out_of_order: int

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected or self.out_of_order)


def expected_deliveries(
    published: Sequence[Publication], wanted: Mapping[ClientId, Filter]
) -> dict[ClientId, set[PublicationKey]]:
    """For each subscriber the publications its filter matches. O(publications x subscribers)."""
    expected: dict[ClientId, set[PublicationKey]] = {client: set() for client in wanted}
    # A filter that names one topic can match nothing on another: skip those pairs unlooked.
    on_topic: dict[str | None, list[tuple[ClientId, Filter]]] = {}
    for client, filter_ in wanted.items():
        on_topic.setdefault(_one_topic(filter_), []).append((client, filter_))
    for publication in published:
        for topic in (publication.topic, None):
            for client, filter_ in on_topic.get(topic, ()):
                if filter_.matches(publication):
                    expected[client].add(publication.key)
    return expected


def judge(
    published: Sequence[Publication],
    wanted: Mapping[ClientId, Filter],
    received: Mapping[ClientId, Sequence[PublicationKey]],
) -> DeliveryVerdict:
    """Compare what each subscriber received, in its order, with what it should have."""
    expected = expected_deliveries(published, wanted)
    lost = duplicated = unexpected = out_of_order = delivered = 0
    for client, due in expected.items():
        got = received.get(client, ())
        counts = Counter(got)
        lost += len(due - counts.keys())
        unexpected += len(counts.keys() - due)
        duplicated += len(got) - len(counts)
        delivered += len(due & counts.keys())
        out_of_order += _steps_back(got)
    return DeliveryVerdict(
        publications=len(published),
        expected=sum(len(due) for due in expected.values()),
        delivered=delivered,
        lost=lost,
        duplicated=duplicated,
        unexpected=unexpected,
        out_of_order=out_of_order,
    )


def _steps_back(received: Iterable[PublicationKey]) -> int:
    """How often a publication came after a later one of the same publisher."""
    latest: dict[ClientId, int] = {}
    count = 0
    for publisher, sequence in received:
        if sequence < latest.get(publisher, sequence):
            count += 1
        latest[publisher] = max(sequence, latest.get(publisher, sequence))
    return count


def _one_topic(filter_: Filter) -> str | None:
    for predicate in filter_.predicates:
        if predicate.attribute == TOPIC_ATTRIBUTE and predicate.operator is Operator.EQ:
            return str(predicate.value)
    return None
