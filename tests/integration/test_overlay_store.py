"""Overlays and their store: whose it is, what a start finds there, and what is refused."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from pubweave.cli.options.coordination import choose_store
from pubweave.cli.run.up import usable_name
from pubweave.deploy.commands import read_topology
from pubweave.deploy.documents import Layout, UnusableNameError
from pubweave.deploy.store import Create, List, Outcome, Read
from pubweave.model.topology import Topology
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay import coordination as overlay_coordination
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory, read_state
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.store import embedded_zookeeper
from pubweave.runtime.store.session import StoreUnreachable, opened_store, run_command
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget, parse_target
from tests.contract.zookeeper_users import (
    ZooKeeperService,
    needs_zookeeper,
    zookeeper_service,
)
from tests.integration.live_overlay import start

__all__ = ["zookeeper_service"]

TREE = Topology.from_links([("b1", "b2"), ("b2", "b3")])
needs_server = [pytest.mark.sockets, needs_zookeeper()]


def make(path: Path, target: ZooKeeperTarget | None, name: str = "tree") -> Overlay:
    spec = make_spec(TREE, name=name, base_port=0)
    return Overlay(spec, RunDirectory(path), in_process=True, store=StoreChoice(target))


def run(work: object) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work  # type: ignore[misc]

    asyncio.run(bounded())


class TestOnAServer:
    pytestmark = needs_server

    def test_brokers_register_and_the_state_file_names_the_store_without_its_login(
        self, tmp_path: Path, zookeeper_service: ZooKeeperService
    ) -> None:
        root = zookeeper_service.new_root()
        target = parse_target(f"{zookeeper_service.server.address}{root}", "me:secret")

        async def work() -> None:
            layout = Layout("tree")
            async with make(tmp_path, target), opened_store(target) as store:
                assert (await run_command(store, read_topology(layout))).links == TREE.links
                registered: tuple[str, ...] = ()
                while registered != ("b1", "b2", "b3"):
                    await asyncio.sleep(0.05)
                    registered = (await store.ask(List(layout.brokers))).children
                assert read_state(tmp_path).zookeeper == str(target)
                assert "secret" not in (tmp_path / "overlay.json").read_text()

        run(work())

    def test_a_second_overlay_of_the_same_name_is_refused_while_the_first_lives(
        self,
        tmp_path: Path,
        zookeeper_service: ZooKeeperService,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(overlay_coordination, "EARLIER_SESSIONS_LIMIT_S", 1.0)
        root = zookeeper_service.new_root()
        target = parse_target(f"{zookeeper_service.server.address}{root}")

        async def work() -> None:
            async with make(tmp_path / "first", target), opened_store(target) as store:
                registered: tuple[str, ...] = ()
                while len(registered) < 3:
                    await asyncio.sleep(0.05)
                    registered = (await store.ask(List(Layout("tree").brokers))).children
                second = make(tmp_path / "second", target)
                with pytest.raises(OverlayError, match=r"is alive .*b1, b2, b3.*--name"):
                    await second.start()
                await second.stop()
                async with make(tmp_path / "third", target, name="other"):
                    pass

        run(work())

    def test_a_start_clears_what_an_earlier_overlay_left(
        self, tmp_path: Path, zookeeper_service: ZooKeeperService
    ) -> None:
        root = zookeeper_service.new_root()
        target = parse_target(f"{zookeeper_service.server.address}{root}")

        async def work() -> None:
            layout = Layout("tree")
            async with opened_store(target) as store:
                await store.ask(Create(f"{layout.top}/plan", b"old"))
                async with make(tmp_path, target):
                    old = await store.ask(Read(f"{layout.top}/plan"))
                    assert old.outcome is Outcome.MISSING

        run(work())

    def test_a_wrong_login_is_said_to_be_one(self, zookeeper_service: ZooKeeperService) -> None:
        root = zookeeper_service.new_root()
        target = parse_target(f"{zookeeper_service.server.address}{root}", "me:secret")

        async def work() -> None:
            async with opened_store(target) as store:
                await store.ask(Create(Layout("tree").topology, b"{}"))
            async with opened_store(parse_target(str(target), "me:wrong")) as store:
                with pytest.raises(StoreUnreachable, match="--zookeeper-auth-file"):
                    await run_command(store, read_topology(Layout("tree")))

        run(work())

    @pytest.mark.slow
    def test_a_broker_that_the_store_does_not_let_in_says_so_on_the_screen_once(
        self, zookeeper_service: ZooKeeperService
    ) -> None:
        root = zookeeper_service.new_root()
        target = parse_target(f"{zookeeper_service.server.address}{root}", "me:secret")

        async def work() -> None:
            async with opened_store(target) as store:
                await store.ask(Create(Layout("tree").topology, b"{}"))

        run(work())
        listen = ("--id", "b9", "--listen", "127.0.0.1:0", "--overlay", "tree")
        joining = start("broker", *listen, "--zookeeper", str(target))
        time.sleep(6.0)
        joining.terminate()
        said = joining.communicate(timeout=20)[1]
        assert said.count("broker b9 takes no part in its overlay: the store denies") == 1
        assert "--zookeeper-auth-file" in said
        assert said.count("check its login") < 5


def test_names_that_cannot_be_stored_are_refused_before_anything_starts(tmp_path: Path) -> None:
    spec = make_spec(Topology.from_links([("a/b", "c")]), name="x", base_port=0)
    directory = RunDirectory(tmp_path)
    with pytest.raises(UnusableNameError, match="'a/b' cannot be stored"):
        Overlay(spec, directory, store=StoreChoice())
    with pytest.raises(UnusableNameError, match="the overlay's name"):
        Overlay(make_spec(TREE, name="a b", base_port=0), directory, store=StoreChoice())
    directory.release()
    assert usable_name("a b/c (1)") == "a-b-c-1"
    assert usable_name("--") == "overlay"


def test_without_java_an_overlay_does_without_a_store_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = parse_target("zk1")
    assert choose_store(target, is_wanted=True) == StoreChoice(target)
    assert choose_store(None, is_wanted=False) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(embedded_zookeeper, "find_jars", lambda: "")
    assert choose_store(None, is_wanted=True) is None
    assert "no plan can be applied to this overlay: ZooKeeper needs Java" in capsys.readouterr().err
