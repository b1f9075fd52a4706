"""What ``pubweave design dynatops`` reads and writes: plain CSV files, or a profile and a ring."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pubweave.cli.deploy.plan_view import counted
from pubweave.cli.errors import BadInput
from pubweave.design.dynatops.mapping.ring import RING_SIZE, Ring
from pubweave.design.tco.interests import Subscriptions
from pubweave.model.files.atomic import replace_file
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.files.topology import read_topology
from pubweave.model.ids import natural_order

if TYPE_CHECKING:
    from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem

SUBSCRIPTIONS = ("broker", "topic")
PUBLICATIONS = ("topic", "publications")
MAPPING = ("broker", "position")
RING_ID = "ring_id"
"""The attribute of a broker in a topology file that says where on the ring it is."""


class MappingInputs(NamedTuple):
    """The problem, the mapping that is there, and remarks about what the files lack."""

    problem: MappingProblem
    mapping: BrokerMapping
    remarks: tuple[str, ...]


def from_plain_files(
    subscriptions: Path, publications: Path, mapping: Path | None, delay_weight: float
) -> MappingInputs:
    """Equidistant positions; brokers in order of appearance unless a mapping is given."""
    from pubweave.design.dynatops.mapping.problem import MappingProblem

    counts = _read_publications(publications)
    wanted = _read_subscriptions(subscriptions, counts)
    problem = MappingProblem.of(wanted, counts, delay_weight=delay_weight)
    first = problem.in_order() if mapping is None else _read_mapping(mapping, problem)
    silent = [topic for topic in wanted.topic_names if topic not in counts]
    unwanted = len(wanted.topic_names) - len(set(wanted.topics.tolist()))
    remarks = []
    if silent:
        remarks.append(
            f"{counted(len(silent), 'topic')} without a line in {publications}, for example "
            f"{silent[0]!r}: taken as 0 publications"
        )
    if unwanted:
        remarks.append(
            f"{counted(unwanted, 'topic')} of {publications} without a subscriber: no cost"
        )
    return MappingInputs(problem, first, tuple(remarks))


def from_profile(
    directory: Path, topology_file: Path, period_s: float | None, delay_weight: float
) -> MappingInputs:
    """Topics by broker and filtered rates of a profile; ring ids of a topology, if it has them."""
    import numpy as np

    from pubweave.design.dynatops.mapping.problem import MappingProblem

    profile, topology = WorkloadProfile(directory), read_topology(topology_file)
    about = profile.description
    window_s = about.window_ended_at - about.window_started_at
    seconds = window_s if period_s is None else period_s
    counts = {row["topic"]: row["filtered_rate_per_s"] * seconds for row in profile.rows("topics")}
    topics: dict[str, list[str]] = {
        broker: [] for broker in sorted(topology.brokers, key=natural_order)
    }
    for row in profile.rows("broker_topics"):
        if row["broker"] not in topics:
            raise BadInput(
                f"{directory}: tells of broker {row['broker']!r}, which {topology_file} lacks; "
                "give the topology that was measured"
            )
        topics[row["broker"]].append(row["topic"])
    if not any(topics.values()):
        raise BadInput(
            f"{directory}: no broker wants a topic at the end of its window, so nothing can be "
            "mapped; make the profile while subscribers are there"
        )
    wanted = Subscriptions.of(topics)
    keys: list[Any] = [topology.broker_attributes.get(b, {}).get(RING_ID) for b in topics]
    if all(key is None for key in keys):
        problem = MappingProblem.of(wanted, counts, delay_weight=delay_weight)
        remark = f"{topology_file}: brokers have no {RING_ID}; taken as equidistant, in their order"
        return MappingInputs(problem, problem.in_order(), (remark,))
    _check_ring_ids(topology_file, dict(zip(topics, keys, strict=True)))
    ring = Ring(np.array(sorted(keys), np.int64))
    problem = MappingProblem.of(wanted, counts, ring, delay_weight)
    return MappingInputs(problem, problem.hashed_order(keys), ())


def _check_ring_ids(topology_file: Path, keys: dict[str, Any]) -> None:
    """Every broker has one of its own on the ring, or the first that has not is named."""
    owners: dict[int, str] = {}
    for broker, key in keys.items():
        if not isinstance(key, int) or not 0 <= key < RING_SIZE:
            raise BadInput(
                f"{topology_file}: broker {broker!r} needs a whole number as {RING_ID}, from 0 to "
                f"{RING_SIZE - 1}"
            )
        other = owners.setdefault(key, broker)
        if other != broker:
            raise BadInput(
                f"{topology_file}: brokers {other!r} and {broker!r} have the same {RING_ID} {key}; "
                "give each its own"
            )


def write_mapping(path: Path, problem: MappingProblem, mapping: BrokerMapping) -> None:
    """CSV ``broker,position``, as ``--mapping`` reads it; whole or not at all."""
    lines = [",".join(MAPPING)]
    for broker, position in zip(problem.wanted.nodes, mapping.tolist(), strict=True):
        quoted = broker.replace('"', '""')
        lines.append(
            f'"{quoted}",{position}' if set(broker) & set('",') else f"{broker},{position}"
        )
    replace_file(path, ("\n".join(lines) + "\n").encode())


def _read_subscriptions(path: Path, counts: dict[str, float]) -> Subscriptions:
    """Brokers in order of appearance; a line without a topic is a broker without any."""
    import numpy as np

    brokers: dict[str, int] = {}
    topics: dict[str, int] = {}
    owners, wanted = [], []
    for line, (broker, topic) in _rows(path, SUBSCRIPTIONS):
        if not broker:
            raise BadInput(f"{path}: line {line} has no broker; write broker,topic")
        owner = brokers.setdefault(broker, len(brokers))
        if topic:
            owners.append(owner)
            wanted.append(topics.setdefault(topic, len(topics)))
    if not brokers:
        raise BadInput(f"{path}: has no rows below its header; write broker,topic lines")
    for topic in counts:
        topics.setdefault(topic, len(topics))
    return Subscriptions.from_pairs(
        tuple(brokers), tuple(topics), np.array(owners, np.int64), np.array(wanted, np.int64)
    )


def _read_publications(path: Path) -> dict[str, float]:
    counts: dict[str, float] = {}
    for line, (topic, text) in _rows(path, PUBLICATIONS):
        try:
            count = float(text)
        except ValueError:
            count = math.nan
        if not (math.isfinite(count) and count >= 0):
            raise BadInput(f"{path}: line {line}: publications {text!r} must be a number >= 0")
        if not topic or topic in counts:
            wrong = f"topic {topic!r} comes twice" if topic else "has no topic"
            raise BadInput(f"{path}: line {line}: {wrong}; write each topic once")
        counts[topic] = count
    return counts


def _read_mapping(path: Path, problem: MappingProblem) -> BrokerMapping:
    import numpy as np

    number, count = problem.wanted.node_number, problem.broker_count
    mapping = np.full(count, -1, np.int64)
    taken: dict[int, str] = {}
    for line, (broker, text) in _rows(path, MAPPING):
        if broker not in number:
            raise BadInput(f"{path}: line {line}: broker {broker!r} is not in the subscriptions")
        position = int(text) if text.isascii() and text.isdigit() else -1
        if not 0 <= position < count:
            raise BadInput(f"{path}: line {line}: position {text!r} must be from 0 to {count - 1}")
        if position in taken or mapping[number[broker]] >= 0:
            other = taken.get(position)
            what = f"position {position} has {other!r} already" if other else f"{broker!r} is twice"
            raise BadInput(f"{path}: line {line}: {what}; give each broker a position of its own")
        taken[position] = broker
        mapping[number[broker]] = position
    missing = np.flatnonzero(mapping < 0)
    if len(missing):
        raise BadInput(f"{path}: has no position for broker {problem.wanted.nodes[missing[0]]!r}")
    return mapping


def _rows(path: Path, header: Sequence[str]) -> Iterator[tuple[int, tuple[str, str]]]:
    """The two fields of each line below the header, without blanks around them."""
    opened = gzip.open if path.suffix == ".gz" else open
    expected = ",".join(header)
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            if names != list(header):
                found = ",".join(names) or "nothing"
                raise BadInput(f"{path}: begins with {found}; its first line must be {expected}")
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != 2:
                    raise BadInput(
                        f"{path}: line {reader.line_num} has {len(fields)} fields; write {expected}"
                    )
                yield reader.line_num, (fields[0].strip(), fields[1].strip())
    except (UnicodeDecodeError, csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: not CSV in UTF-8: {error}") from error
