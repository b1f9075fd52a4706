"""The house as tests: rooms are small, signed and in order; names say one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "pubweave"
GLOSSARY = (ROOT / "GLOSSARY.md").read_text()
ARCHITECTURE = re.sub(
    r"^```.*?^```",
    "",
    (ROOT / "docs" / "ARCHITECTURE.md").read_text(),
    flags=re.MULTILINE | re.DOTALL,
)
ROOMS = sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE})
SHARED_NAMES = GLOSSARY.partition("## Class names used twice")[2]
ROOM_MODULES_MAX = 15
ROOM_LINES_MAX = 2_500
SIGN_LINES_MAX = 15
RETIRED = re.compile(
    r"(^|_)(comings|dial_once?|anew|doors?|isolation|circles|beyond|topical|wiring|inside)(_|$)"
)
"""Words of our own that the field's words have replaced, in names of modules."""
BACKTICKED = re.compile(r"(?<!`)`([^`]+)`(?!`)")
TERMS = {
    "keep-alive": "core.mqtt",
    "session takeover": "core.mqtt",
    "in-flight window": "core.mqtt.session",
    "retained store": "core.mqtt.cluster",
    "will delay": "core.mqtt.session",
    "shared group choice": "core.mqtt.session",
    "deduplication": "core.dataplane",
    "back-pressure": "core.session",
    "failure detector": "core.routing.topic_connected",
    "anti-entropy": "core.mqtt.cluster",
    "gossip": "core.mqtt.cluster",
    "heartbeat": "core.session",
    "group commit": "core.journal",
    "snapshot": "core.journal",
    "two-phase coordinator": "core.transformation",
    "stale-entry expiry": "core.routing.tree",
    "route cache": "core.dataplane",
    "watermark": "pipeline.streaming",
    "plan validator": "planning.check",
    "cost model": "design.tree",
}
"""What an engineer who knows brokers looks for: each in the sign of the room that has it."""


def room_name(room: Path) -> str:
    return str(room.relative_to(PACKAGE))


def sign_of(room: Path) -> str:
    return ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""


def place_of(name: str, room: Path) -> Path | None:
    """The module or package of that name, seen from the room: in it, beside it or above it."""
    for base in (room, *room.parents):
        place = base / name.replace(".", "/")
        if (place / "__init__.py").exists():
            return place
        if (module := place.with_suffix(".py")).exists():
            return module
        if base == PACKAGE:
            break
    return None


@cache
def identifiers_in(place: Path) -> frozenset[str]:
    return frozenset(
        str(getattr(node, field))
        for path in (place.rglob("*.py") if place.is_dir() else [place])
        for node in ast.walk(ast.parse(path.read_text()))
        for field in ("id", "attr", "name", "arg")
        if hasattr(node, field)
    )


@pytest.mark.parametrize("room", ROOMS, ids=room_name)
def test_a_sign_names_what_exists(room: Path) -> None:
    """Modules and packages, or identifiers of the room or of those that the sign points to."""
    names = BACKTICKED.findall(sign_of(room))
    places = {name: place_of(name, room) for name in names}
    known = identifiers_in(room).union(*(identifiers_in(at) for at in places.values() if at))
    assert not [name for name in names if not places[name] and not {*name.split(".")} <= known]


@pytest.mark.parametrize(("term", "room"), TERMS.items())
def test_the_field_s_terms_are_found_by_their_own_words(term: str, room: str) -> None:
    sign = sign_of(PACKAGE / room.replace(".", "/"))
    assert term in " ".join(sign.partition("Not here")[0].lower().split())


@pytest.mark.parametrize("room", ROOMS, ids=room_name)
def test_a_room_is_small_and_signed(room: Path) -> None:
    modules = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    lines = sum(path.read_text().count("\n") for path in room.glob("*.py"))
    assert len(modules) <= ROOM_MODULES_MAX, "split the room"
    assert lines <= ROOM_LINES_MAX, "split the room"
    assert not [path.stem for path in modules if RETIRED.search(path.stem)], "see GLOSSARY.md"
    sign = sign_of(room)
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


def test_the_glossary_names_rooms_that_exist() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| [^|]+ \| ([^|]+) \| [^|]*\|$",
        GLOSSARY.partition("## Words with several senses")[0],
        re.MULTILINE,
    )
    names = [name for where in rows for name in BACKTICKED.findall(where)]
    assert len(names) > 100, "a third column with rooms"
    assert not [name for name in names if not place_of(name, PACKAGE)]


def test_the_architecture_page_lists_each_room_once_by_its_sign() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", ARCHITECTURE, re.MULTILINE)
    signs = [(room_name(room).replace("/", "."), sign_of(room).split("\n")[0]) for room in ROOMS]
    assert sorted(rows) == sorted((name, line.removesuffix(".")) for name, line in signs)


def test_the_architecture_page_names_what_exists() -> None:
    names = [name for name in BACKTICKED.findall(ARCHITECTURE) if re.fullmatch(r"[\w./]+", name)]
    known = identifiers_in(PACKAGE)
    assert not [
        name
        for name in names
        if not place_of(name, PACKAGE) and not (ROOT / name).exists() and name not in known
    ]


def test_comments_and_pages_name_modules_that_exist() -> None:
    """Backticked names that begin with a package: a room, a module, or what a module has."""
    packages = "|".join(room.name for room in ROOMS if room.parent == PACKAGE)
    named = re.compile(rf"(?<!`)`((?:{packages})[./][\w./]+?)(?:\.py)?`(?!`)")
    missing = set()
    for path in (*PACKAGE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")):
        for name in named.findall(path.read_text()):
            parts = re.split(r"[./]", name)
            cuts = range(len(parts), 0, -1)
            places = {cut: place_of(".".join(parts[:cut]), PACKAGE) for cut in cuts}
            cut, at = next((cut, at) for cut, at in places.items() if at)
            if parts[cut:] and (at.is_dir() or not {*parts[cut:]} <= identifiers_in(at)):
                missing.add((str(path.relative_to(ROOT)), name))
    assert not missing
