"""How fast the matching index answers, beside scans over the same subscriptions.

The workload is IPITT's (section VI-A): 10 classes of Zipf popularity (a = 1.1), two attributes in
0..1000, each subscription one class and a range with uniform random ends on both attributes, each
publication uniform over the content space: any class, any values. An answer is the tuple of the
distinct destinations. Three spreads of the subscriptions over 5 links and 1,000 local clients:

- overlay: as in IPITT every client has one subscription, so 1,000 are local and the rest come over
  the links;
- half: every second one is local, so a client has 50, in all classes, and hundreds of destinations
  are in each answer;
- even: every destination, link or client, has the same number, about 100.

Rivals, all given contiguous typed arrays and the same destination objects: a plain numpy scan
(masks over all rows, then `np.unique`), the same with the fastest way found to get distinct
destinations (marking them), and one over the rows of the publication's class only, marking, too.
All methods run in one process, in rounds one after the other; the best round of each counts. Every
answer is compared. Clients and links are asked apart, as a broker asks them.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubweave.core.matching.index import MatchIndex
from pubweave.model.filters.filter import Filter, Operator, Predicate, topic_filter
from pubweave.model.publications import Publication, make_publication

CLASSES, LINKS, CLIENTS = 10, 5, 1000
Matcher = Callable[[Publication], Iterable[Any]]


class Session:
    """Stands for a broker's session object: hashed and compared by identity."""

    __slots__ = ()


@dataclass(frozen=True)
class Workload:
    """Subscriptions as arrays and as filters, and publications to match."""

    classes: NDArray[np.int64]
    ends: NDArray[Any]
    filters: list[Filter]
    publications: list[Publication]


def make_workload(count: int, publications: int, integers: bool, seed: int) -> Workload:
    """IPITT's subscriptions and publications, with integer or float ranges and values."""
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, CLASSES + 1) ** -1.1
    popularity /= popularity.sum()

    def draw(*shape: int) -> NDArray[Any]:
        return rng.integers(0, 1001, shape) if integers else rng.uniform(0, 1000, shape)

    classes = rng.choice(CLASSES, count, p=popularity)
    ends = np.sort(draw(count, 2, 2), axis=2)
    filters = [
        ranges_filter(f"c{c}", *e) for c, e in zip(classes.tolist(), ends.tolist(), strict=True)
    ]
    topics = rng.integers(0, CLASSES, publications).tolist()
    values = draw(publications, 2).tolist()
    return Workload(
        classes,
        ends,
        filters,
        [
            make_publication("p", i, f"c{c}", {"a": a, "b": b}, b"", 0.0)
            for i, (c, (a, b)) in enumerate(zip(topics, values, strict=True))
        ],
    )


def ranges_filter(topic: str, a: Sequence[float], b: Sequence[float]) -> Filter:
    return Filter(
        (
            Predicate("class", Operator.EQ, topic),
            Predicate("a", Operator.GE, a[0]),
            Predicate("a", Operator.LE, a[1]),
            Predicate("b", Operator.GE, b[0]),
            Predicate("b", Operator.LE, b[1]),
        )
    )


class Scan:
    """A plain numpy scan: masks over all rows, then the distinct destinations."""

    distinct = staticmethod(lambda owners, objects: tuple(objects[np.unique(owners)].tolist()))

    def __init__(self, work: Workload, owners: NDArray[np.int64], objects: NDArray[Any]) -> None:
        self._class_of = {f"c{c}": c for c in range(CLASSES)}
        self._classes = work.classes.astype(np.int8)
        self._bounds = [np.ascontiguousarray(work.ends[:, i, j]) for i in (0, 1) for j in (0, 1)]
        self._owners = owners
        self._objects = objects

    def match(self, publication: Publication) -> tuple[Any, ...]:
        a_low, a_high, b_low, b_high = self._bounds
        a, b = publication.attributes["a"], publication.attributes["b"]
        rows = self._classes == self._class_of[publication.topic]
        rows &= a_low <= a
        rows &= a_high >= a
        rows &= b_low <= b
        rows &= b_high >= b
        return self.distinct(self._owners[rows], self._objects)


class MarkingScan(Scan):
    """The same with distinct destinations found faster."""

    distinct = staticmethod(lambda owners, objects: distinct(owners, objects))


