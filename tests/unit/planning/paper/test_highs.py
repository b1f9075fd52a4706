"""The door to HiGHS: one child for many programs, ended at once, and its death is told."""

from __future__ import annotations

import os
import signal

from pubweave.model.topology import Topology
from pubweave.planning.paper.algorithm_1 import ip_problem
from pubweave.planning.paper.highs import HighsSession
from pubweave.planning.paper.integer_program import ActionSet, IpStatus, model_size
from pubweave.planning.problem.problem import PlanningProblem, never


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


FIGURE_1 = ip_problem(PlanningProblem(tree("12 13 24"), tree("12 13 34")), ActionSet.NAIVE)


def test_one_child_answers_one_program_after_another() -> None:
    with HighsSession() as highs:
        assert highs.solve(FIGURE_1, 1, never).status is IpStatus.INFEASIBLE
        outcome = highs.solve(FIGURE_1, 2, never)
    assert outcome.status is IpStatus.OPTIMAL
    assert outcome.steps is not None
    chosen = [FIGURE_1.actions[row].tolist() for step in outcome.steps for row in step]
    assert chosen == [[3, 1, 0], [3, 0, 2]]


def test_better_solutions_are_told_on_the_way() -> None:
    told: list[object] = []
    with HighsSession() as highs:
        outcome = highs.solve(FIGURE_1, 3, never, told.append)
    assert told
    assert told[-1] == outcome.steps


def test_a_stop_ends_the_child_and_the_next_program_gets_a_new_one() -> None:
    with HighsSession() as highs:
        assert highs.solve(FIGURE_1, 2, lambda: True).status is IpStatus.STOPPED
        assert highs._process is None
        assert highs.solve(FIGURE_1, 2, never).status is IpStatus.OPTIMAL


def test_a_child_that_dies_is_a_failure_with_words() -> None:
    with HighsSession() as highs:
        highs.solve(FIGURE_1, 1, never)
        process = highs._process
        assert process is not None
        assert process.pid is not None

        def killing() -> bool:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            return False

        # Asked between two polls, so the child dies while the program is with it.
        os.kill(process.pid, signal.SIGSTOP)
        outcome = highs.solve(FIGURE_1, 2, killing)
    assert outcome.status is IpStatus.FAILED
    assert "died" in outcome.detail


def test_loading_counts_what_the_formula_counts() -> None:
    with HighsSession() as highs:
        outcome = highs.load(FIGURE_1, 3)
    size = model_size(FIGURE_1, 3)
    assert (outcome.variables, outcome.constraints) == (size.variables, size.constraints)
    assert outcome.memory_mb > 1
