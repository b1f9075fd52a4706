"""`soak.jepsen` in small: a minute of a tree under a nemesis; nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bench.rivals import ROOT
from soak.jepsen.overlay import environment
from soak.jepsen.sandbox import unshare_command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.timeout(600),
    pytest.mark.skipif(unshare_command() is None, reason="no namespaces here: see the soak's page"),
]


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "soak.jepsen", *options],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def left_behind(keep: Path) -> list[str]:
    """Processes of a trial that are still there, and its mounts."""
    found = [each for each in Path("/proc/mounts").read_text().splitlines() if str(keep) in each]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(keep) in command and process.name != str(os.getpid()):
            found.append(command)
    return found


def wait_until_nothing_is_left(keep: Path) -> None:
    deadline = time.monotonic() + 10.0
    while (left := left_behind(keep)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


def test_a_minute_of_a_tree_under_a_nemesis_holds(tmp_path: Path) -> None:
    options = ("--minutes", "1", "--strategy", "tree", "--seed", "3", "--json")
    process = start(*options, "--rate", "40", "--keep", str(tmp_path))
    out, err = process.communicate()
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)[0]
    assert found["counts"]["due"] > 500
    assert found["counts"]["faults"] > 0
    page = (tmp_path / "tree-seed-3" / "report.html").read_text()
    assert "holds" in page
    assert "<svg" in page
    wait_until_nothing_is_left(tmp_path)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_however_it_ends_nothing_is_left(tmp_path: Path, how: signal.Signals) -> None:
    process = start("--minutes", "5", "--strategy", "tree_journal", "--keep", str(tmp_path))
    assert process.stderr is not None
    for line in process.stderr:
        if "left" in line:
            break
    assert left_behind(tmp_path)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does
    else:
        process.send_signal(how)
    process.communicate()
    if how == signal.SIGINT:
        report = json.loads((tmp_path / "tree_journal-seed-1" / "report.json").read_text())
        assert report["ended_early"]
        assert process.returncode == bool(report["violations"])
    wait_until_nothing_is_left(tmp_path)


def test_what_cannot_begin_says_what_to_do(tmp_path: Path) -> None:
    process = start("--minutes", "0.1", "--keep", str(tmp_path))
    _, err = process.communicate()
    assert process.returncode == 2
    assert "--minutes" in err
