"""Mutations: each changes one place, compiles, and is the same for the same number."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from pathlib import Path

import pytest
from soak import run_mutants
from soak.mutations import count_sites, mutated, mutation

SOURCE = '''
class Window:
    """A window of a few bytes."""

    def __init__(self) -> None:
        self.size = 0

    def add(self, count: int, is_last: bool) -> bool:
        if count < 3 and not is_last:
            self.size += count
            self.note()
        return False

    def __repr__(self) -> str:
        return "x" if self.size == 0 else "y"
'''


def test_every_kind_of_mistake_is_found_once_and_changes_one_place() -> None:
    found = [mutation("m.py", SOURCE, number) for number in range(count_sites(SOURCE))]
    assert [(each.kind, each.after) for each in found] == [
        ("constant", "self.size = 1"),
        ("negate", "if not (count < 3 and (not is_last)):"),
        ("logic", "if count < 3 or not is_last:"),
        ("compare", "if count <= 3 and (not is_last):"),
        ("constant", "if count < 4 and (not is_last):"),
        ("drop", "pass"),
        ("drop", "pass"),
        ("constant", "return True"),
    ]
    assert {each.function for each in found} == {"Window.__init__", "Window.add"}
    original = ast.unparse(ast.parse(SOURCE))
    for number in range(len(found)):
        changed = mutated("m.py", SOURCE, number)
        compile(changed, "m.py", "exec")
        before, after = original.splitlines(), changed.splitlines()
        assert len(before) == len(after)
        assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_nothing_is_broken_that_only_marks_a_branch() -> None:
    marked = "def f(a, b):\n    if a and b:\n        sometimes(Branch.FULL_GATE)\n"
    assert count_sites(marked) == 0
    assert (
        count_sites(marked + "    if a:\n        sometimes(Branch.FULL_GATE)\n        g()\n") == 2
    )


def test_the_same_seed_draws_the_same_mutants_of_protocol_code_only() -> None:
    modules = run_mutants.protocol_modules([])
    first, again = (run_mutants.draw(modules, 30, random.Random(5)) for _ in range(2))
    assert first == again
    assert all(each.module.startswith("pubweave/core/") for each in first)
    assert not any("/config/" in each.module for each in first)


def test_a_planted_mutant_is_what_python_imports(tmp_path: Path) -> None:
    path = run_mutants.PACKAGE / "core/session/session.py"
    chosen = mutation("pubweave/core/session/session.py", path.read_text(), 3)
    run_mutants.plant(chosen, tmp_path)
    script = "import pubweave.core.session.session as s; print(s.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path))
    planted = (tmp_path / chosen.module).read_text()
    assert planted == mutated(chosen.module, path.read_text(), 3)
    assert planted != ast.unparse(ast.parse(path.read_text()))


def test_what_cannot_be_chosen_is_said() -> None:
    with pytest.raises(SystemExit, match="expected MODULE:NUMBER"):
        run_mutants._chosen("nothing.py", (), 1, 0)
    with pytest.raises(SystemExit, match="has mutations 0 to"):
        run_mutants._chosen("pubweave/core/broker.py:99999", (), 1, 0)
