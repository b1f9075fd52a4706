"""The judge for large plans of shifts only: the rules of `validate`, on arrays.

`validate` asks here first where there are many brokers: at 10,000 it takes seconds where this takes
a few hundredths. It never refuses on its own: what it does not accept goes to the slow judge, which
says why. It imports values only, no planner code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Plan, Shift
from pubweave.planning.check._kernels import is_valid
from pubweave.planning.problem.problem import PlanningProblem

Ints = npt.NDArray[np.int64]


def accepts(problem: PlanningProblem, plan: Plan) -> bool:
    """True only where the plan is valid; False says nothing where it has other actions than shifts.

    Source and target must be trees."""
    if problem.source.brokers != problem.target.brokers or not all(plan.steps):
        return False
    number = {broker: index for index, broker in enumerate(problem.source.brokers)}
    rows = _rows(plan, number)
    if rows is None:
        return False
    target = _keys(number, problem.target.links)
    pinned = _keys(number, problem.pinned)
    limits = [len(number), problem.max_degree or 0, int(problem.disjoint_brokers)]
    return is_valid(
        rows,
        _pairs(number, problem.source.links),
        target,
        np.union1d(target, pinned) if len(pinned) else target,
        _keys(number, problem.forbidden),
        np.array(limits, dtype=np.int64),
    )


def _rows(plan: Plan, number: Mapping[BrokerId, int]) -> Ints | None:
    """Rows (step from 1, mover, old peer, new peer); None where they do not say the plan."""
    rows = []
    try:
        for place, step in enumerate(plan.steps, 1):
            for action in step:
                if not isinstance(action, Shift):
                    return None
                rows.append(
                    (place, number[action.mover], number[action.old_peer], number[action.new_peer])
                )
    except KeyError:
        return None
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _pairs(number: Mapping[BrokerId, int], links: Iterable[Link]) -> Ints:
    """Each link as two numbers; links of brokers that are not there cannot matter."""
    ends = [number.get(end, -1) for link in links for end in link]
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return pairs[pairs.min(axis=1) >= 0] if len(pairs) else pairs


def _keys(number: Mapping[BrokerId, int], links: Iterable[Link]) -> Ints:
    pairs = _pairs(number, links)
    keys: Ints = np.sort(pairs.min(axis=1) * len(number) + pairs.max(axis=1))
    return keys
