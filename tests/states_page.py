"""Draws the state tables of the core: `python -m tests.states_page` writes the page anew, with
`PYTHONPATH=src:.`."""

from __future__ import annotations

import enum
from pathlib import Path

from pubweave.core.migration import states as migration
from pubweave.core.session import states as session
from pubweave.core.transformation import states as transformation
from pubweave.core.vocabulary.state_table import StateTable

PAGE = Path(__file__).resolve().parent.parent / "docs" / "internals" / "states.md"
ROOMS = (session, transformation, migration)
INTRODUCTION = """\
# State tables

What leads from one state to another, in a session, an action and a migration. The core changes
these states through the tables alone (`StateTable.after` in `core/vocabulary/state_table.py`): an
arrow that is not here cannot happen. `tests/transcripts/` has runs in which most of them do.

Drawn from the tables: `PYTHONPATH=src:. python -m tests.states_page` writes this page anew.
"""


def page() -> str:
    parts = [INTRODUCTION]
    for room in ROOMS:
        name = room.__name__.removeprefix("pubweave.").replace(".", "/")
        parts.append(f"## `{name}.py`\n\n{room.__doc__}\n")
        parts += [f"### {table.name}\n\n{diagram(table)}" for table in tables(room)]
    return "\n".join(parts)


def tables(room: object) -> list[StateTable[enum.Enum]]:
    return [value for value in vars(room).values() if isinstance(value, StateTable)]


def diagram(table: StateTable[enum.Enum]) -> str:
    """A Mermaid diagram; one arrow for all events between the same two states."""
    events: dict[tuple[str, str], list[str]] = {}
    for before, event, after in table.transitions:
        events.setdefault((before.name, after.name), []).append(event)
    arrows = [f"{one} --> {other}: {', '.join(named)}" for (one, other), named in events.items()]
    lines = [f"    {line}" for line in (f"[*] --> {table.first.name}", *arrows)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```", ""])


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
