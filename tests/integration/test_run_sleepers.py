"""`soak.run_sleepers` in small: brokers that sleep, stall or die, judged from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bench.rivals import ROOT
from soak.run_sleepers import run
from soak.sleepers_overlay import environment
from soak.sleepers_report import SleepersChoice, SleepersRun, in_words

pytestmark = [pytest.mark.slow, pytest.mark.sockets]

SMALL = SleepersChoice(brokers=6, rate=60.0, before_s=5.0, after_s=12.0, patience_s=30.0, seed=3)


def play(choice: SleepersChoice, scratch: Path) -> SleepersRun:
    """A run whose losses, if any, are told."""
    told = asyncio.run(run(choice, scratch))
    assert not told.failure, in_words(told)
    assert told.judgement.expected > 1000
    assert not told.judgement.is_fault, in_words(told)
    return told


@pytest.mark.parametrize("for_s", [20.0, 45.0])
def test_nothing_is_lost_while_a_broker_of_a_tree_sleeps(tmp_path: Path, for_s: float) -> None:
    told = play(replace(SMALL, for_s=for_s), tmp_path)
    assert told.judgement.missing == 0, in_words(told)


def test_nothing_is_lost_while_a_broker_with_a_journal_sleeps(tmp_path: Path) -> None:
    told = play(replace(SMALL, durability="journal", for_s=45.0), tmp_path)
    assert told.judgement.missing == 0, in_words(told)


@pytest.mark.parametrize("strategy", ["topic_connected", "rendezvous"])
def test_nothing_is_lost_while_a_broker_that_routes_by_topic_sleeps(
    tmp_path: Path, strategy: str
) -> None:
    """What is published meanwhile is far within the bound of what others keep."""
    told = play(replace(SMALL, strategy=strategy, for_s=45.0), tmp_path)
    assert told.judgement.missing == 0, in_words(told)


def test_nothing_is_lost_while_connections_of_clients_stall(tmp_path: Path) -> None:
    told = play(replace(SMALL, fault="stall", for_s=20.0), tmp_path)
    assert told.judgement.missing == 0, in_words(told)


def test_what_a_killed_broker_takes_along_is_counted(tmp_path: Path) -> None:
    told = play(replace(SMALL, fault="kill", times=3), tmp_path)
    assert len(told.back_after_s) == 3


def test_no_process_is_left_when_it_is_interrupted_while_a_broker_sleeps(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    command = [sys.executable, "-m", "soak.run_sleepers", "--brokers", "3", "--before", "0"]
    with subprocess.Popen(
        [*command, "--for", "60", "--keep", str(keep)], cwd=ROOT, env=environment()
    ) as process:
        sleeping = wait_for_a_sleeper(keep / "seed-1", limit_s=60.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=40.0) == 130
    assert sleeping
    assert processes_of(keep) == []


def processes_of(directory: Path) -> list[int]:
    """Processes whose command line or open log names a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            names = [(entry / "cmdline").read_text(), os.readlink(entry / "fd" / "2")]
        except OSError:
            continue
        if any(str(directory) in name for name in names):
            found.append(int(entry.name))
    return found


def wait_for_a_sleeper(directory: Path, limit_s: float) -> list[int]:
    """Processes of a run that are stopped, as soon as there are any."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        stats = {pid: Path(f"/proc/{pid}/stat") for pid in processes_of(directory)}
        stopped = [p for p, s in stats.items() if s.exists() and ") T " in s.read_text()]
        if stopped:
            return stopped
        time.sleep(0.2)
    return []
