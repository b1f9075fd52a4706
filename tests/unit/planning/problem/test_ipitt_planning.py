"""The planner experiment: instances, averages, and what is spared."""

from __future__ import annotations

from dataclasses import replace

from pubweave.experiments.ipitt.planning import (
    Measured,
    averages,
    excess_steps,
    instances,
    measure,
    model_sizes,
    points,
)
from pubweave.model.plans import Bounds, Plan, PlanStatus, Shift
from pubweave.planning.problem.problem import PlanningProblem, PlanResult, Stop, never


def measured(topology: str, method: str, steps: int | None, status: str = "feasible") -> Measured:
    actions = None if steps is None else 2 * steps
    return Measured(20, 0.2, topology, method, status, 1.0, steps, actions, None, 1, ())


def test_instances_are_the_papers_and_change_the_stated_share() -> None:
    batch = instances(20, 0.2, seed=1, count=3)
    assert [instance.topology for instance in batch] == [
        "degree5-balanced-1",
        "degree6-balanced-1",
        "degree7-balanced-1",
    ]
    assert all(len(instance.problem.goal_links) == 4 for instance in batch)
    assert instances(20, 0.2, seed=1, count=3) == batch
    assert len(instances(20, 0.2, seed=1)) == 12


def test_each_point_is_measured_once() -> None:
    assert points((10, 20), (0.1, 0.2), 20) == [(10, 0.2), (20, 0.2), (20, 0.1)]


def test_a_method_that_finds_nothing_is_spared_harder_points() -> None:
    asked: list[tuple[int, str]] = []

    def planner(problem: PlanningProblem, method: str, stop: Stop) -> PlanResult:
        asked.append((len(problem.source.brokers), method))
        plan = None if method == "ip-naive" else Plan(((Shift("a", "b", "c"),),))
        return PlanResult(PlanStatus.FEASIBLE, plan, Bounds(1, 1), method, 1.0)

    where = [(20, 0.2), (10, 0.2), (10, 0.1)]
    runs = list(measure(where, ("auto", "ip-naive"), planner, lambda: never, seed=1, topologies=1))
    assert asked == [(10, "auto"), (10, "ip-naive"), (10, "auto"), (20, "auto")]
    assert [run.steps for run in runs] == [1, None, 1, 1]


def test_means_count_only_what_was_found() -> None:
    runs = [measured("a", "bfs", 4), measured("b", "bfs", 6), measured("c", "bfs", None)]
    (mean,) = averages(runs)
    assert (mean.found, mean.tried, mean.steps, mean.actions) == (2, 3, 5.0, 10.0)
    (nothing,) = averages(runs[2:])
    assert (nothing.found, nothing.seconds, nothing.steps) == (0, None, None)


def test_bfs_plans_count_once_more_side_by_side() -> None:
    runs = [replace(measured("a", "bfs", 9), parallel_steps=4)]
    serial, beside = averages(runs)
    assert (serial.method, serial.steps) == ("bfs", 9)
    assert (beside.method, beside.steps, beside.actions) == ("bfs-parallel", 4, 18)


def test_excess_is_measured_against_proven_optima_only() -> None:
    runs = [
        measured("a", "auto", 4, "steps_optimal"),
        measured("a", "ip-each-path", 5),
        measured("b", "auto", 1),
        measured("b", "ip-each-path", 9),
    ]
    assert excess_steps(runs, "ip-each-path") == 0.25
    assert excess_steps(runs, "bfs") is None


def test_model_sizes_follow_the_papers_formula() -> None:
    (instance,) = instances(20, 0.2, seed=1, count=1)
    for size in model_sizes(instance, 3):
        assert size.variables == size.actions * 3 + 5 * 20 * 19 * 4
        assert size.memory_mb is None


def test_memory_is_measured_in_a_process_that_loads_the_program() -> None:
    (instance,) = instances(20, 0.2, seed=1, count=1)
    held = {size.method: size.memory_mb for size in model_sizes(instance, 3, with_memory=True)}
    assert held["ip-naive"] is not None
    assert held["ip-each-path"] is not None
    assert held["ip-naive"] > held["ip-each-path"] > 10
