"""The traffic of this broker by origin and route, slice by slice: the source of its *sides*.

`design.ci.cycle_traffic` prices a cycle by what each of its brokers has outside of it: what
concerned its own clients, or crossed a link that is not in the cycle. The cycle is known only when
a request arrives, so a publication is noted with all that it touched, as a set of bits: one for
clients, one for each link.

Slices are parts of an interval, the same for all brokers (`Windows`). A slice is used only if it
is *sound*: the broker ran from its beginning to its end, noted everything, and its links did not
change. An incomplete slice would make a busy link look idle. Slices are short, so those that an
exchange spoils are soon over.

`routed` is on the broker's hot path: it appends. Notes are made into arrays a few thousand at a
time, so that the end of a slice costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from pubweave.core.session.session import Session
from pubweave.model.bloom import Keys, mix
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication

SLICES = 6
"""Per interval."""
SPAN_SLICES = 3
"""By how many a cycle is priced: a broker that took part in an exchange needs new ones first."""
SLICES_KEPT = 2 * SLICES
_NOTES_AT_ONCE = 4_096
_CLIENT = 1
"""The bit of a path that touched a client."""

Numbers = npt.NDArray[np.int32]
Note = tuple[str, int, Session, tuple[Session, ...]]


@dataclass(frozen=True)
class _Slice:
    """The notes of a sound slice."""

    keys: Keys
    paths: Numbers
    """By entry: the number of its path."""
    path_bits: tuple[int, ...]
    """By number: what a path touched."""
    links: dict[BrokerId, int]
    """The bit of each link that was used."""

    def side(self, cycle_neighbors: Collection[BrokerId]) -> Keys:
        cycle = sum(self.links.get(neighbor, 0) for neighbor in cycle_neighbors)
        is_outside = np.array([bits & ~cycle != 0 for bits in self.path_bits], dtype=np.bool_)
        return self.keys[is_outside[self.paths]] if len(self.keys) else NO_KEYS


@dataclass(frozen=True)
class SliceRange:
    """Slices in a row; ``last`` is the number of the last one."""

    last: int
    count: int

    @property
    def numbers(self) -> range:
        return range(self.last - self.count + 1, self.last + 1)


class TrafficSides:
    """The notes of the current slice, and the slices before it."""

    def __init__(
        self, capacity: int, interval_s: float, now: float, links: Callable[[], Iterable[Session]]
    ) -> None:
        """``links`` are those that publications go over now; ``capacity`` is per interval."""
        self._capacity = -(-capacity // SLICES)
        self._links = links
        self._make_keys = PublicationKeys()
        self._windows = Windows(interval_s / SLICES, now)
        self._done: dict[int, _Slice] = {}
        self._overflowed: dict[int, None] = {}
        self.overflows = 0
        """How many slices had more entries than there is room for."""
        self._active = self._windows.number
        """The last slice with anything in it."""
        self._begin(is_whole=False)

    @property
    def turn_at(self) -> float:
        """When the current slice is over."""
        return self._windows.ends_at

    def _begin(self, *, is_whole: bool) -> None:
        self._is_sound = is_whole
        self._links_at_start = frozenset(self._links())
        self._noted: list[Note] = []
        self._keys: list[Keys] = []
        self._paths: list[Numbers] = []
        self._count = 0
        self._bits: dict[Session, int] = {}
        self._numbers: dict[int, int] = {}

    # --- on the hot path -------------------------------------------------------------------

    def routed(self, publication: Publication, origin: Session, route: tuple[Session, ...]) -> None:
        """A publication from ``origin`` was queued for every session of ``route``."""
        noted = self._noted
        noted.append((publication.publisher, publication.sequence, origin, route))
        if len(noted) >= _NOTES_AT_ONCE:
            self._digest()

    # --- notes to arrays -------------------------------------------------------------------

    def _digest(self) -> None:
        """Make arrays of what was noted; a slice with too many entries is dropped."""
        noted, self._noted = self._noted, []
        self._count += len(noted)
        if self._count > self._capacity:
            self._keys, self._paths = [], []
        elif noted:
            self._keys.append(self._make_keys.make([n[0] for n in noted], [n[1] for n in noted]))
            self._paths.append(self._path_numbers(noted))

    def _path_numbers(self, noted: list[Note]) -> Numbers:
        # Routes are shared objects while nothing changes: one lookup serves many entries.
        known: dict[tuple[int, int], int] = {}
        found: list[int] = []
        for _, _, origin, route in noted:
            try:
                number = known[id(origin), id(route)]
            except KeyError:
                bits = self._bits_of((origin, *route))
                number = self._numbers.setdefault(bits, len(self._numbers))
                known[id(origin), id(route)] = number
            found.append(number)
        return np.array(found, dtype=np.int32)

    def _bits_of(self, sessions: Iterable[Session]) -> int:
        bits = 0
        for session in sessions:
            if session.is_client:
                bits |= _CLIENT
            else:
                bits |= self._bits.setdefault(session, _CLIENT << (len(self._bits) + 1))
        return bits

    # --- slices ----------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Close the current slice if its time is over."""
        number = self._windows.number
        ended = self._windows.turn(now)
        if not ended:
            return
        self._digest()
        # After a pause of a whole slice the notes are of two slices.
        is_whole = self._is_sound and ended == 1
        if self._count or not is_whole:
            self._active = self._windows.number
        if self._count > self._capacity:
            self.overflows += 1
            self._overflowed[number] = None
        elif is_whole and self._had_same_links():
            self._done[number] = self._close()
        for kept in (self._done, self._overflowed):
            for old in [n for n in kept if n <= number - SLICES_KEPT]:
                del kept[old]
        self._begin(is_whole=ended == 1)

    def _had_same_links(self) -> bool:
        """Whether links did not change, and none had a stand-in."""
        links = frozenset(self._links())
        return links == self._links_at_start and links >= self._bits.keys()

    def _close(self) -> _Slice:
        return _Slice(
            keys=np.concatenate([NO_KEYS, *self._keys]),
            paths=np.concatenate([np.empty(0, np.int32), *self._paths]),
            path_bits=tuple(self._numbers),
            links={session.remote: bit for session, bit in self._bits.items()},
        )

    def spoil(self) -> None:
        """Links have changed around here: the current slice is not sound."""
        self._is_sound = False

    def sound_span(self) -> SliceRange | None:
        """The last slices; None if they are not sound."""
        if self._sound_count() < SPAN_SLICES:
            return None
        return SliceRange(self.last_number, SPAN_SLICES)

    def sound_in_s(self, now: float) -> float:
        """In how many seconds there is a sound span, if nothing happens."""
        missing = SPAN_SLICES
        if self._is_sound:
            missing -= 1 + self._sound_count()
        return max(0.0, self.turn_at - now) + max(0, missing) * self._windows.interval_s

    def _sound_count(self) -> int:
        """How many of the last slices are sound, at most a span."""
        count = 0
        while count < SPAN_SLICES and self.last_number - count in self._done:
            count += 1
        return count

    @property
    def is_idle(self) -> bool:
        """Nothing was noted for an interval."""
        return not self._noted and not self._count and self.last_number - self._active >= SLICES

    def side(self, span: SliceRange, cycle_neighbors: Collection[BrokerId]) -> Keys | None:
        """The entries that touched a client or a link to any other neighbor; None if a slice is
        not over, not sound or forgotten. O(entries)."""
        slices = [self._done.get(number) for number in span.numbers]
        sides = [found.side(cycle_neighbors) for found in slices if found is not None]
        return np.concatenate([NO_KEYS, *sides]) if len(sides) == len(slices) else None

    def has_overflowed(self, span: SliceRange) -> bool:
        """Whether a slice had too many entries, of those not forgotten."""
        return any(number in self._overflowed for number in span.numbers)

    @property
    def last_number(self) -> int:
        """The number of the last slice that is over."""
        return self._windows.number - 1


