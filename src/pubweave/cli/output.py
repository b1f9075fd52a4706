"""What verbs share in speaking: JSON on standard output, everything else out of its way.

With ``--json`` standard output carries nothing but JSON, one object per line where there are
several. Progress, warnings and remarks go to standard error.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one object per line."
)


def print_json(document: object) -> None:
    """One JSON object on one line of standard output, at once."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()


def tell(document: object, as_json: bool, in_words: Callable[[], object]) -> None:
    """One result: as JSON for programs, or in words for people."""
    if as_json:
        print_json(document)
    else:
        in_words()


def remark(text: str) -> None:
    """A line for the reader, not for programs."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    click.echo(click.style("warning: ", fg="yellow") + text, err=True)


def error_console() -> Console:
    """Where progress is shown."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def output_console() -> Console:
    """Where tables are shown; as wide as they need where nobody has a window for them."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def new_table(
    *headings: str, left: Collection[str] | None = None, title: str | None = None, **style: Any
) -> Table:
    """A table to add rows to; columns are aligned right but those in ``left``, or the first one.

    It has a frame if it has a title and nothing else is said."""
    from rich.table import Table

    if title is None:
        style = {"box": None, "pad_edge": False, **style}
    table = Table(title=title, **style)
    for place, heading in enumerate(headings):
        is_left = place == 0 if left is None else heading in left
        table.add_column(heading, justify="left" if is_left else "right")
    return table


class Advance:
    """Moves a progress bar; does nothing where none is shown."""

    def __init__(self, move: Callable[[float, float | None], None] | None = None) -> None:
        self._move = move

    def to(self, done: float, total: float | None = None) -> None:
        if self._move is not None:
            self._move(done, total)


@contextlib.contextmanager
def progress_bar(title: str, total: float | None, *, shown: bool = True) -> Iterator[Advance]:
    """A progress bar on standard error while it is a terminal and ``shown``."""
    if not shown or not sys.stderr.isatty():
        yield Advance()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=error_console(),
        transient=True,
    ) as progress:
        task = progress.add_task(title, total=total)

        def move(done: float, new_total: float | None) -> None:
            progress.update(task, completed=done, total=new_total if new_total else total)

        yield Advance(move)


@contextlib.contextmanager
def changing_line(title: str, *, shown: bool = True) -> Iterator[Callable[[str], None]]:
    """One line on standard error that says how far a search is, while it is a terminal."""
    if not shown or not sys.stderr.isatty():
        yield lambda text: None
        return
    with error_console().status(title) as line:
        yield lambda text: line.update(text)


class LiveView:
    """Repeated reports: redrawn in place on a terminal, lines elsewhere, JSON lines on demand."""

    def __init__(self, *, as_json: bool, quiet: bool = False) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._stack = contextlib.ExitStack()
        self._draw: Callable[[RenderableType], None] | None = None

    @property
    def is_live(self) -> bool:
        return self._draw is not None

    def __enter__(self) -> LiveView:
        if not self._as_json and not self._quiet and sys.stdout.isatty():
            from rich.live import Live

            live = self._stack.enter_context(
                Live(console=output_console(), auto_refresh=False, transient=True)
            )
            self._draw = lambda content: live.update(content, refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(
        self, document: Mapping[str, Any], line: str, drawing: Callable[[], RenderableType]
    ) -> None:
        """One report in whichever form is wanted."""
        if self._as_json:
            print_json(document)
        elif self._quiet:
            return
        elif self._draw is not None:
            self._draw(drawing())
        else:
            click.echo(line)
