"""The runner of all experiments: order, files, processes, Ctrl-C, and options as flags."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pubweave.cli import main
from pubweave.cli.lab import reproduce as verb
from pubweave.experiments.experiment import (
    Experiment,
    OptionError,
    Report,
    ResultTable,
    Statement,
    Verdicts,
    numbers,
    option,
)
from pubweave.experiments.runner import EXPERIMENTS, InterruptedRunError, json_of, reproduce


@dataclass(frozen=True, kw_only=True)
class Options:
    count: int = option(3, "How many.", flags=("-c", "--count"), low=1, high=9)
    names: tuple[str, ...] = option((), flags=("--name",), choices=("a", "b"))
    share: float | None = option(None, low=0, is_above=True)
    jobs: int = option(1, low=1)


def squares(task: int) -> Iterator[dict[str, int]]:
    yield {"task": task, "square": task * task}


def report(options: Options, rows: Sequence[dict[str, int]]) -> Report:
    total = sum(row["square"] for row in rows)
    said = [
        Statement("at most 5", str(total), total <= 5, tolerance=0.1),
        Statement("as in the paper", "[not styled]"),
    ]
    table = ResultTable.of("squares", rows, {"task": "{[task]}", "square": "{[square]:.1f}"})
    return Report({"runs": rows}, [table], [Verdicts(said)], ["a note"])


def made(**changes: Any) -> Experiment[Options, int, dict[str, int]]:
    given: dict[str, Any] = {
        "name": "squares",
        "about": "Squares of numbers.",
        "options": Options,
        "tasks": lambda options: list(range(options.count)),
        "run": squares,
        "report": report,
        "must_meet": True,
        "path_field": "output",
        "tells_folder": True,
    }
    return Experiment(**(given | changes))


@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_come_in_the_order_of_tasks_wherever_they_ran(jobs: int, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    experiment = made()
    found = reproduce(
        experiment, Options(jobs=jobs), tmp_path, lambda done, total: seen.append((done, total))
    )
    rows = [{"task": n, "square": n * n} for n in range(3)]
    assert json.loads((tmp_path / "squares.json").read_text()) == rows
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert json_of(experiment, found, tmp_path) == {
        "runs": rows,
        "statements": [
            {"statement": "at most 5", "found": "5", "met": True},
            {"statement": "as in the paper", "found": "[not styled]", "met": None},
        ],
        "output": str(tmp_path),
    }


@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_interrupted_run_keeps_its_rows_and_a_whole_one_removes_them(
    is_compiled: bool, tmp_path: Path
) -> None:
    def interrupted(task: int) -> Iterator[dict[str, int]]:
        if task == 2:
            if is_compiled:
                raise SystemError("join returned a result") from KeyboardInterrupt()
            raise KeyboardInterrupt
        yield from squares(task)

    (tmp_path / "squares.json").write_text("[]")
    with pytest.raises(InterruptedRunError, match=r"squares\.partial\.json"):
        reproduce(made(run=interrupted), Options(), tmp_path)
    kept = tmp_path / "squares.partial.json"
    assert [row["task"] for row in json.loads(kept.read_text())] == [0, 1]
    assert (tmp_path / "squares.json").read_text() == "[]"
    reproduce(made(), Options(), tmp_path)
    assert not kept.exists()


def invoked(experiment: Experiment[Any, Any, Any], *arguments: str) -> Any:
    group = click.Group(commands=[verb._command(experiment)])
    return CliRunner().invoke(group, [experiment.name, *arguments])


def test_options_are_flags_with_their_bounds(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path), "--json")
    done = invoked(made(), "-c", "2", "--name", "b", "--share", "0.5", *out)
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["runs"]) == 2
    assert invoked(made(), "--count", "10", *out).exit_code == 2
    assert invoked(made(), "--share", "0", *out).exit_code == 2
    assert invoked(made(), "--name", "c", *out).exit_code == 2


def test_tables_statements_and_notes_are_shown_and_a_miss_is_the_exit_code(tmp_path: Path) -> None:
    done = invoked(made(), "--count", "4", "--out", str(tmp_path))
    assert done.exit_code == 1
    for words in ("9.0", "at most 5 (within 10%)", "not met", "[not styled]", "a note"):
        assert words in done.output
    assert invoked(made(must_meet=False), "--count", "4", "--out", str(tmp_path)).exit_code == 0


def test_lists_of_numbers_are_checked() -> None:
    assert numbers("--sizes", None, int, 1, 9) is None
    assert numbers("--ratios", "0.1,1", float, 0, 1) == (0.1, 1.0)
    with pytest.raises(OptionError, match="--ratios 0: expected numbers above 0 and at most 1"):
        numbers("--ratios", "0", float, 0, 1)


def test_every_experiment_is_a_verb_and_its_example_makes_tasks() -> None:
    assert set(verb.reproduce.commands) == set(EXPERIMENTS)
    for name, experiment in EXPERIMENTS.items():
        arguments = experiment.example.replace("../shared/data", ".").split()
        context = verb.reproduce.commands[name].make_context(name, arguments)
        options = {k: v for k, v in context.params.items() if k not in ("out", "as_json")}
        assert experiment.tasks(experiment.options(**options)), name


def test_ctrl_c_is_code_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise InterruptedRunError("kept")

    monkeypatch.setattr(verb, "run_experiment", interrupted)
    assert main.run(["reproduce", "dynatops-fig10", "--out", str(tmp_path)]) == 130
