"""What a relocation is asked and answered in; POP's rule, and GRAPE's by priority and weight (4.2).

Values and one comparison; what computes with them is in `publisher`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pubweave.design.tree.traffic import DesignError, Floats
from pubweave.model.ids import BrokerId


class Priority(enum.Enum):
    """The metric that is minimised first (GRAPE 4.2)."""

    LOAD = "load"
    DELAY = "delay"


@dataclass(frozen=True)
class Preference:
    """GRAPE's setting: ``Preference(Priority.LOAD, 75)`` is the paper's load75."""

    priority: Priority = Priority.LOAD
    """What is minimised first."""
    weight: float = 100.0
    """How much of it to minimise, 0 to 100: candidates within 100 - weight of the best stay."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 100:
            raise DesignError(f"the weight must be between 0 and 100, got {self.weight:g}")

    def __str__(self) -> str:
        return f"{self.priority.value}{self.weight:g}"


@dataclass(frozen=True)
class DeliveryReport:
    """What one broker tells of a publisher's trace session (the payload of a TIA, GRAPE 4.1)."""

    deliveries: float
    """To clients of the broker: pairs of publication and subscriber."""
    bits: int
    """Bit n: publication n of the session was delivered here."""
    hop_ms: Mapping[BrokerId, float]
    """Queueing and matching of a publication that goes on to a neighbor."""
    client_ms: float
    """The same of one that goes to a client."""


@dataclass(frozen=True)
class Candidate:
    """A broker that the publisher could be at."""

    broker: BrokerId
    delay_ms: float
    """The estimated average delivery delay."""
    message_rate: int
    """Messages at all brokers for the publications of one trace session."""
    normalized: float
    """The prior metric from 0 (best candidate) to 100 (worst)."""
    is_kept: bool
    """Whether that is at most 100 - weight."""


@dataclass(frozen=True)
class Selection:
    """All candidates, in the order of their ids, and the one to be at."""

    publisher_at: BrokerId
    preference: Preference
    candidates: tuple[Candidate, ...]
    choice: BrokerId
    reason: str

    def of(self, broker: BrokerId) -> Candidate:
        return next(c for c in self.candidates if c.broker == broker)

    @property
    def moves(self) -> bool:
        return self.choice != self.publisher_at

    @property
    def gain(self) -> float:
        """The share by which the choice lowers the metric that decides it: the prior one, or the
        second where the current broker is within the weight, too. O(candidates)."""
        now, then = self.of(self.publisher_at), self.of(self.choice)
        load = _lowered(now.message_rate, then.message_rate)
        delay = _lowered(now.delay_ms, then.delay_ms)
        is_load_first = self.preference.priority is Priority.LOAD
        prior, second = (load, delay) if is_load_first else (delay, load)
        return second if now.is_kept and second > 0 else prior

    def unless_less_than(self, least_gain: float) -> Selection:
        """The same, but staying where the choice promises less: estimates differ from one trace
        to the next, and a move has its price."""
        if not self.moves or self.gain >= least_gain:
            return self
        reason = (
            f"stays at {self.publisher_at}: {self.choice} promises {self.gain:.1%} less "
            f"by {self.preference}, and at least {least_gain:.1%} is asked for"
        )
        return replace(self, choice=self.publisher_at, reason=reason)


def _lowered(now: float, then: float) -> float:
    return (now - then) / now if now > 0 else 0.0


def closest_neighbor(
    subscribers: Mapping[BrokerId, float], elsewhere: float, least_gain: float = 0.0
) -> BrokerId | None:
    """POP's next hop (section 3.2): the neighbor with more subscribers behind it than there are
    everywhere else; None: nowhere is closer than here. O(neighbors).

    ``subscribers`` by downstream neighbor, ``elsewhere`` the broker's own and those upstream. A
    hop there shortens the way of those behind the neighbor and lengthens that of all others: what
    is left must exceed ``least_gain`` of the deliveries.

    >>> closest_neighbor({"b2": 6, "b4": 3, "b5": 15}, elsewhere=1)
    'b5'
    """
    total = elsewhere + sum(subscribers.values())
    least = least_gain * total
    return next((n for n, count in subscribers.items() if 2 * count - total > least), None)


