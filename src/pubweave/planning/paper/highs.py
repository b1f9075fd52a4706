"""HiGHS behind a door: programs go to a child process, outcomes come back.

One child serves many programs (Algorithm 1 asks for one after another); a stop ends it at once.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.planning.paper.integer_program import (
    ChosenActions,
    Incumbent,
    IpModel,
    IpOutcome,
    IpProblem,
    IpStatus,
    build_model,
)
from pubweave.planning.problem.problem import Stop

# The child: it builds programs and solves them, one by one.
#
# highspy is imported here and nowhere else: it clashes with other solvers inside one process, and a
# child can be ended at any moment, which makes limits and Ctrl-C reliable.


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


_POLL_S = 0.02
_END_S = 5.0


class HighsSession:
    """A child process with HiGHS, started at the first program; close it, or use it in a with."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def solve(
        self,
        problem: IpProblem,
        step_count: int,
        stop: Stop,
        on_incumbent: Callable[[ChosenActions], None] | None = None,
    ) -> IpOutcome:
        """Solve the program for so many steps, or end it when the stop comes."""
        connection = self._started()
        connection.send((problem, step_count, self._seed, True))
        best: ChosenActions | None = None
        while True:
            if connection.poll(_POLL_S):
                answer = self._received(connection)
                if isinstance(answer, IpOutcome):
                    # A solver that failed may still have found something before.
                    return answer if answer.steps is not None else replace(answer, steps=best)
                best = answer.steps
                if on_incumbent is not None:
                    on_incumbent(best)
            elif stop():
                self.close()
                return IpOutcome(IpStatus.STOPPED, best)

    def load(self, problem: IpProblem, step_count: int) -> IpOutcome:
        """Build the program and hand it to HiGHS without solving it: its size and memory."""
        connection = self._started()
        connection.send((problem, step_count, self._seed, False))
        outcome = self._received(connection)
        assert isinstance(outcome, IpOutcome)
        return outcome

    def close(self) -> None:
        """End the child, whatever it is doing."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def _received(self, connection: Connection) -> IpOutcome | Incumbent:
        try:
            answer = connection.recv()
        except (EOFError, ConnectionError):
            self.close()
            return IpOutcome(IpStatus.FAILED, detail="the solver's process died")
        assert isinstance(answer, IpOutcome | Incumbent)
        return answer

    def _started(self) -> Connection:
        if self._process is not None and not self._process.is_alive():
            self.close()
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, far_end = context.Pipe()
            self._process = context.Process(target=serve, args=(far_end,), daemon=True)
            self._process.start()
            far_end.close()
        return self._connection

    def __enter__(self) -> HighsSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
