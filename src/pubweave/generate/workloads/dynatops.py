"""Workloads of DYNATOPS: subscriptions that are uniform, Zipf's or multimodal (section 6.1.2), and
users who travel (6.1.1).

The paper gives users 5 topics each and says nothing of brokers, of publications per topic and of
Zipf's sigma: 5 topics per broker, 100 publications and sigma = 1 are ours. Multimodal: topics in
modes of 10; who subscribes draws one mode and its topics from it.

Travels: real check-ins, and a generated twin for tests. The map is cut into cells; a cell is a
topic, and has a broker (section 6.1.1). Users want the cell they are in, and those that four others
are in: real friends first, then anybody, as in the paper. Where a user was last seen is where it
is. A check-in is also a publication of its cell.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pubweave.design.dynatops.rivals import Places
from pubweave.design.tco.interests import Subscriptions

TOPICS_EACH = 5
PUBLICATIONS = 100
MODE_SIZE = 10
ZIPF_SIGMA = 1.0
_ROWS_AT_ONCE = 4_000

Topics = npt.NDArray[np.int32]


class Pattern(Enum):
    """How topics are drawn."""

    UNIFORM = "uniform"
    ZIPF = "zipf"
    MULTIMODAL = "multimodal"


def drawn_topics(
    count: int, topics: int, pattern: Pattern, rng: np.random.Generator, *, each: int = TOPICS_EACH
) -> Topics:
    """So many rows of different topics, in the order they were drawn.

    >>> rows = drawn_topics(4, 100, Pattern.MULTIMODAL, np.random.default_rng(1))
    >>> [len({int(topic) // 10 for topic in row}) for row in rows]
    [1, 1, 1, 1]
    """
    if pattern is Pattern.MULTIMODAL:
        size = min(MODE_SIZE, topics)
        modes = rng.integers(0, max(1, topics // size), count) * size
        return modes[:, None].astype(np.int32) + _distinct(count, np.ones(size), each, rng)
    ranks = np.arange(1, topics + 1, dtype=np.float64)
    shares = (ranks + 1) ** -ZIPF_SIGMA if pattern is Pattern.ZIPF else np.ones(topics)
    return _distinct(count, shares, each, rng)


def _distinct(
    count: int, shares: npt.NDArray[np.float64], each: int, rng: np.random.Generator
) -> Topics:
    """Draws without replacement: the smallest of exponential times with these rates."""
    rows = np.empty((count, min(each, len(shares))), np.int32)
    for first in range(0, count, _ROWS_AT_ONCE):
        some = slice(first, min(count, first + _ROWS_AT_ONCE))
        times = rng.standard_exponential((some.stop - first, len(shares))) / shares
        order = np.argpartition(times, rows.shape[1] - 1, axis=1)[:, : rows.shape[1]]
        rows[some] = order
    return rows


def broker_subscriptions(
    brokers: int,
    topics: int,
    pattern: Pattern,
    rng: np.random.Generator,
    *,
    each: int = TOPICS_EACH,
) -> Subscriptions:
    """Brokers b1, b2, ... with topics among t1, t2, ..."""
    rows = drawn_topics(brokers, topics, pattern, rng, each=each)
    owners = np.repeat(np.arange(brokers), rows.shape[1])
    names = [f"b{number}" for number in range(1, brokers + 1)]
    topic_names = [f"t{number}" for number in range(1, topics + 1)]
    return Subscriptions.from_pairs(names, topic_names, owners, rows.ravel())


CELL_DEGREES = 0.01
"""About a kilometre; the paper has a degree, for a whole country."""
FRIENDS = 4
NOBODY = -1

Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]


class CheckInError(ValueError):
    """A file of check-ins or friends that cannot be used; the message says where and why."""


@dataclass(frozen=True, eq=False)
class Travels:
    """Where everybody is at first, who follows whom, and all check-ins in their order."""

    cells: Places
    first_cells: Integers
    """By user."""
    friends: Indices
    """By user: four others; `NOBODY` where there are not so many."""
    hours: Integers
    """By check-in, from 0 on."""
    users: Integers
    visited: Integers
    """By check-in: the cell."""

    @property
    def user_count(self) -> int:
        return len(self.first_cells)

    @property
    def hour_count(self) -> int:
        return int(self.hours[-1]) + 1 if len(self.hours) else 0

    def by_hour(self) -> Iterator[tuple[int, Integers, Integers]]:
        """Hours with check-ins: users and cells."""
        bounds = np.flatnonzero(np.append(True, self.hours[1:] != self.hours[:-1]))
        for start, stop in zip(bounds, [*bounds[1:], len(self.hours)], strict=True):
            yield int(self.hours[start]), self.users[start:stop], self.visited[start:stop]

    def wanted_cells(self, users: Integers, at: Integers) -> Indices:
        """Rows of different cells: the own one first, then friends'; -1 fills up."""
        friends = self.friends[users]
        rows = np.where(friends >= 0, at[friends], NOBODY)
        rows = np.column_stack([at[users], rows]).astype(np.int32)
        for column in range(1, rows.shape[1]):
            is_known = (rows[:, :column] == rows[:, column : column + 1]).any(axis=1)
            rows[is_known, column] = NOBODY
        return rows


def read_travels(
    checkins: Path,
    friends: Path,
    rng: np.random.Generator,
    *,
    since: datetime,
    until: datetime,
    degrees: float = CELL_DEGREES,
) -> Travels:
    """Users with a check-in in the window; cells are all that the file has ever seen."""
    first, last = since.timestamp(), until.timestamp()
    rows = list(_checkins(checkins, degrees))
    if not any(first <= row[0] < last for row in rows):
        raise CheckInError(f"{checkins}: has no check-in from {since:%Y-%m-%d} to {until:%Y-%m-%d}")
    rows.sort()
    places = sorted({cell for _, _, cell in rows})
    cell_number = {cell: number for number, cell in enumerate(places)}
    user_number: dict[str, int] = {}
    for at, user, _ in rows:
        if first <= at < last:
            user_number.setdefault(user, len(user_number))
    first_cells = np.full(len(user_number), NOBODY, np.int64)
    kept = []
    for at, user, cell in rows:
        number = user_number.get(user)
        if number is None or at >= last:
            continue
        if at < first or first_cells[number] == NOBODY:
            first_cells[number] = cell_number[cell]
        if at >= first:
            kept.append((int((at - first) // 3600), number, cell_number[cell]))
    events = np.array(kept, np.int64)
    known = _friendships(friends, user_number)
    middles = (np.array(places, np.float64) + 0.5) * degrees
    return Travels(
        Places(middles[:, 0].copy(), middles[:, 1].copy()),
        first_cells,
        _four_each(known, len(user_number), rng),
        events[:, 0].copy(),
        events[:, 1].copy(),
        events[:, 2].copy(),
    )


def _checkins(path: Path, degrees: float) -> Iterator[tuple[float, str, tuple[int, int]]]:
    for line, row in _rows(path, ("user", "time", "lat", "lon")):
        try:
            at = datetime.fromisoformat(row["time"].replace("Z", "+00:00"))
            cell = (
                int(np.floor(float(row["lat"]) / degrees)),
                int(np.floor(float(row["lon"]) / degrees)),
            )
        except ValueError as error:
            raise CheckInError(f"{path}: line {line}: {error}") from error
        yield at.replace(tzinfo=at.tzinfo or UTC).timestamp(), row["user"], cell


def _friendships(path: Path, numbers: dict[str, int]) -> dict[int, set[int]]:
    """Both ways, among users that travel."""
    known: dict[int, set[int]] = defaultdict(set)
    for _, row in _rows(path, ("user", "friend")):
        one, other = numbers.get(row["user"]), numbers.get(row["friend"])
        if one is not None and other is not None and one != other:
            known[one].add(other)
            known[other].add(one)
    return known


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise CheckInError(f"{path}: has no column {missing[0]!r}; needs {','.join(columns)}")
        for row in reader:
            if any(row[name] is None for name in columns):
                raise CheckInError(f"{path}: line {reader.line_num}: fields are missing")
            yield reader.line_num, row


def _four_each(known: dict[int, set[int]], count: int, rng: np.random.Generator) -> Indices:
    """Who has more real friends follows four of them; who has fewer, anybody else, too."""
    friends = np.full((count, FRIENDS), NOBODY, np.int32)
    for user in range(count):
        drawn = rng.permutation(sorted(known.get(user, ())))[:FRIENDS].tolist()
        for other in rng.integers(0, count, 2 * FRIENDS).tolist():
            if len(drawn) < FRIENDS and other != user and other not in drawn:
                drawn.append(other)
        friends[user, : len(drawn)] = drawn
    return friends


def drawn_travels(users: int, side: int, hours: int, rng: np.random.Generator) -> Travels:
    """Side x side cells; users check in around their homes, at times far away.

    >>> travels = drawn_travels(20, 4, 10, np.random.default_rng(1))
    >>> travels.user_count, len(travels.cells)
    (20, 16)
    """
    rows, columns = np.divmod(np.arange(side * side), side)
    cells = Places(40.0 + rows * CELL_DEGREES, -74.0 + columns * CELL_DEGREES)
    homes = rng.integers(0, side, (users, 2))
    count = users * hours // 8
    who = rng.integers(0, users, count)
    steps = rng.normal(0, np.where(rng.random(count) < 0.1, side / 3, 0.8)[:, None], (count, 2))
    seen = np.clip(homes[who] + np.rint(steps), 0, side - 1).astype(np.int64)
    return Travels(
        cells,
        homes[:, 0] * side + homes[:, 1],
        _four_each({}, users, rng),
        np.sort(rng.integers(0, hours, count)),
        who,
        seen[:, 0] * side + seen[:, 1],
    )
