"""HiGHS on the network flow program: plans as they get cheaper, and the proof at the end.

Runs in the child process that imports it (`exact_worker`), never beside OR-Tools.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from pubweave.planning.exact import Finding
from pubweave.planning.flow_model import FlowModel
from pubweave.planning.indexed import NumberedSteps
from pubweave.planning.token_positions import TokenPositions

_CLOSE = 1e-6


class FlowSolver:
    """One program, solved once."""

    def __init__(self, positions: TokenPositions) -> None:
        self._model = FlowModel(positions)
        # With whole costs, a bound may be rounded up.
        self._whole = all(cost == int(cost) for cost in self._model.cost)

    def run(self, start: NumberedSteps) -> Iterator[Finding]:
        """Findings until the cheapest plan is proven; ``start`` is a plan of the same steps."""
        found: queue.Queue[Finding | None] = queue.Queue()
        solving = threading.Thread(target=self._solve, args=(start, found), daemon=True)
        solving.start()
        while (finding := found.get()) is not None:
            yield finding
        solving.join()

    def _solve(self, start: NumberedSteps, found: queue.Queue[Finding | None]) -> None:
        import highspy

        untyped: Any = highspy
        highs = untyped.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("mip_rel_gap", 0.0)
        highs.passModel(self._program(highspy))
        values = self._model.values(start)
        given = highspy.HighsSolution()
        given.col_value = values
        highs.setSolution(given)
        least = float(np.dot(values, self._model.cost))

        def tell(event: Any) -> None:
            nonlocal least
            solution = np.asarray(event.data_out.mip_solution)
            cost = float(np.dot(np.round(solution), self._model.cost))
            if cost < least - _CLOSE:
                least = cost
                found.put(Finding(plan=self._model.decode(solution.tolist())))

        highs.cbMipImprovingSolution += tell
        highs.run()
        if highs.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            solution = np.asarray(highs.getSolution().col_value)
            cost = float(np.dot(np.round(solution), self._model.cost))
            plan = self._model.decode(solution.tolist()) if cost < least - _CLOSE else None
            found.put(Finding(plan=plan, cost_at_least=min(cost, least), is_cheapest=True))
        found.put(None)

    def _program(self, highspy: Any) -> Any:
        starts, index, value = self._model.matrix()
        program = highspy.HighsLp()
        program.num_col_ = len(self._model.cost)
        program.num_row_ = len(self._model.lower)
        program.col_cost_ = np.array(self._model.cost)
        program.col_lower_ = np.zeros(program.num_col_)
        program.col_upper_ = np.ones(program.num_col_)
        program.row_lower_ = np.array(self._model.lower)
        program.row_upper_ = np.array(self._model.upper)
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = starts
        program.a_matrix_.index_ = index
        program.a_matrix_.value_ = value
        program.integrality_ = [highspy.HighsVarType.kInteger] * program.num_col_
        return program
