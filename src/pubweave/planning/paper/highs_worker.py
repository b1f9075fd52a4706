"""The HiGHS side of `highs`: a child process that builds programs and solves them, one by one.

highspy is imported here and nowhere else: it clashes with other solvers inside one process, and a
child can be ended at any moment, which makes limits and Ctrl-C reliable.
"""

from __future__ import annotations

import resource
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.planning.paper.integer_program import IpModel, IpProblem, build_model
from pubweave.planning.paper.outcome import Incumbent, IpOutcome, IpStatus


def serve(connection: Connection) -> None:
    """Answer requests (problem, steps, seed, run) until the other end closes."""
    # Ctrl-C goes to the whole process group; what it means here is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            problem, step_count, seed, run = connection.recv()
        except EOFError:
            return
        connection.send(solve(problem, step_count, seed, connection, run=run))


def solve(
    problem: IpProblem, step_count: int, seed: int, connection: Connection, *, run: bool = True
) -> IpOutcome:
    """Build the program and solve it; better plans go to the connection as they are found.

    Without ``run`` the program is only loaded, to see what that takes."""
    import highspy

    untyped: Any = highspy
    model = build_model(problem, step_count)
    highs = untyped.Highs()
    highs.silent()
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", seed)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.passModel(_lp(model))

    def tell(event: Any) -> None:
        values = np.asarray(event.data_out.mip_solution)
        connection.send(Incumbent(_chosen(values, problem, step_count)))

    if run:
        highs.cbMipImprovingSolution += tell
        highs.run()
    rows, columns = model.size
    otherwise = IpStatus.FAILED if run else IpStatus.STOPPED
    status = _statuses().get(highs.getModelStatus(), otherwise)
    steps = None
    if status is IpStatus.OPTIMAL:
        steps = _chosen(np.asarray(highs.getSolution().col_value), problem, step_count)
    return IpOutcome(
        status=status,
        steps=steps,
        variables=columns,
        constraints=rows,
        memory_mb=most_memory_mb(),
        detail=highs.modelStatusToString(highs.getModelStatus()),
    )


def most_memory_mb() -> float:
    """The most this process has ever held."""
    # Not ru_maxrss where it can be helped: Linux lets a child start with its parent's.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _chosen(values: Any, problem: IpProblem, step_count: int) -> tuple[tuple[int, ...], ...]:
    """The actions of each step, as positions in the problem's action rows."""
    x = values[: step_count * len(problem.actions)].reshape(step_count, -1) > 0.5
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in x)


def _lp(model: IpModel) -> Any:
    import highspy

    rows, columns = model.size
    lp = highspy.HighsLp()
    lp.num_row_ = rows
    lp.num_col_ = columns
    lp.col_cost_ = model.costs
    lp.col_lower_ = np.zeros(columns)
    lp.col_upper_ = model.upper
    lp.row_lower_ = model.row_lower
    lp.row_upper_ = model.row_upper
    lp.integrality_ = [highspy.HighsVarType.kInteger] * columns
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_row_ = rows
    lp.a_matrix_.num_col_ = columns
    lp.a_matrix_.start_ = model.row_start.astype(np.int32)
    lp.a_matrix_.index_ = model.column.astype(np.int32)
    lp.a_matrix_.value_ = model.value
    return lp


def _statuses() -> dict[Any, IpStatus]:
    import highspy

    return {
        highspy.HighsModelStatus.kOptimal: IpStatus.OPTIMAL,
        highspy.HighsModelStatus.kInfeasible: IpStatus.INFEASIBLE,
        # Every variable has bounds, so of the two it can only be this one.
        highspy.HighsModelStatus.kUnboundedOrInfeasible: IpStatus.INFEASIBLE,
    }
