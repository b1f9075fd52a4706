"""HiGHS behind a door: programs go to a child process, outcomes come back.

One child serves many programs (Algorithm 1 asks for one after another); a stop ends it at once.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from pubweave.planning.paper import highs_worker
from pubweave.planning.paper.integer_program import IpProblem
from pubweave.planning.paper.outcome import ChosenActions, Incumbent, IpOutcome, IpStatus
from pubweave.planning.problem.result import Stop

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
            self._process = context.Process(target=highs_worker.serve, args=(far_end,), daemon=True)
            self._process.start()
            far_end.close()
        return self._connection

    def __enter__(self) -> HighsSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