class Windows:
    """The current window of a broker."""

    def __init__(self, interval_s: float, now: float) -> None:
        self.interval_s = interval_s
        self.number = int(now // interval_s)

    @property
    def ends_at(self) -> float:
        return (self.number + 1) * self.interval_s

    def turn(self, now: float) -> int:
        """Advance to the window of this instant; how many windows have ended."""
        if now < self.ends_at:
            return 0
        # At the very end of a window the quotient may be rounded down to its number.
        before, self.number = self.number, max(self.number + 1, int(now // self.interval_s))
        return self.number - before


# 64-bit keys of publications: the same in every process, so that brokers can compare sets.
#
# Both caches (`self_organizing/notification_cache`, `self_organizing/traffic_sides`) make theirs
# here, many at a time.


_REMEMBERED_PUBLISHERS = 65_536
_ALL_BITS = (1 << 64) - 1
NO_KEYS: Keys = np.empty(0, dtype=np.uint64)


class PublicationKeys:
    """Makes keys, and remembers the numbers of publishers' names."""

    def __init__(self) -> None:
        self._publishers: dict[str, int] = {}

    def make(self, publishers: Sequence[str], sequences: Sequence[int]) -> Keys:
        """One key per publication, in their order. O(publications)."""
        if not publishers:
            return NO_KEYS
        if len(self._publishers) > _REMEMBERED_PUBLISHERS:
            self._publishers.clear()
        known = self._publishers
        for publisher in dict.fromkeys(publishers):
            if publisher not in known:
                known[publisher] = _number_of(publisher)
        names = np.array(list(map(known.__getitem__, publishers)), dtype=np.uint64)
        return mix(names ^ mix(_low_bits(sequences)))


def _number_of(publisher: str) -> int:
    """A number for a name, the same in every process (unlike `hash`)."""
    return int.from_bytes(blake2b(publisher.encode(), digest_size=8).digest(), "little")


def _low_bits(sequences: Sequence[int]) -> Keys:
    try:
        return np.array(sequences, dtype=np.uint64)
    except OverflowError:
        return np.array([sequence & _ALL_BITS for sequence in sequences], dtype=np.uint64)
