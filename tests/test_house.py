"""The house as tests: rooms are small, signed and in order; names say one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "pubweave"
GLOSSARY = (ROOT / "GLOSSARY.md").read_text()
ROOMS = sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE})
SHARED_NAMES = GLOSSARY.partition("## Class names used twice")[2]
ROOM_MODULES_MAX = 15
ROOM_LINES_MAX = 2_500
SIGN_LINES_MAX = 15
RETIRED = re.compile(
    r"(^|_)(comings|dial_once?|anew|doors?|isolation|circles|beyond|topical|wiring|inside)(_|$)"
)
"""Words of our own that the field's words have replaced, in names of modules."""


def room_name(room: Path) -> str:
    return str(room.relative_to(PACKAGE))


@pytest.mark.parametrize("room", ROOMS, ids=room_name)
def test_a_room_is_small_and_signed(room: Path) -> None:
    modules = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    lines = sum(path.read_text().count("\n") for path in room.glob("*.py"))
    assert len(modules) <= ROOM_MODULES_MAX, "split the room"
    assert lines <= ROOM_LINES_MAX, "split the room"
    assert not [path.stem for path in modules if RETIRED.search(path.stem)], "see GLOSSARY.md"
    sign = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert sign, "say what lives here and what does not, where to begin, and what always holds"
    assert sign.count("\n") < SIGN_LINES_MAX, "a sign is read at a glance"


def test_a_class_name_stands_for_one_thing() -> None:
    """Unless the glossary says why two classes have it."""
    where: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(str(path.relative_to(PACKAGE)))
    explained = set(re.findall(r"\w+", " ".join(re.findall(r"^\| ([^|]*) \|", SHARED_NAMES, re.M))))
    assert not {
        name: places for name, places in where.items() if len(places) > 1 and name not in explained
    }


def test_the_glossary_gives_each_word_one_meaning() -> None:
    words = re.findall(
        r"^\| ([a-zA-Z][^|]*?) \|",
        GLOSSARY.partition("## Words with several senses")[0],
        re.MULTILINE,
    )
    counted = Counter(word for word in words if word not in ("word", "name"))
    assert counted, "a table with a row for each word"
    assert not [word for word, count in counted.items() if count > 1]
