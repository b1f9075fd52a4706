"""Cst: what a plan costs while it is carried out, in the unit of the traffic's own cost.

DYNATOPS charges a reconfiguration with an upper bound of its protocol's messages (Eq. 7). Ours is
the same for shifts, priced as notifications are: a message pays c_e of its link and p_v of who
handles it. shift(i, j, k) costs

- its dozen messages between the three brokers,
- the table entries behind the mover, which cross to k at most once each,
- the waiting of what would have crossed (i, j) or (j, k) during the hold: for half of it on
  average, and the hold is two round trips' latencies and one answer of the store (ADR 8).

Loads change as the plan goes, so they are taken from the tree before each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pubweave.control.evidence import Evidence
from pubweave.control.settings import ChangePrices
from pubweave.deploy.topology_state import apply_actions, spell_out_step
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import Topology


@dataclass(frozen=True)
class ChangeCost:
    """The parts of Cst, in milliseconds of notifications' cost; ``total_ms`` has the weight."""

    messages_ms: float = 0.0
    state_ms: float = 0.0
    waiting_ms: float = 0.0
    entries_moved: float = 0.0
    weight: float = 1.0

    @property
    def total_ms(self) -> float:
        return self.weight * (self.messages_ms + self.state_ms + self.waiting_ms)


def change_cost(plan: Plan, evidence: Evidence, prices: ChangePrices) -> ChangeCost:
    """What it costs to walk the evidence's overlay through a plan of shifts and moves."""
    tolls = _Tolls(evidence)
    now = evidence.topology
    messages_ms = state_ms = waiting_ms = entries_moved = 0.0
    for step in plan.steps:
        spelled = spell_out_step(now, step)
        load = evidence.cost_of(now).link_load
        at = now
        for action in spelled:
            assert isinstance(action, Shift), f"{action}: brokers neither come nor go here"
            i, j, k = action.brokers
            legs = ((i, j), (j, k), (i, k))
            messages_ms += prices.messages * sum(tolls.of(a, b) for a, b in legs) / 3
            entries = sum(evidence.entries.get(b, 0.0) for b in _side(at, i, j))
            entries_moved += entries
            state_ms += entries * tolls.of(j, k)
            waiting_ms += _waiting_ms(action, load, tolls, evidence.window_s, prices.store_ms)
            at = apply_actions(at, (action,))
        now = at
    return ChangeCost(messages_ms, state_ms, waiting_ms, entries_moved, prices.weight)


def _waiting_ms(
    shift: Shift,
    load: Mapping[Link, float],
    tolls: _Tolls,
    window_s: float,
    store_ms: float,
) -> float:
    i, j, k = shift.brokers
    # A link that an earlier shift of the same step has brought carries what that one moved; its
    # own load is not known before the step is over, and is taken for the removed link's.
    crossing = load.get(shift.removed_link, 0.0) + load.get(shift.pivot_link, 0.0)
    hold_ms = 2 * tolls.latency_ms(i, k) + 2 * tolls.latency_ms(j, k) + store_ms
    held = crossing / window_s * hold_ms / 1000.0 if window_s > 0 else 0.0
    return held * hold_ms / 2


class _Tolls:
    """What one message between two brokers costs."""

    def __init__(self, evidence: Evidence) -> None:
        brokers = evidence.prices.brokers
        self._index_of = {broker: index for index, broker in enumerate(brokers)}
        known = np.isfinite(evidence.prices.communication)
        # A link that is there for a step only may be one that nobody has measured.
        dearest = evidence.prices.communication[known].max(initial=0.0)
        self._latency = np.where(known, evidence.prices.communication, dearest)
        self._processing = evidence.prices.processing

    def latency_ms(self, a: BrokerId, b: BrokerId) -> float:
        return float(self._latency[self._index_of[a], self._index_of[b]])

    def of(self, a: BrokerId, b: BrokerId) -> float:
        return self.latency_ms(a, b) + float(self._processing[self._index_of[b]])


def _side(topology: Topology, mover: BrokerId, away_from: BrokerId) -> set[BrokerId]:
    """The brokers that the mover takes along: those not behind the neighbor it leaves."""
    found = {mover}
    waiting = [mover]
    while waiting:
        for neighbor in topology.neighbors[waiting.pop()]:
            if neighbor not in found and neighbor != away_from:
                found.add(neighbor)
                waiting.append(neighbor)
    return found
