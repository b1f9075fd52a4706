"""The dashboard's source of snapshots on broker processes and a real ZooKeeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import numpy as np
import pytest

from pubweave.control.records import append_decision
from pubweave.dashboard.snapshot import CommandError, Snapshot
from pubweave.deploy.documents import Layout
from pubweave.deploy.store import Create, Delete
from pubweave.generate.topologies.trees import hierarchical_tree
from pubweave.model.decisions import ControlMode, DecisionRecord, DecisionState, Verdict
from pubweave.model.deployment import DeploymentState
from pubweave.runtime.observe.dashboard_server import OverlayCommands
from pubweave.runtime.observe.dashboard_source import Finder, InRunDirectory, InStore, OverlaySource
from pubweave.runtime.store.session import run_command
from pubweave.runtime.store.zookeeper_target import Coordination, parse_target
from tests.contract.zookeeper_users import needs_zookeeper
from tests.integration.live_overlay import LiveOverlay

pytestmark = [pytest.mark.sockets, needs_zookeeper()]


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveOverlay]:
    topology = hierarchical_tree(6, 3, True, np.random.default_rng(2))
    live = LiveOverlay(tmp_path_factory.mktemp("dashboard"), topology)
    yield live
    live.close()


def in_run_directory(overlay: LiveOverlay) -> InRunDirectory:
    return InRunDirectory(overlay.directory / "run")


def in_store(overlay: LiveOverlay) -> InStore:
    assert overlay.state.zookeeper is not None
    target = parse_target(overlay.state.zookeeper, overlay.login)
    return InStore(Coordination(overlay.state.overlay, target))


async def seen_until(source: OverlaySource, is_reached: Callable[[Snapshot], bool]) -> Snapshot:
    for _ in range(100):
        snapshot = await source.snapshot()
        if is_reached(snapshot):
            return snapshot
        await asyncio.sleep(0.1)
    raise AssertionError(f"it did not come to pass: {snapshot}")


def with_source(finder: Finder, work: Callable[[OverlaySource], Awaitable[None]]) -> None:
    async def run() -> None:
        async with OverlaySource(finder) as source:
            await work(source)

    asyncio.run(asyncio.wait_for(run(), 60))


def is_whole(snapshot: Snapshot) -> bool:
    return snapshot.brokers_up == 6 and snapshot.links_up == 5


@pytest.mark.parametrize("find", [in_run_directory, in_store])
def test_brokers_and_links_are_found_either_way(
    overlay: LiveOverlay, find: Callable[[LiveOverlay], Finder]
) -> None:
    async def look(source: OverlaySource) -> None:
        snapshot = await seen_until(source, is_whole)
        assert {link.link for link in snapshot.links} == set(overlay.current().links)
        assert [broker.id for broker in snapshot.brokers] == ["b1", "b2", "b3", "b4", "b5", "b6"]
        assert snapshot.strategy == "tree"
        assert {trouble.kind for trouble in snapshot.troubles} == {"no_telemetry"}
        later = await source.snapshot()
        assert later.publications_per_s == 0.0
        assert later.troubles[0].since == snapshot.troubles[0].since

    with_source(find(overlay), look)


def test_a_plan_is_seen_from_its_pause_to_its_end_and_can_be_given_up(
    overlay: LiveOverlay,
) -> None:
    plan_file, plan, _ = overlay.make_plan(seed=3, ratio=0.5)
    assert plan.step_count >= 2
    paused = overlay.run("apply", str(plan_file), "--pause-after-step", "1", "--reason", "to see")
    assert paused.returncode == 0, paused.stderr

    async def look(source: OverlaySource) -> None:
        commands = OverlayCommands(source)
        with pytest.raises(CommandError, match="not running with ZooKeeper"):
            await commands.abort("1-any")
        snapshot = await seen_until(source, lambda s: s.deployment is not None)
        deployment = snapshot.deployment
        assert deployment is not None
        assert (deployment.state, deployment.steps_done) == (DeploymentState.PAUSED, 1)
        assert "to see" in deployment.purpose
        assert len(deployment.actions) == len(deployment.steps[1])
        with pytest.raises(CommandError, match=r"99-gone is over; the current plan is"):
            await commands.abort("99-gone")
        await source.wait_for_news(0.0)
        told = await commands.abort(deployment.id)
        assert "aborted" in told
        began = time.monotonic()
        await source.wait_for_news(10.0)
        assert time.monotonic() - began < 5.0, "the store's notice wakes who waits"
        ended = await seen_until(
            source, lambda s: s.deployment is not None and not s.deployment.is_in_motion
        )
        assert ended.deployment is not None
        assert ended.deployment.reason == "stopped in the dashboard"
        assert ended.deployment.actions == ()

    with_source(in_run_directory(overlay), look)


def decision(**known: object) -> DecisionRecord:
    record = DecisionRecord(
        id="",
        overlay="before",
        decided_at=time.time(),
        mode=ControlMode.APPROVE,
        verdict=Verdict.CHANGE,
        reason="it pays",
        state=DecisionState.WAITING,
    )
    return msgspec.structs.replace(record, **known)


def test_decisions_are_listed_answered_and_foreign_documents_are_named(
    overlay: LiveOverlay,
) -> None:
    layout = Layout(overlay.state.overlay)

    async def look(source: OverlaySource) -> None:
        commands = OverlayCommands(source)
        await source.snapshot()
        assert source.reader is not None
        store = source.reader.store
        await store.wait_until_connected(10)
        first = await run_command(store, append_decision(layout, decision()))
        second = await run_command(store, append_decision(layout, decision(reason="again")))
        snapshot = await seen_until(source, lambda s: len(s.decisions) == 2)
        assert [d.id for d in snapshot.decisions] == [second.id, first.id]
        assert snapshot.waiting is not None
        assert snapshot.waiting.id == second.id

        assert "approved" in await commands.approve(first.id)
        assert "rejected" in await commands.reject(second.id)
        with pytest.raises(CommandError, match="only waiting ones can be answered"):
            await commands.reject(first.id)
        with pytest.raises(CommandError, match="no decision 000077"):
            await commands.approve("77")
        snapshot = await source.snapshot()
        assert [d.state for d in snapshot.decisions] == [
            DecisionState.REJECTED,
            DecisionState.APPROVED,
        ]

        foreign = layout.decision("000009")
        await store.ask(Create(foreign, b"hello"))
        snapshot = await source.snapshot()
        told = {trouble.kind: trouble.text for trouble in snapshot.troubles}
        assert foreign in told["decision_unreadable"]
        assert len(snapshot.decisions) == 2, "the others are shown all the same"
        await store.ask(Delete(foreign))
        assert {t.kind for t in (await source.snapshot()).troubles} == {"no_telemetry"}

    with_source(in_run_directory(overlay), look)


def test_an_overlay_in_the_store_that_is_none_says_so(overlay: LiveOverlay) -> None:
    where = in_store(overlay).where
    nobody = InStore(Coordination("nobody", where.target))

    async def look(source: OverlaySource) -> None:
        snapshot = await source.snapshot()
        assert "no_brokers" in {trouble.kind for trouble in snapshot.troubles}
        assert snapshot.links == ()

    with_source(nobody, look)
