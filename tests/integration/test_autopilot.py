"""The autopilot on broker processes and a real ZooKeeper; with Spark where the test is slow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pubweave.autopilot import driver as autopilot_run
from pubweave.autopilot.driver import AssumedPrices, LivePilot, PilotSetup
from pubweave.cli.options.coordination import DeploymentChoice
from pubweave.control.evidence import Evidence
from pubweave.control.records import list_decisions
from pubweave.control.settings import ControlSettings
from pubweave.deploy.commands import read_topology
from pubweave.deploy.documents import Layout
from pubweave.model.decisions import AutopilotStatus, ControlMode
from pubweave.model.files.topology import write_topology
from pubweave.model.topology import Topology
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_target import DEFAULT_SESSION_TIMEOUT_S
from tests.contract.zookeeper_users import needs_zookeeper
from tests.integration.live_overlay import LiveOverlay, start, until
from tests.unit.control.world import CHAIN, evidence

pytestmark = [pytest.mark.sockets, needs_zookeeper()]

SLOW_WAIT_S = 400.0


class KnowingPilot(LivePilot):
    """Knows the traffic without Spark: most of it goes from one end of the chain to the other."""

    async def _take_profile(self, since: float) -> Evidence:
        topology = await run_command(self._store, read_topology(self.loop.layout))
        now = time.time()
        seen = evidence(window_started_at=now - 61.0, window_ended_at=now)
        return replace(seen, topology=topology)


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[LiveOverlay]:
    live = LiveOverlay(tmp_path, CHAIN)
    yield live
    live.close()


def setup_for(overlay: LiveOverlay, mode: ControlMode, looks: int | None) -> PilotSetup:
    run_dir = overlay.directory / "run"
    return PilotSetup(
        where=DeploymentChoice(run_dir).find(),
        settings=ControlSettings(mode=mode, period_s=60.0, free_period_s=60.0, review_poll_s=0.2),
        telemetry=run_dir,
        work=overlay.directory / "work",
        prices=AssumedPrices(),
        step_timeout_s=30.0,
        plan_limit_s=1.0,
        search_limit_s=5.0,
        memory="1g",
        looks=looks,
        rehearse=False,
    )


def decisions(overlay: LiveOverlay) -> list[dict[str, Any]]:
    listed = overlay.run("decisions", "list", "--all", "--json").stdout.splitlines()
    return [json.loads(line) for line in listed]


def test_a_proposal_is_approved_on_the_command_line_and_carried_out(
    overlay: LiveOverlay, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def fly() -> None:
        setup = setup_for(overlay, ControlMode.APPROVE, looks=1)
        proposed = asyncio.Event()

        def hear(now: float, status: AutopilotStatus, line: str) -> None:
            if "change:" in line:
                proposed.set()

        flying = asyncio.create_task(KnowingPilot(setup, hear).run())
        async with asyncio.timeout(60.0):
            await proposed.wait()
            assert overlay.current().links == CHAIN.links, "nothing is done before the answer"
            done = await asyncio.to_thread(overlay.run, "decisions", "approve", "1", "--by", "ann")
            assert done.returncode == 0, done.stderr
            await flying

    asyncio.run(fly())
    (made,) = decisions(overlay)
    assert (made["state"], made["reviewed_by"]) == ("deployed", "ann")
    added = {tuple(link) for each in made["alternatives"] if each["name"] == made["chosen"]
             for link in each["added_links"]}  # fmt: skip
    until(lambda: added <= {tuple(link) for link in overlay.current().links})
    until(overlay.is_whole)
    told = json.loads(overlay.run("plan", "status", "--json").stdout)
    assert told["purpose"] == f"decision 000001: {made['reason']}"
    shown = overlay.run("decisions", "list").stdout
    assert "no autopilot is running" in shown


def test_a_second_autopilot_is_refused(
    overlay: LiveOverlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopilot_run, "OTHER_GONE_S", 1.0)
    setup = setup_for(overlay, ControlMode.OBSERVE, looks=None)

    async def fly() -> None:
        told = asyncio.Event()
        first = asyncio.create_task(KnowingPilot(setup, lambda *_: told.set()).run())
        await told.wait()
        with pytest.raises(Exception, match="is running already"):
            await KnowingPilot(setup, lambda *_: None).run()
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first

    asyncio.run(fly())


@pytest.mark.slow
def test_while_zookeeper_is_away_nothing_is_decided_and_then_it_goes_on(
    overlay: LiveOverlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a session lasts: its own node is gone then, too, and comes back."""
    made = setup_for(overlay, ControlMode.OBSERVE, looks=None)
    setup = replace(made, settings=replace(made.settings, period_s=2.0))
    lines: list[str] = []

    async def fly() -> None:
        flying = asyncio.create_task(
            KnowingPilot(setup, lambda now, status, line: lines.append(line)).run()
        )
        async with asyncio.timeout(200.0):
            await _heard(lines, "decision 000001")
            server = overlay.zookeeper_pid()
            os.kill(server, signal.SIGSTOP)
            try:
                await _heard(lines, "does not answer")
                await asyncio.sleep(DEFAULT_SESSION_TIMEOUT_S + 4.0)
                before = len(lines)
            finally:
                os.kill(server, signal.SIGCONT)
            await _heard(lines, "decision", after=before)
            status = (await asyncio.to_thread(overlay.run, "decisions", "list")).stdout
        assert "mode observe) is " in status, "its node is there again"
        flying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await flying

    asyncio.run(fly())
    assert sum("does not answer" in line for line in lines) <= 3, "said, and not again and again"


