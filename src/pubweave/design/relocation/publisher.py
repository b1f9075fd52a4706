"""Where a publisher costs least: GRAPE's two metrics for all brokers at once, and its choice.

What brokers report of a trace session becomes arrays (`DeliveryStatistics`). Both metrics of the
paper (GRAPE 4.2, Algorithms 1 to 3) follow for every broker from those of a neighbor, so one pass
up and one down the tree suffice: O(brokers x words of a bit vector) where the paper has O(N^2).

How the paper is read: a delivery at v of a publication that enters at c waits, at every broker
from c to v, for that broker's input queue, its matching and its output queue towards the next hop
(at v: towards the client). So the delay of a hop belongs to the broker that sends. The publisher
is half a round trip away from c. Deliveries count pairs of publication and subscriber, bits count
publications.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pubweave.design.relocation import _kernels_publisher as kernels
from pubweave.design.relocation.choice import candidates, choose
from pubweave.design.relocation.rules import DeliveryReport, Preference, Selection
from pubweave.design.tree.traffic import DesignError, Floats, Integers
from pubweave.model.ids import BrokerId

Words = npt.NDArray[np.uint64]

WORD_BITS = 64


@dataclass(frozen=True, eq=False)
class DeliveryStatistics:
    """The reports of a tree's brokers as arrays, each by index into ``brokers``.

    ``hop_ms[e]`` has the delays over link ``edges[e]``, from its first end and from its second.

    >>> two = DeliveryStatistics.of({
    ...     "b1": BrokerReport(1, 0b01, {"b2": 2.0}, 1.0),
    ...     "b2": BrokerReport(5, 0b11, {"b1": 2.0}, 1.0)})
    >>> metrics(two, 0).messages.tolist()
    [4, 3]
    """

    brokers: tuple[BrokerId, ...]
    edges: Integers
    hop_ms: Floats
    client_ms: Floats
    deliveries: Floats
    bits: Words

    @classmethod
    def of(cls, reports: Mapping[BrokerId, DeliveryReport]) -> DeliveryStatistics:
        """From reports by broker; neighbors that did not report are left out. O(their size)."""
        brokers = tuple(sorted(reports))
        index_of = {broker: index for index, broker in enumerate(brokers)}
        edges: list[tuple[int, int]] = []
        hop_ms: list[tuple[float, float]] = []
        for broker, report in reports.items():
            for neighbor, delay_ms in report.hop_ms.items():
                back = reports[neighbor].hop_ms if neighbor in reports else {}
                if broker < neighbor and broker in back:
                    edges.append((index_of[broker], index_of[neighbor]))
                    hop_ms.append((delay_ms, back[broker]))
        return cls(
            brokers,
            np.array(edges, dtype=np.int64).reshape(-1, 2),
            np.array(hop_ms, dtype=np.float64).reshape(-1, 2),
            np.array([reports[broker].client_ms for broker in brokers], dtype=np.float64),
            np.array([reports[broker].deliveries for broker in brokers], dtype=np.float64),
            _words([reports[broker].bits for broker in brokers]),
        )


@dataclass(frozen=True, eq=False)
class Metrics:
    """Both metrics with the publisher at each broker, by index."""

    delay_sum_ms: Floats
    """The delays of all deliveries, added; the publisher's own way to its broker not included."""
    messages: Integers
    """Publications that brokers handle, counted at each broker they pass."""


def metrics(statistics: DeliveryStatistics, root: int) -> Metrics:
    """Delay and load with the publisher at every broker; ``root`` is any of them."""
    count = len(statistics.brokers)
    order, above = np.empty(count, np.int64), np.empty(count, np.int64)
    first = np.zeros(count + 1, np.int64)
    down_ms, up_ms = np.zeros(count), np.zeros(count)
    reached = kernels.lay_out(
        statistics.edges, statistics.hop_ms, root, order, above, first, down_ms, up_ms
    )
    if reached != count or len(statistics.edges) != count - 1:
        raise DesignError("the brokers that report are no tree")
    sums, messages = np.empty(count), np.empty(count, np.int64)
    kernels.delay_sums(
        order, above, down_ms, up_ms, statistics.client_ms, statistics.deliveries, sums
    )
    kernels.message_sums(order, above, first, statistics.bits, messages)
    return Metrics(sums, messages)


def select_broker(
    statistics: DeliveryStatistics,
    publisher_at: BrokerId,
    ping_ms: Mapping[BrokerId, float],
    preference: Preference,
) -> Selection:
    """GRAPE's choice (`choice.choose`) from arrays. O(brokers)."""
    place_of = {broker: place for place, broker in enumerate(statistics.brokers)}
    found = metrics(statistics, place_of[publisher_at])
    names = candidates(statistics.brokers, publisher_at, ping_ms)
    places = np.array([place_of[broker] for broker in names])
    return choose(
        names,
        found.messages[places],
        found.delay_sum_ms[places],
        float(statistics.deliveries.sum()),
        publisher_at,
        ping_ms,
        preference,
    )


def _words(vectors: list[int]) -> Words:
    """Whole numbers as rows of words, the least significant first."""
    longest = max((bits.bit_length() for bits in vectors), default=0)
    count = max(1, -(-longest // WORD_BITS))
    joined = b"".join(bits.to_bytes(count * WORD_BITS // 8, "little") for bits in vectors)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64).reshape(-1, count)
