"""Who is near whom: brokers within some hops, by the topology at the window's end.

There are as many links as brokers, so the search runs on the driver: as a query it would be a join
per hop, each slower than the whole search.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType

from pubweave.pipeline.frames.schemas import columns, local_frame

Neighbors = Mapping[str, set[str]]


def distances(spark: SparkSession, links: DataFrame, hops: int) -> DataFrame:
    """Pairs of brokers at most ``hops`` apart, both ways: broker, other, hops."""
    neighbors = _present(links)
    rows = [
        (broker, other, distance)
        for broker in sorted(neighbors)
        for other, distance in sorted(_reached(broker, neighbors, hops).items())
        if other != broker
    ]
    schema = columns(broker=StringType(), other=StringType(), hops=LongType())
    return local_frame(spark, rows, schema)


def longest_path(links: DataFrame, brokers: int) -> int:
    """A bound on the hops of any delivery tree: exact where the links make a tree.

    All links count that there ever were: a tree may be from before a transformation.
    """
    pairs = [(row["broker_a"], row["broker_b"]) for row in links.collect()]
    neighbors = _neighbors(pairs)
    if not neighbors:
        return 1
    if len(pairs) >= len(neighbors):
        return max(brokers, len(neighbors))
    return max(max(_reached(b, neighbors, len(neighbors)).values()) for b in sorted(neighbors))


def ways(spark: SparkSession, links: DataFrame, hops: int) -> DataFrame:
    """The triples CI asks for: via is a neighbor of far and one hop nearer to the broker."""
    neighbors = _present(links)
    rows = [
        (broker, via, far, distance)
        for broker in sorted(neighbors)
        for reached in (_reached(broker, neighbors, hops),)
        for far, distance in sorted(reached.items())
        for via in sorted(neighbors[far])
        if distance >= 2 and reached.get(via) == distance - 1
    ]
    schema = columns(broker=StringType(), via=StringType(), far=StringType(), hops=LongType())
    return local_frame(spark, rows, schema)


def _present(links: DataFrame) -> Neighbors:
    """Who is linked to whom now. Frames that are held come to the driver without a job."""
    rows = links.select("broker_a", "broker_b", "is_present").collect()
    return _neighbors((row["broker_a"], row["broker_b"]) for row in rows if row["is_present"])


def _neighbors(pairs: Iterable[tuple[str, str]]) -> Neighbors:
    found: dict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        found[a].add(b)
        found[b].add(a)
    return found


def _reached(broker: str, neighbors: Neighbors, hops: int) -> dict[str, int]:
    """All brokers within some hops, with their distance; the broker itself at 0."""
    found = {broker: 0}
    edge = deque([broker])
    while edge:
        at = edge.popleft()
        if found[at] == hops:
            break
        for neighbor in sorted(neighbors[at]):
            if neighbor not in found:
                found[neighbor] = found[at] + 1
                edge.append(neighbor)
    return found
