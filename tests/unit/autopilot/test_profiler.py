"""Profiles from a process of their own: asked, answered, killed, started again. No Spark here."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pubweave.autopilot import profiler as autopilot_profiler
from pubweave.autopilot.profiler import Profiler, ProfileReply, ProfileRequest, ProfilerError

ECHO = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    word = asked["run"]
    if word == "die":
        os._exit(3)
    if word == "hang":
        import time; time.sleep(60)
    problem = "" if word == "good" else f"no telemetry in {word}"
    print(json.dumps({"problem": problem}), flush=True)
"""


def profiler(tmp_path: Path) -> Profiler:
    return Profiler(tmp_path / "logs" / "spark.log", "1g", ("-c", ECHO))


def test_one_process_answers_all_requests(tmp_path: Path) -> None:
    async def ask() -> None:
        asked = profiler(tmp_path)
        assert asked.pid is None
        await asked.profile(Path("good"), tmp_path, 1.0)
        first = asked.pid
        with pytest.raises(ProfilerError, match="no telemetry in bad"):
            await asked.profile(Path("bad"), tmp_path, 2.0)
        assert asked.pid == first
        await asked.close()
        assert asked.pid is None
        await asked.close()

    asyncio.run(ask())


def test_a_process_that_ends_is_told_of_and_started_again(tmp_path: Path) -> None:
    async def ask() -> None:
        asked = profiler(tmp_path)
        with pytest.raises(ProfilerError, match="ended with code 3"):
            await asked.profile(Path("die"), tmp_path, 1.0)
        await asked.profile(Path("good"), tmp_path, 2.0)
        await asked.close()

    asyncio.run(ask())


def test_a_killed_process_is_told_of_by_its_signal(tmp_path: Path) -> None:
    async def ask() -> None:
        asked = profiler(tmp_path)
        await asked.profile(Path("good"), tmp_path, 1.0)
        waiting = asyncio.create_task(asked.profile(Path("hang"), tmp_path, 2.0))
        await asyncio.sleep(0.2)
        assert asked.pid is not None
        os.kill(asked.pid, signal.SIGKILL)
        with pytest.raises(ProfilerError, match="killed by signal 9"):
            await waiting
        await asked.close()

    asyncio.run(ask())


def test_one_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopilot_profiler, "END_S", 0.1)

    async def ask() -> None:
        asked = profiler(tmp_path)
        await asked.profile(Path("good"), tmp_path, 1.0)
        monkeypatch.setattr(autopilot_profiler, "LIMIT_S", 0.3)
        with pytest.raises(ProfilerError, match="took longer than"):
            await asked.profile(Path("hang"), tmp_path, 1.0)
        assert asked.pid is None

    asyncio.run(ask())


def test_the_other_side_answers_each_line_and_survives_what_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pubweave.pipeline.batch as job
    import pubweave.pipeline.frames.session as session

    sessions: list[str] = []

    def started(**given: Any) -> Any:
        sessions.append(given["memory"])
        return SimpleNamespace(stop=lambda: sessions.append("stopped"))

    def profiled(spark: object, run: str, output: str, now: float) -> None:
        if run == "bad":
            raise ValueError("no telemetry there")

    monkeypatch.setattr(session, "spark_session", started)
    monkeypatch.setattr(job, "profile", profiled)
    lines = b"".join(
        msgspec.json.encode(ProfileRequest(name, "out", 1.0)) + b"\n" for name in ("bad", "good")
    )
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(lines)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    autopilot_profiler.serve(tmp_path / "log", "3g")
    replies = [msgspec.json.decode(r, type=ProfileReply) for r in out.getvalue().splitlines()]
    assert [reply.problem for reply in replies] == ["no telemetry there", ""]
    assert sessions == ["3g", "stopped"]
