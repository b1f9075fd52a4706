"""What can happen to the nodes of an overlay in a churn round, and what came of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pubweave.design.tco.low_oda import RHO

Pair = tuple[str, str]


@dataclass(frozen=True)
class Join:
    """A node comes with its topics."""

    node: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Leave:
    """A node goes, announced or not: its links are gone."""

    node: str


@dataclass(frozen=True)
class Resubscribe:
    """A node that stays wants some topics more, and some no longer."""

    node: str
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


Change = Join | Leave | Resubscribe


class ChurnError(ValueError):
    """A change that cannot be: of a node that is not there, or is already."""


class Method(Enum):
    """Whom new links are sought among."""

    SHADOW = "shadow"
    NAIVE = "naive"


class Backups(Enum):
    """How backups are chosen: Algorithm 12 or 11."""

    PRIMAL_DUAL = "primal-dual"
    GREEDY = "greedy"


class DegreeRule(Enum):
    """Which degree links should not exceed: the paper's maximum over all nodes, or over the
    shadow set, or the fixed level that ``lean`` keeps to, dropping links nobody needs."""

    ALL = "all"
    SHADOWS = "shadows"
    LEAN = "lean"


@dataclass(frozen=True)
class ChurnSettings:
    """How an overlay is maintained; the defaults but for ``rule`` are the paper's."""

    method: Method = Method.SHADOW
    backups: Backups = Backups.PRIMAL_DUAL
    rule: DegreeRule = DegreeRule.LEAN
    coverage: int = 3
    rho: float = RHO
    window: int = 128
    """So many subscribers of a topic are looked at for a backup; the paper looks at all."""


@dataclass(frozen=True)
class RoundOutcome:
    """What a round did to the links."""

    added: tuple[Pair, ...]
    removed: tuple[Pair, ...]
    shadow_size: int
    """How many nodes new links were sought among."""

    @property
    def changed(self) -> int:
        return len(self.added) + len(self.removed)


def check_changes(
    changes: Sequence[Change], nodes: Collection[str], topics_of: Callable[[str], set[str]]
) -> None:
    """Raise `ChurnError` naming the first change that cannot be made to these nodes."""
    seen: set[str] = set()
    for change in changes:
        name = change.node
        if name in seen:
            raise ChurnError(f"node {name!r} is changed twice in one round")
        seen.add(name)
        if isinstance(change, Join):
            if name in nodes:
                raise ChurnError(f"node {name!r} joins but is there already")
        elif name not in nodes:
            verb = "leaves" if isinstance(change, Leave) else "changes its topics"
            raise ChurnError(f"node {name!r} {verb} but is not there")
        if isinstance(change, Resubscribe):
            _check_topics(change, topics_of(name))


def _check_topics(change: Resubscribe, held: set[str]) -> None:
    for topic in change.begun:
        if topic in held:
            raise ChurnError(f"node {change.node!r} begins topic {topic!r}, which it has already")
    for topic in change.ended:
        if topic not in held:
            raise ChurnError(f"node {change.node!r} ends topic {topic!r}, which it does not have")


# Churn as text: a round is a line of JSON, or the rows of a CSV file with the same number.
#
# {"join": "n7", "topics": ["a", "b"]}
# [{"leave": "n3"}, {"change": "n4", "begin": ["c"], "end": ["a"]}]
#
# round,change,client,topic
# 1,join,n7,a
# 1,join,n7,b
# 2,leave,n3,
# 2,begin,n4,c


COLUMNS = ("round", "change", "client", "topic")
_KEYS = {"join": {"topics"}, "leave": set(), "change": {"begin", "end"}}
_EXAMPLE = '{"join": "n7", "topics": ["a"]}, {"leave": "n3"} or {"change": "n4", "begin": ["c"]}'


def parse_round(line: str) -> list[Change]:
    """The changes in a line of JSON; raises `ChurnError`.

    >>> parse_round('{"leave": "n3"}')
    [Leave(node='n3')]
    """
    try:
        document = json.loads(line)
    except json.JSONDecodeError as error:
        raise ChurnError(f"not JSON at column {error.colno}: {error.msg}") from error
    changes = document if isinstance(document, list) else [document]
    return [_parse_change(change) for change in changes]


def _parse_change(document: Any) -> Change:
    kinds = [kind for kind in _KEYS if isinstance(document, dict) and kind in document]
    if len(kinds) != 1:
        raise ChurnError(f"expected {_EXAMPLE}, got {json.dumps(document)[:60]}")
    [kind] = kinds
    node = document[kind]
    if not isinstance(node, str) or not node:
        raise ChurnError(f"{kind}: a node is a non-empty string, got {json.dumps(node)}")
    unknown = set(document) - {kind} - _KEYS[kind]
    if unknown:
        known = ", ".join(sorted(_KEYS[kind])) or "nothing else"
        raise ChurnError(f"{kind} goes with {known}, got {min(unknown)!r}")
    if kind == "join":
        return Join(node, _topics(document, "topics"))
    if kind == "leave":
        return Leave(node)
    return Resubscribe(node, _topics(document, "begin"), _topics(document, "end"))


def _topics(document: dict[str, Any], key: str) -> tuple[str, ...]:
    topics = document.get(key, [])
    if not isinstance(topics, list) or not all(isinstance(t, str) and t for t in topics):
        raise ChurnError(f"{key}: expected a list of non-empty strings")
    return tuple(dict.fromkeys(topics))


def parse_rows(lines: Iterable[str]) -> Iterator[list[Change]]:
    """The rounds of a CSV file in the order of its rows; raises `ChurnError` naming the line."""
    rows = csv.DictReader(lines)
    if rows.fieldnames is None or not set(COLUMNS) <= set(rows.fieldnames):
        found = ",".join(rows.fieldnames or ())
        raise ChurnError(f"line 1: has the columns {found}; expected {','.join(COLUMNS)}")
    number: str | None = None
    collected: list[tuple[str, str, str]] = []
    for row in rows:
        where = f"line {rows.line_num}"
        kind, client, topic = (row[name] or "" for name in COLUMNS[1:])
        if kind not in ("join", "leave", "begin", "end"):
            raise ChurnError(f"{where}: change {kind!r}: there are join, leave, begin and end")
        if not client:
            raise ChurnError(f"{where}: has no client")
        if kind in ("begin", "end") and not topic:
            raise ChurnError(f"{where}: {kind} needs a topic")
        if number is not None and row["round"] != number:
            yield _round_of(collected)
            collected = []
        number = row["round"]
        collected.append((kind, client, topic))
    if collected:
        yield _round_of(collected)


def _round_of(rows: list[tuple[str, str, str]]) -> list[Change]:
    """Rows of one round as changes, one for each client (and another if it also leaves)."""
    topics: dict[tuple[str, str], dict[str, None]] = {}
    for kind, client, topic in rows:
        topics.setdefault((kind, client), {}).update({topic: None} if topic else {})
    changes: list[Change] = []
    for kind, client in topics:
        if kind == "join":
            changes.append(Join(client, tuple(topics[kind, client])))
        elif kind == "leave":
            changes.append(Leave(client))
        elif kind == "begin" or ("begin", client) not in topics:
            begun = tuple(topics.get(("begin", client), ()))
            changes.append(Resubscribe(client, begun, tuple(topics.get(("end", client), ()))))
    return changes