class ClassScan:
    """The stronger rival: each class has its own arrays, and only those are scanned."""

    def __init__(self, work: Workload, owners: NDArray[np.int64], objects: NDArray[Any]) -> None:
        self._objects = objects
        self._by_topic = {}
        for c in range(CLASSES):
            rows = work.classes == c
            bounds = [np.ascontiguousarray(work.ends[rows, i, j]) for i in (0, 1) for j in (0, 1)]
            self._by_topic[f"c{c}"] = (*bounds, owners[rows])

    def match(self, publication: Publication) -> tuple[Any, ...]:
        a_low, a_high, b_low, b_high, owners = self._by_topic[publication.topic]
        a, b = publication.attributes["a"], publication.attributes["b"]
        rows = a_low <= a
        rows &= a_high >= a
        rows &= b_low <= b
        rows &= b_high >= b
        return distinct(owners[rows], self._objects)


def distinct(owners: NDArray[np.int64], objects: NDArray[Any]) -> tuple[Any, ...]:
    """Each destination once; marking was the fastest of the ways tried (unique, bincount, set)."""
    hit = np.zeros(len(objects), np.bool_)
    hit[owners] = True
    return tuple(objects[hit.nonzero()[0]].tolist())


@dataclass
class Indexes:
    """A broker's two indexes, filled, with what filling them cost."""

    links: MatchIndex[Session]
    clients: MatchIndex[Session]
    insert_s: float
    memory_mb: float

    def match(self, publication: Publication) -> tuple[tuple[Session, ...], tuple[Session, ...]]:
        return self.links.match(publication), self.clients.match(publication)

    def all_matching(self, publication: Publication) -> tuple[Session, ...]:
        links, clients = self.match(publication)
        return links + clients


def fill_indexes(work: Workload, owners: NDArray[np.int64], objects: NDArray[Any]) -> Indexes:
    """Enter all subscriptions, then one publication per class so that all is built."""
    entries = [(owner, objects[owner]) for owner in owners.tolist()]
    probes = [make_publication("p", 0, f"c{c}", {"a": 1, "b": 1}, b"", 0.0) for c in range(CLASSES)]
    before_mb = resident_mb()
    links: MatchIndex[Session] = MatchIndex()
    clients: MatchIndex[Session] = MatchIndex()
    started = time.perf_counter()
    for i, (filter, (owner, destination)) in enumerate(zip(work.filters, entries, strict=True)):
        (links if owner < LINKS else clients).add(i, filter, destination)
    for probe in probes:
        links.match(probe)
        clients.match(probe)
    insert_s = time.perf_counter() - started
    return Indexes(links, clients, insert_s, resident_mb() - before_mb)


def resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6


