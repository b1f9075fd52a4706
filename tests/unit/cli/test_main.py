"""``python -m pubweave``."""

from __future__ import annotations

import subprocess
import sys


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pubweave", "upp"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "Usage: pubweave " in done.stderr
    assert "no such command 'upp'; there are up" in done.stderr
