"""Churn as text: a round is a line of JSON, or the rows of a CSV file with the same number.

{"join": "n7", "topics": ["a", "b"]}
[{"leave": "n3"}, {"change": "n4", "begin": ["c"], "end": ["a"]}]

round,change,client,topic
1,join,n7,a
1,join,n7,b
2,leave,n3,
2,begin,n4,c
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from pubweave.design.tco.changes import Change, ChurnError, Join, Leave, Resubscribe

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
