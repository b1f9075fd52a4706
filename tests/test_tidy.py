"""House rules as tests: what reviewers should not have to say."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULE_LINES_SOFT, MODULE_LINES_MAX = 600, 800
LONG_MODULES_MAX = 5
"""How many may be longer than the soft limit, because splitting them would help nobody."""
FUNCTION_LINES_MAX = 70
BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager|common|misc)(_|$)")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
# Spelled in pieces, so that this file does not break its own rule.
MACHINE = re.compile(
    "|".join(["/wo" + "rk/", "/fa" + "rm/", r"https?://\S*py" + "pi", "npm" + "js"])
)


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_module_is_one_idea(path: Path) -> None:
    text = path.read_text()
    assert not BANNED_NAMES.search(path.stem), "name the idea, not the drawer"
    assert text.count("\n") <= MODULE_LINES_MAX, "split it"
    assert not UNFINISHED.search(text), "finish it or file an issue"
    tree = ast.parse(text)
    if text.strip():
        assert ast.get_docstring(tree), "say what lives here"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def test_few_modules_are_long() -> None:
    long = [path.name for path in SOURCES if path.read_text().count("\n") > MODULE_LINES_SOFT]
    assert len(long) <= LONG_MODULES_MAX, f"split some of {long}"


def test_no_machine_and_no_registry_is_named_in_a_tracked_file() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked()
        if path.is_file() and path.suffix not in {".png", ".parquet", ".gz"}
        for match in [MACHINE.search(path.read_text(errors="ignore"))]
        if match
    ]
    assert not found


def test_no_large_file_is_tracked() -> None:
    found = [str(p) for p in tracked() if p.is_file() and p.stat().st_size > 500_000]
    assert not found


def test_the_lock_file_has_hashes_and_no_addresses() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "--hash=sha256:" in lock
    assert "://" not in lock


def test_every_dependency_earns_its_place_in_one_line() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text()
    for requirement in project["dependencies"]:
        name = re.split(r"[<>=]", requirement)[0]
        assert f"| {name} |" in page
