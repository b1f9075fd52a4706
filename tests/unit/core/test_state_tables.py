"""The state tables of the core: complete, drawn, and the only way from one state to another."""

from __future__ import annotations

import ast
import enum
from itertools import chain
from pathlib import Path

import pytest

import pubweave.core
from pubweave.core.session.states import SESSION, SessionState
from pubweave.core.vocabulary.state_table import StateTable, TransitionError
from tests.states_page import PAGE, ROOMS, page, tables

CORE = Path(str(pubweave.core.__file__)).parent
TABLES = list(chain.from_iterable(map(tables, ROOMS)))


def test_the_page_shows_the_tables_as_they_are() -> None:
    assert page() == PAGE.read_text(), "run `python -m tests.states_page`"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_says_one_thing_of_each_event_and_reaches_each_state(
    table: StateTable[enum.Enum],
) -> None:
    causes = [(before, event) for before, event, _ in table.transitions]
    assert len(causes) == len(set(causes))
    reached = {table.first}
    for _ in table.transitions:
        reached |= {after for before, _, after in table.transitions if before in reached}
    assert {before for before, _ in causes} <= reached


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_the_code_of_a_room_names_the_events_of_its_tables_and_no_others(room: object) -> None:
    """Those of `decided` are chosen there; every other one is a literal where it happens."""
    own = Path(str(vars(room)["__file__"]))
    calls = [
        node
        for path in own.parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("advance", "after")
    ]
    said = {
        node.value
        for call in calls
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert said == {event for table in tables(room) for _, event, _ in table.transitions}


def test_states_are_written_nowhere_else() -> None:
    kinds = {type(table.first).__name__ for table in TABLES}
    written = [
        f"{path}:{node.lineno}"
        for path in CORE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id in kinds
    ]
    assert not written


def test_what_is_not_drawn_cannot_happen() -> None:
    assert SESSION.after(SessionState.DOWN, "opened") is SessionState.OPEN
    with pytest.raises(TransitionError, match="Session: no 'hello' while 'down'"):
        SESSION.after(SessionState.DOWN, "hello")
