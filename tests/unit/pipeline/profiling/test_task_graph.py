"""Tasks that need each other: all at once, in several goes, and when one fails."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pubweave.pipeline.profiling.task_graph import TableTask, TaskRun, most_awaited_first


class FakeContext:
    """What a run wants of Spark."""

    def __init__(self) -> None:
        self.cancelled = 0

    def setLocalProperty(self, key: str, value: str) -> None:
        assert key == "spark.scheduler.pool"

    def cancelAllJobs(self) -> None:
        self.cancelled += 1


class FakeSpark:
    def __init__(self) -> None:
        self.sparkContext = FakeContext()


def joined(name: str, *needs: str, part: bool = False) -> TableTask:
    """Its frame is a text: its name and those of what it was made of."""

    def make(frames: Any) -> Any:
        return f"{name}({','.join(frames[need] for need in needs)})"

    return TableTask(name, needs, make, part)


TASKS = [
    joined("a"),
    joined("b"),
    joined("c", "a", part=True),
    joined("d", "b", "c"),
    joined("e", "d"),
]


def make_run(
    tasks: list[TableTask], spark: FakeSpark | None = None, threads: int = 2, **options: Any
) -> tuple[TaskRun, list[str]]:
    written: list[str] = []
    lock = threading.Lock()

    def write(name: str, frame: Any) -> Any:
        with lock:
            written.append(name)
        return f"{frame}!"

    given: Any = spark or FakeSpark()
    return TaskRun(given, tasks, write, threads=threads, **options), written


def test_everything_is_made_of_what_it_needs_and_written_once() -> None:
    told: list[tuple[int, int]] = []
    run, written = make_run(TASKS, on_done=lambda _, done, total: told.append((done, total)))
    assert run.go_on()
    assert run.frames["e"] == "e(d(b()!,c(a()!))!)!"
    assert sorted(written) == ["a", "b", "d", "e"], "a part is not written for itself"
    assert told == [(n, 5) for n in range(1, 6)]
    assert run.seconds.keys() == run.frames.keys()
    assert run.go_on(), "there is nothing left to do"


def test_what_is_given_is_not_made_and_a_part_may_be_wanted_whole() -> None:
    run, written = make_run(TASKS, given={"a": "A", "b": "B"}, whole=("c",))
    assert run.go_on()
    assert run.frames["e"] == "e(d(B,c(A)!)!)!"
    assert sorted(written) == ["c", "d", "e"]


def test_without_time_each_go_does_a_little_and_the_result_is_the_same() -> None:
    whole, _ = make_run(TASKS)
    whole.go_on()
    run, _ = make_run(TASKS, threads=1)
    steps = []
    while not run.go_on(for_s=0.0):
        steps.append(len(run.frames))
    assert steps == [1, 2, 3, 4]
    assert run.frames == whole.frames


def test_a_go_does_its_share_however_long_it_takes() -> None:
    run, _ = make_run(TASKS, threads=1)
    assert run.waiting_count == 5
    assert not run.go_on(for_s=0.0, at_least=3)
    assert (len(run.frames), run.waiting_count) == (3, 2)
    assert run.go_on(for_s=0.0, at_least=9), "no more than there is"


def test_a_failure_ends_the_run_and_what_spark_computes_for_it() -> None:
    def failing(_: Any) -> Any:
        raise RuntimeError("no such column")

    spark = FakeSpark()
    run, _ = make_run([joined("a"), TableTask("b", ("a",), failing), joined("c", "b")], spark)
    with pytest.raises(RuntimeError, match="no such column"):
        run.go_on()
    assert spark.sparkContext.cancelled == 1
    assert "c" not in run.frames


def test_what_most_wait_for_comes_first() -> None:
    tasks = [joined("x"), joined("y"), joined("z"), joined("p", "z"), joined("q", "p", "y")]
    assert [task.name for task in most_awaited_first(tasks)] == ["z", "y", "p", "x", "q"]


def test_a_need_that_nobody_makes_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="b needs"):
        make_run([joined("b", "a")])