Mask = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""Metrics closer than this share of their size are equal: sums in another order differ by less."""


def candidates(
    brokers: Iterable[BrokerId], publisher_at: BrokerId, ping_ms: Mapping[BrokerId, float]
) -> list[BrokerId]:
    """The brokers with a ping time, and the current one."""
    return [broker for broker in brokers if broker in ping_ms or broker == publisher_at]


def choose(
    names: Sequence[BrokerId],
    messages: npt.ArrayLike,
    delay_sum_ms: npt.ArrayLike,
    deliveries: float,
    publisher_at: BrokerId,
    ping_ms: Mapping[BrokerId, float],
    preference: Preference,
) -> Selection:
    """The candidate by the rule; both metrics are given by candidate, delays of all deliveries
    added up. The publisher's way to its broker, half a ping, is added here.

    Ties go to the better second metric, then to the better prior one, then to staying, then to
    the smallest id: only a strict improvement moves a publisher. O(candidates).
    """
    load = np.asarray(messages, dtype=np.float64)
    half_trips = np.array([ping_ms.get(broker, 0.0) / 2 for broker in names])
    delay = np.asarray(delay_sum_ms) / deliveries + half_trips if deliveries else 0.0 * half_trips
    normalized, kept, best = rank(load, delay, preference)
    chosen = [names[place] for place in np.flatnonzero(best).tolist()]
    choice = publisher_at if publisher_at in chosen else min(chosen)
    listed = tuple(
        Candidate(*values)
        for values in zip(
            names,
            delay.tolist(),
            load.astype(np.int64).tolist(),
            normalized.tolist(),
            kept.tolist(),
            strict=True,
        )
    )
    undecided = Selection(publisher_at, preference, listed, choice, "")
    return replace(undecided, reason=_reason(undecided, deliveries))


def rank(load: Floats, delay: Floats, preference: Preference) -> tuple[Floats, Mask, Mask]:
    """The priority and weight rule: the prior metric from 0 to 100, who is kept by it, and of
    those who has the least second metric, then the least prior one. O(candidates)."""
    is_load_first = preference.priority is Priority.LOAD
    prior, second = (load, delay) if is_load_first else (delay, load)
    normalized = _normalized(prior)
    kept = normalized <= 100 - preference.weight + 100 * TOLERANCE
    return normalized, kept, _least(prior, _least(second, kept))


def _normalized(values: Floats) -> Floats:
    """From 0 at the least to 100 at the greatest (papers.md: percent of the maximum would often
    pick another broker and can leave none)."""
    least, greatest = float(values.min()), float(values.max())
    if greatest - least <= TOLERANCE * max(abs(greatest), abs(least)):
        return np.zeros(len(values))
    return np.asarray((values - least) / (greatest - least) * 100)


def _least(values: Floats, among: Mask) -> Mask:
    """Those of ``among`` with the least value, rounding aside."""
    least = float(values[among].min())
    return among & (values <= least + TOLERANCE * abs(least))


def _reason(selection: Selection, total: float) -> str:
    if not total and not selection.moves:
        return f"nothing was delivered: the publisher stays at {selection.publisher_at}"
    preference = selection.preference
    kept = [candidate for candidate in selection.candidates if candidate.is_kept]
    best, now = selection.of(selection.choice), selection.of(selection.publisher_at)
    if len(kept) == 1:
        why = f"the only candidate whose {preference.priority.value} is within {preference}"
    else:
        second = "delay" if preference.priority is Priority.LOAD else "message rate"
        why = f"the least {second} of the {len(kept)} candidates within {preference}"
    if not selection.moves:
        return f"stays at {best.broker}: {why}"
    return (
        f"{best.broker} has {why}: delay {now.delay_ms:.3f} -> {best.delay_ms:.3f} ms, "
        f"message rate {now.message_rate} -> {best.message_rate}"
    ).replace("has the only", "is the only")
