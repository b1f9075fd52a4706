"""``pubweave apply`` and ``pubweave plan ...`` on broker processes and a real ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pubweave
from pubweave.generate.topologies.trees import hierarchical_tree
from pubweave.model.files.plan import read_plan, write_plan
from pubweave.model.topology import validate_tree
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.overlay.run_directory import ZOOKEEPER_AUTH_FILE
from pubweave.runtime.store.zookeeper_target import DEFAULT_SESSION_TIMEOUT_S
from tests.contract.zookeeper_users import needs_zookeeper
from tests.integration.live_overlay import LiveOverlay, json_until, start, until

pytestmark = [pytest.mark.sockets, needs_zookeeper()]


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveOverlay]:
    topology = hierarchical_tree(9, 4, True, np.random.default_rng(5))
    live = LiveOverlay(tmp_path_factory.mktemp("apply"), topology)
    yield live
    live.close()


def test_a_plan_is_applied_and_the_overlay_is_what_it_leads_to(overlay: LiveOverlay) -> None:
    plan_file, plan, target = overlay.make_plan(seed=1)
    shown = overlay.run("apply", str(plan_file), "--dry-run", "--json")
    steps = [[str(action) for action in step] for step in plan.steps]
    assert json.loads(shown.stdout)["steps"] == steps
    assert overlay.current().links != target.links

    done = overlay.run("apply", str(plan_file), "--json")
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout.splitlines()[-1])
    assert (ended["state"], ended["steps_done"]) == ("done", plan.step_count)
    until(lambda: overlay.current().links == target.links)
    until(overlay.is_whole)

    told = json.loads(overlay.run("plan", "status", "--json").stdout)
    assert (told["state"], told["steps"], told["executor"]) == ("done", steps, None)
    again = overlay.run("apply", str(plan_file))
    assert again.returncode == 2
    assert "already is what this plan leads to" in again.stderr


def test_a_plan_for_another_topology_is_refused_with_the_difference(
    overlay: LiveOverlay, tmp_path: Path
) -> None:
    plan_file, plan, _ = overlay.make_plan(seed=2)
    first = next(plan.actions())
    record = read_plan(plan_file)
    foreign = replace(record, source_hash="sha256:" + "0" * 64)
    write_plan(foreign, tmp_path / "foreign.json")
    refused = overlay.run("apply", str(tmp_path / "foreign.json"))
    assert refused.returncode == 2
    assert "made for another topology" in refused.stderr
    assert "elsewhere differ" in refused.stderr

    text = plan_file.read_text().replace(f'"{first.brokers[1]}"', '"nobody"')
    (tmp_path / "other.json").write_text(text.replace(record.source_hash or "-", "sha256:1"))
    refused = overlay.run("apply", str(tmp_path / "other.json"))
    assert refused.returncode == 2
    assert "no broker nobody (step 1, " in refused.stderr


def test_a_plan_pauses_where_it_is_told_and_goes_on_from_there(overlay: LiveOverlay) -> None:
    plan_file, plan, target = overlay.make_plan(seed=3, ratio=0.5)
    assert plan.step_count >= 2
    paused = overlay.run("apply", str(plan_file), "--pause-after-step", "1")
    assert paused.returncode == 0, paused.stderr
    assert "pubweave plan resume" in paused.stderr
    told = json.loads(overlay.run("plan", "status", "--json").stdout)
    assert (told["state"], told["steps_done"]) == ("paused", 1)
    other = overlay.run("apply", str(plan_file))
    assert other.returncode == 2
    resumed = overlay.run("plan", "resume")
    assert resumed.returncode == 0, resumed.stderr
    until(lambda: overlay.current().links == target.links)
    until(overlay.is_whole)


def test_ctrl_c_stops_after_the_current_step(overlay: LiveOverlay) -> None:
    plan_file, plan, target = overlay.make_plan(seed=4, ratio=0.5)
    assert plan.step_count >= 2
    mover = plan.steps[0][0].brokers[0]
    process = start("apply", str(plan_file), "--json", *overlay.options)
    with overlay.stopped_broker(mover):
        json_until(process.stdout, is_running)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "stopping after the current step" in process.stderr.readline()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    ended = json.loads(output.splitlines()[-1])
    assert (ended["state"], ended["steps_done"]) == ("paused", 1)
    assert overlay.run("plan", "resume").returncode == 0
    until(lambda: overlay.current().links == target.links)


def test_of_two_executors_one_says_that_it_stands_by(overlay: LiveOverlay) -> None:
    plan_file, plan, target = overlay.make_plan(seed=5)
    mover = plan.steps[0][0].brokers[0]
    first = start("apply", str(plan_file), "--json", *overlay.options)
    with overlay.stopped_broker(mover):
        json_until(first.stdout, is_running)
        refused = overlay.run("apply", str(plan_file))
        assert refused.returncode == 2
        assert "running" in refused.stderr
        second = start("plan", "resume", "--json", *overlay.options)
        standing = json_until(second.stdout, lambda line: line.get("role") == "standby")
        assert str(first.pid) in standing["executor"]
    assert first.wait(60) == 0
    assert second.wait(60) == 0
    assert second.stderr is not None
    assert "standing by" in second.stderr.read()
    for process in (first, second):
        process.communicate()
    until(lambda: overlay.current().links == target.links)


def test_an_aborted_plan_leaves_a_valid_overlay(overlay: LiveOverlay) -> None:
    plan_file, plan, _ = overlay.make_plan(seed=6, ratio=0.5)
    mover = plan.steps[0][0].brokers[0]
    process = start("apply", str(plan_file), "--json", *overlay.options)
    with overlay.stopped_broker(mover):
        json_until(process.stdout, is_running)
        asked = overlay.run("plan", "abort", "--reason", "changed our minds", "--json")
        assert json.loads(asked.stdout)["state"] in ("aborting", "aborted")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    ended = json.loads(output.splitlines()[-1])
    assert (ended["state"], ended["reason"]) == ("aborted", "changed our minds")
    validate_tree(overlay.current())
    until(overlay.is_whole)
    assert overlay.run("plan", "resume").returncode == 2


def test_a_broker_killed_in_a_step_comes_back_into_a_valid_overlay(overlay: LiveOverlay) -> None:
    plan_file, plan, target = overlay.make_plan(seed=7)
    mover = plan.steps[0][0].brokers[0]
    killed = overlay.state.brokers[mover].pid
    process = start("apply", str(plan_file), "--json", *overlay.options)
    overlay.signal_broker(mover, signal.SIGSTOP)
    json_until(process.stdout, is_running)
    overlay.signal_broker(mover, signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    ended = json.loads(output.splitlines()[-1])
    assert ended["state"] in ("aborted", "done")
    until(lambda: overlay.state.brokers[mover].pid not in (None, killed))
    until(overlay.is_whole)
    validate_tree(overlay.current())
    if ended["state"] == "done":
        assert overlay.current().links == target.links


def is_running(line: dict[str, Any]) -> bool:
    return any(action["state"] == "running" for action in line.get("actions", ()))


def test_a_broker_joins_delivers_and_leaves(overlay: LiveOverlay, tmp_path: Path) -> None:
    neighbor = min(overlay.state.brokers)
    store = ["--zookeeper", overlay.state.zookeeper or "", "--overlay", overlay.state.overlay]
    store += ["--zookeeper-auth-file", str(overlay.directory / "run" / ZOOKEEPER_AUTH_FILE)]
    joining = start("broker", "--id", "x1", "--listen", "127.0.0.1:0", *store, "--json")
    try:
        listening = json_until(joining.stdout, lambda line: line["event"] == "listening")
        for op, links in (("append", 9), ("detach", 8)):
            plan_file = tmp_path / f"{op}.json"
            action = {"op": op, "brokers": ["x1", neighbor]}
            plan_file.write_text(json.dumps({"format_version": 1, "steps": [[action]]}))
            done = overlay.run("apply", str(plan_file), "--json")
            assert done.returncode == 0, (done.stdout, done.stderr)
            until(lambda links=links: len(overlay.state.links) == links)  # type: ignore[misc]
            until(overlay.is_whole)
            if op == "append":
                assert exchange(overlay, listening["address"]) == "hello"
        assert "x1" not in overlay.current().brokers
    finally:
        joining.send_signal(signal.SIGTERM)
        joining.communicate(timeout=60)
    assert joining.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["the server's", "a broker's"])
def test_lost_sessions_come_back_and_plans_can_be_applied(overlay: LiveOverlay, whose: str) -> None:
    plan_file, plan, target = overlay.make_plan(seed=8 if whose == "a broker's" else 9)
    stopped = overlay.state.brokers[plan.steps[0][0].brokers[0]].pid
    if whose == "the server's":
        stopped = overlay.zookeeper_pid()
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(DEFAULT_SESSION_TIMEOUT_S + 4.0)
    os.kill(stopped, signal.SIGCONT)
    done = overlay.run("apply", str(plan_file), "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    until(lambda: overlay.current().links == target.links)
    until(overlay.is_whole)


def exchange(overlay: LiveOverlay, address: str) -> str:
    """What a subscriber at a broker gets from a publisher at the far end of the overlay."""

    async def work() -> str:
        far = Address.parse(overlay.state.brokers[max(overlay.state.brokers)].address)
        async with (
            pubweave.connect(Address.parse(address)) as subscriber,
            pubweave.connect(far) as publisher,
            asyncio.timeout(20),
        ):
            subscription = await subscriber.subscribe("class = 'JOIN'")
            await publisher.advertise("class = 'JOIN'")
            await asyncio.sleep(1.0)  # a trip through the overlay
            await publisher.publish("JOIN", {}, b"hello")
            return (await anext(subscription)).payload.decode()

    return asyncio.run(work())
