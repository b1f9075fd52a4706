"""Files about brokers on a ring: who wants which topic, how much is published, who is where.

CSV, gzip or not, with fixed names of columns. Complaints name the file, the line and the fix.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pubweave.model.files.atomic import replace_file
from pubweave.model.ids import BrokerId

SUBSCRIPTIONS = "broker,topic"
PUBLICATIONS = "topic,publications"
MAPPING = "broker,position"


class MappingFileError(ValueError):
    """A file about a ring that cannot be used, and why."""


def read_broker_topics(path: Path) -> dict[BrokerId, list[str]]:
    """Topics by broker, in order of appearance; a line without a topic is a broker without any."""
    found: dict[BrokerId, list[str]] = {}
    for line, (broker, topic) in _rows(path, SUBSCRIPTIONS):
        if not broker:
            raise MappingFileError(f"{path}: line {line} has no broker; write {SUBSCRIPTIONS}")
        found.setdefault(broker, []).extend([topic] if topic else [])
    if not found:
        raise MappingFileError(f"{path}: has no rows below its header; write {SUBSCRIPTIONS} lines")
    return found


def read_publications(path: Path) -> dict[str, float]:
    """How many publications each topic has."""
    counts: dict[str, float] = {}
    for line, (topic, text) in _rows(path, PUBLICATIONS):
        try:
            count = float(text)
        except ValueError:
            count = math.nan
        if not (math.isfinite(count) and count >= 0):
            raise MappingFileError(
                f"{path}: line {line}: publications {text!r} must be a number >= 0"
            )
        if not topic or topic in counts:
            wrong = f"topic {topic!r} comes twice" if topic else "has no topic"
            raise MappingFileError(f"{path}: line {line}: {wrong}; write each topic once")
        counts[topic] = count
    return counts


def read_mapping(path: Path, known: Collection[BrokerId] | None = None) -> dict[BrokerId, int]:
    """Positions on a ring by broker, from 0, each once; of exactly the ``known`` brokers."""
    rows = list(_rows(path, MAPPING))
    count = len(rows) if known is None else len(known)
    found: dict[BrokerId, int] = {}
    owners: dict[int, BrokerId] = {}
    for line, (broker, text) in rows:
        if known is not None and broker not in known:
            raise MappingFileError(
                f"{path}: line {line}: broker {broker!r} is not in the subscriptions"
            )
        position = int(text) if text.isascii() and text.isdigit() else -1
        if not 0 <= position < count:
            raise MappingFileError(
                f"{path}: line {line}: position {text!r} must be from 0 to {count - 1}"
            )
        if position in owners or broker in found:
            other = owners.get(position)
            what = f"position {position} has {other!r} already" if other else f"{broker!r} is twice"
            raise MappingFileError(
                f"{path}: line {line}: {what}; give each broker a position of its own"
            )
        found[broker], owners[position] = position, broker
    for broker in known or ():
        if broker not in found:
            raise MappingFileError(f"{path}: has no position for broker {broker!r}")
    return found


def write_mapping(path: Path, mapping: Mapping[BrokerId, int]) -> None:
    """As `read_mapping` reads it; whole or not at all."""
    lines = [MAPPING]
    for broker, position in mapping.items():
        quoted = broker.replace('"', '""')
        lines.append(
            f'"{quoted}",{position}' if set(broker) & set('",') else f"{broker},{position}"
        )
    replace_file(path, ("\n".join(lines) + "\n").encode())


def _rows(path: Path, header: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """The two fields of each line below the header, without blanks around them."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            found = ",".join(name.strip() for name in next(reader, [])) or "nothing"
            if found != header:
                raise MappingFileError(
                    f"{path}: begins with {found}; its first line must be {header}"
                )
            for fields in reader:
                if fields and len(fields) != 2:
                    raise MappingFileError(
                        f"{path}: line {reader.line_num} has {len(fields)} fields; write {header}"
                    )
                if fields:
                    yield reader.line_num, (fields[0].strip(), fields[1].strip())
    except (UnicodeDecodeError, csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise MappingFileError(f"{path}: not CSV in UTF-8: {error}") from error
