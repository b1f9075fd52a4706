"""GRAPE's choice among candidates whose metrics are known (section 4.2): priority and weight.

Who computes the metrics is another matter: `publisher` for trees of any size, and
`relocation/reports` for a broker that has just been told them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pubweave.design.relocation.rules import Candidate, Preference, Priority, Selection
from pubweave.design.tree.traffic import Floats
from pubweave.model.ids import BrokerId

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