async def _heard(lines: list[str], words: str, after: int = 0) -> None:
    while not any(words in line for line in lines[after:]):  # noqa: ASYNC110  (no event to wait on)
        await asyncio.sleep(0.1)


# --- with Spark ----------------------------------------------------------------------------------


class Traffic:
    """Subscribers and publishers as processes of their own."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._processes = [
            self._silent("sub", "class = 'far'", "--broker", "b6"),
            self._silent("sub", "class = 'near'", "--broker", "b3"),
        ]
        time.sleep(2.0)
        for topic, broker in (("far", "b1"), ("near", "b2")):
            self._processes.append(
                self._silent("pub", topic, "-n", "100000", "--rate", "25", "--broker", broker)
            )

    def _silent(self, *arguments: str) -> subprocess.Popen[bytes]:
        # A pipe that nobody reads would stop a subscriber after a while.
        return subprocess.Popen(
            [sys.executable, "-m", "pubweave", *arguments, "--run-dir", str(self._run_dir)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def busy_overlay(tmp_path: Path) -> Iterator[Path]:
    """The chain with telemetry and traffic; its run directory."""
    write_topology(CHAIN, tmp_path / "chain.json")
    run_dir = tmp_path / "run"
    up = start("up", str(tmp_path / "chain.json"), "--port", "0", "-q", "--run-dir", str(run_dir))
    until(lambda: _is_running(run_dir))
    traffic = Traffic(run_dir)
    try:
        yield run_dir
    finally:
        traffic.close()
        up.send_signal(signal.SIGTERM)
        up.communicate(timeout=60.0)


def _is_running(run_dir: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((run_dir / "overlay.json").read_bytes())["condition"] == "running"
    return False


def _listed(run_dir: Path) -> list[dict[str, Any]]:
    """The decisions as JSON has them, without a process for every look at them."""
    where = DeploymentChoice(run_dir).find()

    async def ask() -> Any:
        async with opened_store(where.target) as store:
            return await run_command(store, list_decisions(Layout(where.overlay)))

    listed: list[dict[str, Any]] = json.loads(msgspec.json.encode(asyncio.run(ask())))
    return listed


def _until_one(run_dir: Path, is_it: Callable[[dict[str, Any]], bool]) -> None:
    """Until some decision is so."""
    deadline = time.monotonic() + SLOW_WAIT_S
    records = _listed(run_dir)
    while not any(is_it(record) for record in records):
        told = [(r["id"], r["state"], r["reason"]) for r in records]
        assert time.monotonic() < deadline, told
        time.sleep(2.0)
        records = _listed(run_dir)


def _profiler_of(work: Path) -> int | None:
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if b"autopilot.profiler" in command and str(work).encode() in command:
                return int(entry.name)
    return None


def _fly(run_dir: Path, *more: str) -> subprocess.Popen[str]:
    return start(
        *("autopilot", "--run-dir", str(run_dir), "--mode", "auto", "--assume-latency", "0.2"),
        *("--period", "25", "--free-period", "600", "--window", "15", "--json", *more),
    )


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_profiles_changes_and_measures_although_spark_and_itself_are_killed(
    busy_overlay: Path,
) -> None:
    """Killed Spark: said and gone on. Killed autopilot: the next one knows all. Then it pays."""
    time.sleep(30.0)
    first = _fly(busy_overlay)
    try:
        work = busy_overlay / "autopilot"
        until(lambda: _profiler_of(work) is not None)
        victim = _profiler_of(work)
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        _until_one(busy_overlay, lambda record: "killed by signal 9" in record["reason"])
        _until_one(busy_overlay, lambda record: record["state"] == "deployed")
    finally:
        first.kill()
        first.communicate()

    second = _fly(busy_overlay)
    try:
        _until_one(busy_overlay, lambda record: record["measured"] is not None)
    finally:
        second.send_signal(signal.SIGINT)
        _, errors = second.communicate(timeout=60.0)
    assert second.returncode == 130, errors
    records = _listed(busy_overlay)
    changes = [record for record in records if record["state"] == "deployed"]
    assert len(changes) == 1, "the free period holds across restarts"
    assert changes[0]["prediction"]["saving_share"] > 0.2
    assert abs(changes[0]["measured"]["prediction_error"]) < 0.5
    links = json.loads((busy_overlay / "overlay.json").read_bytes())["links"]
    assert ["b1", "b6"] in links or Topology.from_links(links).path("b1", "b6") != CHAIN.path(
        "b1", "b6"
    )
