"""What an experiment is, and what it reports: frozen values that need no runner and no terminal.

An experiment names its options, makes tasks of them, runs a task into rows, and reports the rows.
Tasks share nothing, so the runner may run them here, in processes or on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

Opts = TypeVar("Opts")
Task = TypeVar("Task")
Row = TypeVar("Row")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class OptionFacts:
    """What the command line needs to know of an option beyond its name, type and default."""

    about: str = ""
    flags: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    is_above: bool = False
    """``low`` itself is too low."""
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    default_words: str | None = None
    envvar: str | None = None


def option(default: Any, about: str = "", **facts: Any) -> Any:
    """A field of a dataclass of options; ``facts`` are those of `OptionFacts`."""
    return field(default=default, metadata={"option": OptionFacts(about, **facts)})


def data_folder(about: str) -> dict[str, Any]:
    """The metadata of a field that is the folder of shared data, or a part of it."""
    return {"option": OptionFacts(f"{about} [or PUBWEAVE_DATA]", envvar="PUBWEAVE_DATA")}


class OptionError(ValueError):
    """An option that cannot be used; the message names it."""


def numbers(
    name: str, text: str | None, kind: type[Number], low: float, high: float
) -> tuple[Number, ...] | None:
    """An option's numbers with commas between them; shares lie above ``low``.

    >>> numbers("--sizes", "6,8", int, 3, 100)
    (6, 8)
    """
    if text is None:
        return None
    is_whole = kind is int
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        wanted = "whole numbers" if is_whole else "numbers"
        raise OptionError(f"{name} {text}: expected {wanted} with commas between them") from None
    if not all((low <= value if is_whole else low < value) and value <= high for value in values):
        span = f"from {low} to {high}" if is_whole else f"above {low} and at most {high}"
        raise OptionError(f"{name} {text}: expected numbers {span}")
    return values


@dataclass(frozen=True)
class Statement:
    """What a paper says, or we promised, beside what was measured."""

    wanted: str
    found: str
    is_met: bool | None = None
    """None: the two are set side by side without a verdict, or ``only`` says why there is none."""
    about: str = ""
    """What is measured, where ``wanted`` does not say it."""
    tolerance: float = 0.0
    """The share by which ``found`` may differ and still be met."""
    only: str = ""
    """Under which condition it is met."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs, where text alone would lose something."""

    @property
    def verdict(self) -> str:
        if self.is_met is None:
            return self.only
        return " ".join(filter(None, ("met" if self.is_met else "not met", self.only)))


@dataclass(frozen=True)
class Verdicts:
    """Statements of one kind: their title, their JSON field, and the fields of each."""

    statements: Sequence[Statement]
    key: str = "statements"
    fields: Mapping[str, str] = field(
        default_factory=lambda: {"statement": "wanted", "found": "found", "met": "is_met"}
    )
    """By JSON field: an attribute of `Statement`, or a key of its numbers."""
    title: str = "what the paper says and what we promised, and what was found"

    def documents(self) -> list[dict[str, Any]]:
        return [
            {
                name: each.numbers[source] if source in each.numbers else getattr(each, source)
                for name, source in self.fields.items()
            }
            for each in self.statements
        ]

    def table(self) -> ResultTable:
        has_subject = any(each.about for each in self.statements)
        rows = []
        for each in self.statements:
            wanted = each.wanted
            if each.tolerance:
                wanted += f" (within {each.tolerance:.0%})"
            subject = [each.about] if has_subject else []
            rows.append((*subject, wanted, each.found, each.verdict))
        subject = ["what"] if has_subject else []
        headings = (*subject, "the paper, or our bar", "found", "")
        return ResultTable(self.title, headings, rows, left=len(headings))


@dataclass(frozen=True)
class ResultTable:
    """Rows of text; the first ``left`` columns are aligned to the left, the others to the right."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    @classmethod
    def of(
        cls, title: str, items: Iterable[Any], columns: Mapping[str, str], left: int = 1
    ) -> ResultTable:
        """A row for each item; columns are format strings by heading.

        >>> ResultTable.of("", [1 + 2j], {"real": "{.real:.1f}"}).rows
        [['1.0']]
        """
        rows = [[form.format(item) for form in columns.values()] for item in items]
        return cls(title, tuple(columns), rows, left)


@dataclass(frozen=True)
class Report:
    """What is shown, and what programs get."""

    document: Mapping[str, Any]
    """Fields of the JSON output, without verdicts and the path; rows become documents."""
    tables: Sequence[ResultTable] = ()
    verdicts: Sequence[Verdicts] = ()
    notes: Sequence[str] = ()
    numbers: Any = None
    """What NAME.json holds, where it is not the rows."""

    @property
    def is_met(self) -> bool:
        return all(s.is_met is not False for each in self.verdicts for s in each.statements)


def one_task(task: Any) -> int:
    return 1


def no_spark(options: Any, tasks: int) -> str | None:
    return None


@dataclass(frozen=True)
class Experiment(Generic[Opts, Task, Row]):
    """A figure or table of a paper."""

    name: str
    about: str
    """One sentence; then, after an empty line, what a user should know before running it."""
    options: type[Opts]
    tasks: Callable[[Opts], Sequence[Task]]
    run: Callable[[Task], Iterable[Row]]
    """A function of a module, because processes and Spark's workers import it."""
    report: Callable[[Opts, Sequence[Row]], Report]
    plot: Callable[[Opts, Sequence[Row], Path], None] | None = None
    example: str = ""
    """Arguments of an example on the command line."""
    unit: str = "runs"
    steps: Callable[[Task], int] = one_task
    """How many steps of progress a task is; a row that comes is one step."""
    spark: Callable[[Opts, int], str | None] = no_spark
    """The master of Spark for so many tasks; None: Spark is not used."""
    must_meet: bool = False
    """The command fails unless every statement is met."""
    path_field: str | None = "picture"
    """The JSON field with the path of the picture, or of the folder."""
    tells_folder: bool = False


def figures(
    options: type[Opts],
    *,
    tasks: Callable[[str, Opts], Sequence[Task]],
    report: Callable[[str, Opts, Sequence[Row]], Report],
    draw: Callable[[str, Sequence[Row], Path], None],
    **facts: Any,
) -> Callable[..., Experiment[Opts, Task, Row]]:
    """What makes an experiment of a figure's name, its sentence and its example, where all figures
    of a paper are run alike. ``facts`` are those of `Experiment`."""

    def figure(name: str, about: str, example: str = "") -> Experiment[Opts, Task, Row]:
        return Experiment(
            name,
            about,
            options,
            tasks=partial(tasks, name),
            report=partial(report, name),
            plot=lambda _, rows, path: draw(name, rows, path),
            example=example,
            **facts,
        )

    return figure


def documents_of(rows: Iterable[Any]) -> list[Any]:
    """Rows as JSON holds them: mappings, or dataclasses that may say it in their own way."""
    return [_document_of(row) for row in rows]


def _document_of(row: Any) -> Any:
    if hasattr(row, "as_json"):
        return row.as_json()
    return asdict(row) if is_dataclass(row) and not isinstance(row, type) else row
