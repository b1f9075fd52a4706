"""The tables of a profile in plain Python: slow, obvious, and without a thought for scale.

Takes clean records as dictionaries by table and gives rows as dictionaries. A delivery tree is
named by what it is (topic, root, links, receivers) instead of by a number.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication
from pubweave.pipeline.frames.settings import ProfileSettings

Row = dict[str, Any]
Tree = tuple[str, str, frozenset[tuple[str, str]], frozenset[str]]
Key = tuple[str, int]


def key_of(row: Row) -> Key:
    return row["publisher"], row["sequence"]


@dataclass(frozen=True)
class NaiveProfile:
    """Records, settings and the window: everything else is computed on demand."""

    records: dict[str, list[Row]]
    settings: ProfileSettings
    started_at: float
    ended_at: float
    gappy: frozenset[str] = frozenset()
    """Brokers with a gap in their deliveries."""
    covered: dict[str, tuple[float, float]] | None = None

    @cached_property
    def brokers(self) -> list[str]:
        names = {row["broker"] for t, rows in self.records.items() if t != "hops" for row in rows}
        return sorted(names | {row["to_broker"] for row in self.records["hops"]})

    @cached_property
    def publications(self) -> dict[Key, Row]:
        return {key_of(row): row for row in self.records["publications"]}

    @cached_property
    def duration_s(self) -> float:
        return (self.ended_at - self.started_at) or self.settings.slot_s

    def slot(self, at: float) -> int:
        return math.floor((at - self.started_at) / self.settings.slot_s)

    # -- rates --------------------------------------------------------------------------------

    def rates(self, key: str) -> list[Row]:
        slot_s, alpha = self.settings.slot_s, self.settings.rate_alpha
        last = self.slot(self.ended_at)
        counts: Counter[tuple[str, int]] = Counter()
        weights: dict[tuple[str, int], float] = defaultdict(float)
        for row in self.records["publications"]:
            where = (row[key], self.slot(row["published_at"]))
            counts[where] += 1
            weights[where] += 1 / row["sample_ratio"]
        rows = []
        for name in sorted({name for name, _ in counts}):
            estimate = 0.0
            for slot in range(last + 1):
                rest = self.ended_at - self.started_at - slot * slot_s
                length = min(slot_s, rest) if rest > 0 else slot_s
                rate = weights.get((name, slot), 0.0) / length
                if slot < last:
                    estimate = rate if slot == 0 else (1 - alpha) * estimate + alpha * rate
                elif last == 0:
                    estimate = rate
                if (name, slot) in counts:
                    rows.append({
                        "slot": slot, "slot_started_at": self.started_at + slot * slot_s,
                        key: name, "publications": counts[name, slot], "rate_per_s": rate,
                        "filtered_rate_per_s": estimate,
                    })  # fmt: skip
            self._estimates[key, name] = estimate
        return rows

    @cached_property
    def _estimates(self) -> dict[tuple[str, str], float]:
        return {}

    def totals(self, key: str) -> list[Row]:
        self.rates(key)
        grouped: dict[str, list[Row]] = defaultdict(list)
        for row in self.records["publications"]:
            grouped[row[key]].append(row)
        found = []
        for name, rows in sorted(grouped.items()):
            total = {
                key: name,
                "publications": len(rows),
                "rate_per_s": sum(1 / row["sample_ratio"] for row in rows) / self.duration_s,
                "filtered_rate_per_s": self._estimates[key, name],
            }
            if key == "topic":
                total["publishers"] = len({row["publisher"] for row in rows})
                total["size_bytes_mean"] = fmean(row["size_bytes"] for row in rows)
            else:
                newest = max(rows, key=lambda row: (row["accepted_at"], row["sequence"]))
                total["broker"] = newest["broker"]
                total["topics"] = len({row["topic"] for row in rows})
            found.append(total)
        return found

    # -- trees, costs and interest ------------------------------------------------------------

    @cached_property
    def trees(self) -> dict[Key, Tree]:
        links: dict[Key, dict[str, tuple[float, str]]] = defaultdict(dict)
        for row in self.records["hops"]:
            hop = (row["received_at"], row["from_broker"])
            known = links[key_of(row)].get(row["to_broker"])
            links[key_of(row)][row["to_broker"]] = hop if known is None else min(known, hop)
        receivers: dict[Key, set[str]] = defaultdict(set)
        for row in self.records["deliveries"]:
            receivers[key_of(row)].add(row["broker"])
        return {
            key: (
                row["topic"],
                row["broker"],
                frozenset((hop[1], to) for to, hop in links[key].items() if to != row["broker"]),
                frozenset(receivers[key]),
            )
            for key, row in self.publications.items()
        }

    def link_cost(self, a: str, b: str) -> float:
        return self._link_costs.get((min(a, b), max(a, b)), 0.0)

    @cached_property
    def rtts(self) -> dict[tuple[str, str], list[float]]:
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in self.records["link_rtts"]:
            pair = sorted((row["broker"], row["neighbor"]))
            found[pair[0], pair[1]].append(row["rtt_ms"])
        return found

    @cached_property
    def _link_costs(self) -> dict[tuple[str, str], float]:
        return {pair: _median(values) / 2 for pair, values in self.rtts.items()}

    @cached_property
    def processing(self) -> dict[str, Row]:
        handled: dict[str, list[Row]] = defaultdict(list)
        for row in self.records["publications"]:
            handled[row["broker"]].append(row)
        for row in self.records["hops"]:
            handled[row["to_broker"]].append(row)
        found = {}
        for broker, rows in handled.items():
            matching = [row["matching_ms"] for row in rows if row["matching_ms"] is not None]
            queueing = fmean(row["queueing_ms"] for row in rows)
            found[broker] = {
                "broker": broker, "handled": len(rows), "input_queueing_ms": queueing,
                "matching_ms": fmean(matching) if matching else None,
                "processing_ms": queueing + (fmean(matching) if matching else 0.0),
            }  # fmt: skip
        return found

    def delivery_trees(self) -> dict[Tree, Row]:
        counts = Counter(self.trees.values())
        weights: dict[Tree, float] = defaultdict(float)
        for key, tree in self.trees.items():
            weights[tree] += 1 / self.publications[key]["sample_ratio"]
        found = {}
        for tree, count in counts.items():
            topic, root, links, receivers = tree
            brokers = {root, *receivers, *(to for _, to in links)}
            processing = sum(self.processing.get(b, {"processing_ms": 0})["processing_ms"]
                             for b in brokers)  # fmt: skip
            communication = sum(self.link_cost(*link) for link in links)
            found[tree] = {
                "topic": topic, "broker": root, "publications": count, "weight": weights[tree],
                "brokers": len(brokers), "links": len(links), "receivers": len(receivers),
                "relays": len(brokers - receivers - {root}), "processing_ms": processing,
                "communication_ms": communication, "cost_ms": processing + communication,
                "delay_ms": sum(self.delay_ms(tree, b) for b in receivers),
            }  # fmt: skip
        return found

    def delay_ms(self, tree: Tree, broker: str) -> float:
        _, root, links, _ = tree
        parent = {to: from_ for from_, to in links}
        delay = 0.0
        while broker != root and broker in parent:
            delay += self.link_cost(parent[broker], broker)
            broker = parent[broker]
        return delay

    @cached_property
    def interests(self) -> dict[str, set[Key]]:
        found: dict[str, set[Key]] = {broker: set() for broker in self.brokers}
        for key, (_, root, _, receivers) in self.trees.items():
            for broker in {root, *receivers}:
                found[broker].add(key)
        return found

    def common_interest(self) -> dict[tuple[str, str], int]:
        shared = {
            (a, b): len(self.interests[a] & self.interests[b])
            for a, b in combinations(self.brokers, 2)
        }
        return {pair: count for pair, count in shared.items() if count}

    @cached_property
    def topology(self) -> set[tuple[str, str]]:
        """Links that stand at the end; links that nobody recorded a change of stand."""
        last: dict[tuple[str, str], tuple[float, str]] = {}
        for row in self.records["link_changes"]:
            if row["change"] in ("added", "removed"):
                pair = (min(row["broker"], row["neighbor"]), max(row["broker"], row["neighbor"]))
                last[pair] = max(last.get(pair, (-1.0, "")), (row["changed_at"], row["change"]))
        unseen = set(self.rtts) | {
            (min(a, b), max(a, b)) for _, _, links, _ in self.trees.values() for a, b in links
        }
        gone = {pair for pair, (_, change) in last.items() if change == "removed"}
        return (set(last) | unseen) - gone

    def distances(self) -> dict[tuple[str, str], int]:
        neighbors: dict[str, set[str]] = defaultdict(set)
        for a, b in self.topology:
            neighbors[a].add(b)
            neighbors[b].add(a)
        found = {}
        for broker in sorted(neighbors):
            seen, edge = {broker}, {broker}
            for hops in range(1, self.settings.neighborhood_hops + 1):
                edge = {n for b in edge for n in neighbors[b]} - seen
                seen |= edge
                found.update({(broker, other): hops for other in edge})
        return found

    def phi(self, broker: str) -> float | None:
        near = [other for one, other in self.distances() if one == broker]
        if len(near) < 2:
            return None
        own = self.interests[broker]
        overlap = sum(len(own & self.interests[other]) for other in near)
        return max(0.0, (overlap - len(own)) / (len(near) - 1))

    def triples(self) -> dict[tuple[str, str, str], Row]:
        near = self.distances()
        found = {}
        for (broker, far), hops in near.items():
            for via in self.brokers:
                if near.get((via, far)) == 1 and near.get((broker, via)) == hops - 1:
                    i, k, j = (self.interests[b] for b in (broker, via, far))
                    phi = self.phi(broker)
                    estimate = None if phi is None else min(phi, len(i & j), len(i & k))
                    found[broker, via, far] = {
                        "hops": hops, "notifications": len(i & k & j), "estimate": estimate,
                    }  # fmt: skip
        return found

    # -- traces -------------------------------------------------------------------------------

    def traced(self) -> dict[str, list[int]]:
        """By publisher the sequences of its trace window."""
        by_publisher: dict[str, list[Row]] = defaultdict(list)
        for row in self.publications.values():
            by_publisher[row["publisher"]].append(row)
        found = {}
        for publisher, rows in by_publisher.items():
            span = math.ceil(self.settings.trace_length / min(r["sample_ratio"] for r in rows))
            last = max(row["sequence"] for row in rows)
            found[publisher] = sorted(r["sequence"] for r in rows if r["sequence"] > last - span)
        return found

    def traces(self) -> dict[tuple[str, str], Row]:
        found: dict[tuple[str, str], Row] = {}
        traced = self.traced()
        for row in self.records["deliveries"]:
            sequences = traced.get(row["publisher"], [])
            if row["sequence"] not in sequences:
                continue
            vector = found.setdefault((row["publisher"], row["broker"]), {
                "first_sequence": sequences[0], "last_sequence": sequences[-1],
                "traced": len(sequences), "bits": set(), "local_deliveries": 0,
            })  # fmt: skip
            vector["bits"].add(sequences.index(row["sequence"]))
            vector["local_deliveries"] += 1
        return found

    def downstream(self) -> dict[tuple[str, str, str], Row]:
        counts: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        local: Counter[tuple[Key, str]] = Counter(
            (key_of(row), row["broker"]) for row in self.records["deliveries"]
        )
        for publisher, sequences in self.traced().items():
            for sequence in sequences:
                key = (publisher, sequence)
                _, _, links, _ = self.trees[key]
                children: dict[str, list[str]] = defaultdict(list)
                for from_, to in links:
                    children[from_].append(to)
                for from_, to in links:
                    counts[publisher, from_, to].append(_below(to, children, key, local))
        alpha = self.settings.running_average_alpha
        found = {}
        for link, values in counts.items():
            running = values[0]
            for value in values[1:]:
                running = (1 - alpha) * running + alpha * value
            found[link] = {"publications": len(values), "subscribers_mean": fmean(values),
                           "subscribers_running": running}  # fmt: skip
        return found

    # -- subscriptions ------------------------------------------------------------------------

    @cached_property
    def intervals(self) -> list[Row]:
        changes = sorted(
            self.records["subscription_changes"],
            key=lambda row: (row["changed_at"], row["epoch"], row["record_number"]),
        )
        found = []
        for index, row in enumerate(changes):
            if row["change"] != "added":
                continue
            same = ("client", "subscription", "broker")
            later = [r for r in changes[index + 1 :] if all(r[n] == row[n] for n in same)]
            found.append({
                **{n: row[n] for n in (*same, "topic", "filter")}, "added_at": row["changed_at"],
                "removed_at": later[0]["changed_at"] if later else None,
            })  # fmt: skip
        return found

    def standing(self) -> list[Row]:
        return [row for row in self.intervals if row["removed_at"] is None]

    def client_topics(self) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], tuple[float, str]] = {}
        for row in self.standing():
            if row["topic"] is not None:
                pair = (row["client"], row["topic"])
                found[pair] = max(
                    found.get(pair, (-math.inf, "")), (row["added_at"], row["broker"])
                )
        return {pair: broker for pair, (_, broker) in found.items()}

    def broker_topics(self) -> Counter[tuple[str, str]]:
        return Counter((broker, topic) for (_, topic), broker in self.client_topics().items())

    def topic_turns(self) -> Counter[str]:
        moments: dict[tuple[str, str], Counter[float]] = defaultdict(Counter)
        for row in self.intervals:
            if row["topic"] is not None:
                moments[row["broker"], row["topic"]][row["added_at"]] += 1
                if row["removed_at"] is not None:
                    moments[row["broker"], row["topic"]][row["removed_at"]] -= 1
        turns: Counter[str] = Counter()
        for (broker, _), changes in moments.items():
            count = 0
            for at in sorted(changes):
                turns[broker] += (count == 0) != (count + changes[at] == 0)
                count += changes[at]
        return turns

    def candidates(self) -> list[Row]:
        wanted: dict[str, set[str]] = defaultdict(set)
        current = self.client_topics()
        for client, topic in current:
            wanted[client].add(topic)
        offered = self.broker_topics()
        loads = Counter(row["broker"] for row in self.standing())
        found = []
        for client, topics in sorted(wanted.items()):
            ranked = []
            for broker in sorted({b for b, _ in offered}):
                shared = sum(
                    offered[broker, t] > (1 if current[client, t] == broker else 0) for t in topics
                )
                if shared:
                    load = loads[broker] / loads.total()
                    ranked.append((-shared / len(topics), load, broker))
            for rank, (similarity, load, broker) in enumerate(sorted(ranked), 1):
                if rank <= self.settings.candidates:
                    found.append({
                        "client": client, "rank": rank, "broker": broker,
                        "similarity": -similarity, "load": load,
                        "is_current": _is_at(client, broker, topics, current, offered),
                    })  # fmt: skip
        return found

    # -- audit --------------------------------------------------------------------------------

    def pair_certainty(self, publication: Row, row: Row) -> int:
        """2: due, 1: uncertain, 0: neither."""
        at, settle = publication["published_at"], self.settings.settle_s
        content = Publication(publication["publisher"], publication["sequence"],
                              publication["topic"], publication["attributes"], b"", at)  # fmt: skip
        if not parse_filter(row["filter"]).matches(content):
            return 0
        removed_at = math.inf if row["removed_at"] is None else row["removed_at"]
        if row["added_at"] + settle <= at and at + settle <= removed_at:
            return 2
        return int(row["added_at"] - settle <= at <= removed_at + settle)

    def audit(self) -> tuple[Row, set[tuple[str, str, int, str]]]:
        settle = self.settings.settle_s
        got = Counter((*key_of(row), row["client"]) for row in self.records["deliveries"])
        where = {(*key_of(row), row["client"]): row["broker"] for row in self.records["deliveries"]}
        verdict: Counter[str] = Counter(publications=len(self.publications))
        findings = set()
        for key, publication in self.publications.items():
            at = publication["published_at"]
            fresh = any(
                row["client"] == key[0] and abs(at - row["changed_at"]) < settle
                for row in self.records["advertisement_changes"]
                if row["change"] == "added"
            )
            due: dict[str, tuple[int, float, str]] = {}
            for row in self.intervals:
                certainty = self.pair_certainty(publication, row)
                if certainty:
                    found = (certainty, row["added_at"], row["broker"])
                    due[row["client"]] = max(due.get(row["client"], found), found)
            clients = set(due) | {client for p, s, client in got if (p, s) == key}
            for client in sorted(clients):
                count = got[(*key, client)]
                certainty = due.get(client, (0, 0.0, ""))[0]
                broker = due[client][2] if client in due else where[(*key, client)]
                kind = _kind(certainty, count, fresh or at > self.ended_at - settle)
                if kind == "missing":
                    verdict["due"] += 1
                    first, last = (self.covered or {}).get(broker, (math.inf, -math.inf))
                    is_covered = broker not in self.gappy and first <= at and at + settle <= last
                    kind = "lost" if is_covered else "unproven"
                    findings.add((kind, *key, client))
                    verdict[kind] += 1
                elif kind == "delivered":
                    verdict["due"] += 1
                    verdict["delivered"] += 1
                else:
                    verdict[kind] += 1
                    if kind == "unexpected":
                        findings.add((kind, *key, client))
                if count > 1:
                    verdict["duplicated"] += count - 1
                    findings.add(("duplicated", *key, client))
        return dict(verdict), findings


def grouped(rows: Iterable[Row], by: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[by(row)].append(row)
    return found


def _kind(certainty: int, count: int, excused: bool) -> str:
    if certainty == 0:
        return "unexpected"
    if certainty == 1 or (count == 0 and excused):
        return "uncertain"
    return "delivered" if count else "missing"


def _median(values: list[float]) -> float:
    """The lower median: the value that half of all are at or below."""
    return sorted(values)[(len(values) - 1) // 2]


def _below(
    broker: str, children: dict[str, list[str]], key: Key, local: Counter[tuple[Key, str]]
) -> float:
    return local[key, broker] + sum(_below(c, children, key, local) for c in children[broker])


def _is_at(
    client: str,
    broker: str,
    topics: set[str],
    current: dict[tuple[str, str], str],
    offered: Counter[tuple[str, str]],
) -> bool:
    """Whether one of the topics that make the broker a candidate is asked for there."""
    return any(current[client, t] == broker and offered[broker, t] > 1 for t in topics)