def make_destinations(count: int, spread: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The owner of each subscription: links are 0..4, clients follow."""
    objects = np.full(LINKS + CLIENTS, None, object)
    for i in range(len(objects)):
        objects[i] = Session()
    number = np.arange(count)
    if spread == "even":
        return number % (LINKS + CLIENTS), objects
    every = 2 if spread == "half" else count // CLIENTS
    local = number % every == 0
    owners = np.where(local, LINKS + number // every % CLIENTS, number % LINKS)
    return owners, objects


def time_interleaved(
    matchers: dict[str, Matcher], publications: Sequence[Publication], rounds: int
) -> dict[str, float]:
    """Microseconds per publication of each matcher: the best of rounds taken in turn."""
    best = dict.fromkeys(matchers, float("inf"))
    for _ in range(rounds):
        for name, match in matchers.items():
            started = time.perf_counter()
            for publication in publications:
                match(publication)
            best[name] = min(best[name], time.perf_counter() - started)
    return {name: seconds / len(publications) * 1e6 for name, seconds in best.items()}


def check_agreement(matchers: dict[str, Matcher], publications: Sequence[Publication]) -> None:
    """Raise AssertionError unless all matchers give the same set, each destination once."""
    for publication in publications:
        answers = {name: tuple(match(publication)) for name, match in matchers.items()}
        for name, answer in answers.items():
            if len(set(answer)) != len(answer) or set(answer) != set(answers["scan"]):
                raise AssertionError(f"{name} disagrees with the scan about {publication}")


def measure_many(
    integers: bool, spread: str, count: int, publications: int, rounds: int
) -> dict[str, float]:
    """The index beside both scans over ``count`` subscriptions, links and clients together."""
    work = make_workload(count, publications, integers, seed=7)
    owners, objects = make_destinations(count, spread)
    indexes = fill_indexes(work, owners, objects)
    matchers: dict[str, Matcher] = {
        "scan": Scan(work, owners, objects).match,
        "marking_scan": MarkingScan(work, owners, objects).match,
        "class_scan": ClassScan(work, owners, objects).match,
        "index": indexes.all_matching,
    }
    check_agreement(matchers, work.publications)
    matchers |= {
        "index": indexes.match,
        "links": indexes.links.match,
        "clients": indexes.clients.match,
    }
    us = time_interleaved(matchers, work.publications, rounds)
    result = {f"{name}_us": value for name, value in us.items()}
    result["times_scan"] = us["scan"] / us["index"]
    result["times_marking_scan"] = us["marking_scan"] / us["index"]
    result["times_class_scan"] = us["class_scan"] / us["index"]
    result["links_times_scan"] = us["scan"] / us["links"]
    result["publications_per_s"] = 1e6 / us["index"]
    result["answer_size"] = float(
        np.mean([len(indexes.all_matching(p)) for p in work.publications])
    )
    result["insert_s"] = indexes.insert_s
    result["memory_mb"] = indexes.memory_mb
    result["change_us"] = measure_changes(indexes, work, owners, objects)
    result["remove_s"] = measure_removal(indexes, owners)
    return result


def measure_changes(
    indexes: Indexes, work: Workload, owners: NDArray[np.int64], objects: NDArray[Any]
) -> float:
    """Microseconds per change in a full index: remove, match, add again, match."""
    count = min(1000, len(owners))
    started = time.perf_counter()
    for i, owner in enumerate(owners[:count].tolist()):
        index = indexes.links if owner < LINKS else indexes.clients
        probe = work.publications[i % len(work.publications)]
        index.remove(i)
        index.match(probe)
        index.add(i, work.filters[i], objects[owner])
        index.match(probe)
    return (time.perf_counter() - started) / (2 * count) * 1e6


def measure_removal(indexes: Indexes, owners: NDArray[np.int64]) -> float:
    started = time.perf_counter()
    for i, owner in enumerate(owners.tolist()):
        (indexes.links if owner < LINKS else indexes.clients).remove(i)
    return time.perf_counter() - started


def measure_small(rounds: int) -> dict[str, float]:
    """The small cases of one broker: 1,000 content subscriptions, and exact topics."""
    work = make_workload(1000, 2000, False, seed=8)
    small: MatchIndex[Session] = MatchIndex()
    for i, filter in enumerate(work.filters):
        small.add(i, filter, Session())
    topics: MatchIndex[Session] = MatchIndex()
    for i in range(1000):
        topics.add(i, topic_filter(f"t{i % 100}"), Session())
    on_topics = [make_publication("p", i, f"t{i % 100}", {}, b"", 0.0) for i in range(2000)]
    return {
        "content_1000_us": time_interleaved({"m": small.match}, work.publications, rounds)["m"],
        "exact_topic_us": time_interleaved({"m": topics.match}, on_topics, rounds)["m"],
    }


def run(count: int = 100_000, publications: int = 1000, rounds: int = 7) -> dict[str, Any]:
    """All figures; raises AssertionError if any two answers differ."""
    result: dict[str, Any] = {"subscriptions": count, "small": measure_small(rounds)}
    for spread in ("overlay", "half", "even"):
        for integers in (False, True):
            name = f"{spread} {'integer' if integers else 'float'}"
            result[name] = measure_many(integers, spread, count, publications, rounds)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--count", type=int, default=100_000, help="subscriptions, 2,000 or more")
    arguments = parser.parse_args()
    result = run(arguments.count)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    columns = [name for name in result if name not in ("subscriptions", "small")]
    print(f"{result['subscriptions']:,} subscriptions at 5 links and 1,000 clients")
    print(f"{'':20s}" + "".join(f"{name:>16s}" for name in columns))
    for row in result[columns[0]]:
        print(f"{row:20s}" + "".join(f"{result[name][row]:16,.2f}" for name in columns))
    for name, value in result["small"].items():
        print(f"{name:20s}{value:16.2f}")


if __name__ == "__main__":
    main()
