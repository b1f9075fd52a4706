"""The programs in examples/ run as their docstrings say, and print what they promise."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.zookeeper_users import needs_zookeeper

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LINES_MAX = 100
EXPECTED = {
    "drive_a_broker": "buyer is notified: STOCK {'volume': 2000}",
    "filters": "volume > 1000 covers volume > 5000: True",
    "mqtt_with_paho": 'received: {"volume": 2000}',
    "own_routing_strategy": "b3 delivers {'volume': 2000}",
    "own_scenario": "seed 2: 2 strikes, 0 violations",
    "overlay_in_process": "readings above 20: [21, 22, 23, 24]",
    "plan_and_apply": "publications arrived in order: True",
    "profile_and_design": "profile: topic STOCK, 200 publications",
    "publish_and_subscribe": "STOCK {'symbol': 'ACME', 'volume': 3000} a quote",
}
"""A line that each of them prints."""
MARKS = {
    "plan_and_apply": (pytest.mark.sockets, needs_zookeeper()),
    "profile_and_design": (pytest.mark.sockets, pytest.mark.slow),
    **dict.fromkeys(
        ("mqtt_with_paho", "overlay_in_process", "own_routing_strategy", "publish_and_subscribe"),
        (pytest.mark.sockets,),
    ),
}


def test_every_example_is_tested() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(EXPECTED)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LINES_MAX
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert f"python examples/{path.name}" in docstring
    compile(text, path.name, "exec")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, ())) for name in sorted(EXPECTED)]
)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error"},
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[name] in done.stdout
