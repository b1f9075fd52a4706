"""Runs any experiment, here, in processes or on Spark, and writes what it found into a folder.

Rows come in the order of the tasks, wherever these ran, so that a seed gives the same files.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from pubweave.experiments.autopilot_days import AUTOPILOT_DAY
from pubweave.experiments.ci import experiments as ci
from pubweave.experiments.dynatops import experiments as dynatops
from pubweave.experiments.experiment import Experiment, Report, documents_of
from pubweave.experiments.grape import experiments as grape
from pubweave.experiments.ipitt import experiments as ipitt
from pubweave.experiments.shadows import experiments as shadows

EXPERIMENTS: dict[str, Experiment[Any, Any, Any]] = {
    each.name: each
    for each in (
        *ipitt.EXPERIMENTS,
        *ci.EXPERIMENTS,
        *dynatops.EXPERIMENTS,
        *grape.EXPERIMENTS,
        *shadows.EXPERIMENTS,
        AUTOPILOT_DAY,
    )
}
OnProgress = Callable[[int, int], None]
"""Is told how many of how many steps are done."""
Chunk = tuple[int, Sequence[Any], int]
"""The number of a task, rows of it, and the steps that they are."""


class InterruptedRunError(KeyboardInterrupt):
    """Ctrl-C; the message says where the rows so far are."""


def reproduce(
    experiment: Experiment[Any, Any, Any],
    options: Any,
    folder: Path,
    on_progress: OnProgress = lambda done, total: None,
) -> Report:
    """Run all tasks, write NAME.json and NAME.png into the folder, and report."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = experiment.tasks(options)
    total = sum(experiment.steps(task) for task in tasks)
    by_task: dict[int, list[Any]] = {}
    done = 0
    kept = folder / f"{experiment.name}.partial.json"
    try:
        for place, chunk, steps in _chunks(experiment, options, tasks, folder, on_progress):
            by_task.setdefault(place, []).extend(chunk)
            done += steps
            on_progress(done, total)
    except (KeyboardInterrupt, SystemError) as error:
        # Numba turns a Ctrl-C that comes within a kernel into a SystemError.
        if not any(isinstance(each, KeyboardInterrupt) for each in (error, error.__cause__)):
            raise
        _write(kept, _in_order(by_task))
        raise InterruptedRunError(
            f"interrupted: {len(by_task)} of {len(tasks)} tasks have begun or ended, their rows "
            f"are in {kept}"
        ) from None
    rows = _in_order(by_task)
    report = experiment.report(options, rows)
    numbers = rows if report.numbers is None else report.numbers
    _write(folder / f"{experiment.name}.json", numbers)
    kept.unlink(missing_ok=True)
    if experiment.plot is not None:
        experiment.plot(options, rows, folder / f"{experiment.name}.png")
    return report


def json_of(experiment: Experiment[Any, Any, Any], report: Report, folder: Path) -> dict[str, Any]:
    """What the command prints for programs."""
    document: dict[str, Any] = {each.key: each.documents() for each in report.verdicts}
    for name, value in report.document.items():
        document[name] = documents_of(value) if isinstance(value, list) else value
    if experiment.path_field is not None:
        picture = folder / f"{experiment.name}.png"
        document[experiment.path_field] = str(folder if experiment.tells_folder else picture)
    return document


def _in_order(by_task: dict[int, list[Any]]) -> list[Any]:
    return [row for place in sorted(by_task) for row in by_task[place]]


def _write(path: Path, numbers: Any) -> None:
    """JSON; a list has a line for each of its rows."""
    if isinstance(numbers, list):
        lines = ",\n".join(json.dumps(each) for each in documents_of(numbers))
        path.write_text(f"[\n{lines}\n]\n")
    else:
        path.write_text(json.dumps(numbers, indent=1) + "\n")


# --- where tasks run -----------------------------------------------------------------------------


def _chunks(
    experiment: Experiment[Any, Any, Any],
    options: Any,
    tasks: Sequence[Any],
    folder: Path,
    on_progress: OnProgress,
) -> Iterator[Chunk]:
    master = experiment.spark(options, len(tasks))
    jobs = min(getattr(options, "jobs", 1), len(tasks))
    if master is not None:
        return _on_spark(experiment, tasks, master, folder / "spark.log", on_progress)
    return _in_processes(experiment, tasks, jobs) if jobs > 1 else _here(experiment, tasks)


def _here(experiment: Experiment[Any, Any, Any], tasks: Sequence[Any]) -> Iterator[Chunk]:
    for place, task in enumerate(tasks):
        if experiment.steps(task) > 1:
            for row in experiment.run(task):
                yield place, [row], 1
        else:
            yield place, list(experiment.run(task)), 1


def _in_processes(
    experiment: Experiment[Any, Any, Any], tasks: Sequence[Any], jobs: int
) -> Iterator[Chunk]:
    # Not forked: the planner's children and numba's threads do not survive that everywhere.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _ignore_interrupts) as pool:
        places = {
            pool.submit(_listed, experiment.run, task): place for place, task in enumerate(tasks)
        }
        try:
            for future in as_completed(places):
                place = places[future]
                yield place, future.result(), experiment.steps(tasks[place])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _listed(run: Callable[[Any], Iterable[Any]], task: Any) -> list[Any]:
    return list(run(task))


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of the terminal; the parent ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_spark(
    experiment: Experiment[Any, Any, Any],
    tasks: Sequence[Any],
    master: str,
    log: Path,
    on_progress: OnProgress,
) -> Iterator[Chunk]:
    from pubweave.pipeline.batch import on_spark
    from pubweave.pipeline.frames.session import spark_session

    count = len(tasks)
    session = spark_session(master, quick=True, log=log, name="pubweave reproduce")
    try:
        run_all = on_spark(session, lambda share: on_progress(int(share * count), count))
        found = run_all(partial(_listed, experiment.run), tasks)
    finally:
        session.stop()
    for place, rows in enumerate(found):
        yield place, rows, 1
