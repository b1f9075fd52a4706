"""The embedded ZooKeeper: found, started, started again, and gone with its parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from soak.zookeeper_ensemble import ZooKeeperEnsemble

from pubweave.deploy.store import Create, Delete, List, Outcome, Read, Write
from pubweave.runtime.store import embedded_zookeeper
from pubweave.runtime.store.embedded_zookeeper import (
    EmbeddedZooKeeper,
    ZooKeeperUnavailable,
    find_jars,
    find_java,
    java_version,
)
from pubweave.runtime.store.session import opened_store
from pubweave.runtime.store.zookeeper_target import parse_target
from tests.contract.zookeeper_users import needs_zookeeper

needs_server = [pytest.mark.sockets, needs_zookeeper()]


def fake_java(home: Path, release: str | None) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return java


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n', 17),
        ('JAVA_VERSION="1.8.0_292"\n', 8),
        ('JAVA_VERSION="21"\n', 21),
        ("nothing\n", None),
        (None, None),
    ],
)
def test_a_java_tells_its_version(tmp_path: Path, release: str | None, version: int | None) -> None:
    assert java_version(fake_java(tmp_path, release)) == version


def test_without_java_one_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ZooKeeperUnavailable, match=r"there is none: install Java 17.*--zookeeper"):
        find_java()
    java = fake_java(tmp_path / "old", 'JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(ZooKeeperUnavailable, match=r"is Java 11: install Java 17"):
        find_java()
    (tmp_path / "old" / "release").write_text('JAVA_VERSION="17"\n')
    assert find_java() == java


def test_without_pyspark_one_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_zookeeper.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ZooKeeperUnavailable, match="install pyspark"):
        find_jars()


def test_finding_the_jars_does_not_import_pyspark() -> None:
    code = (
        "import sys; from pubweave.runtime.store import embedded_zookeeper as e\n"
        "try: e.find_jars()\nexcept e.ZooKeeperUnavailable: pass\n"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.sockets
def test_a_server_that_does_not_start_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = fake_java(tmp_path / "java", 'JAVA_VERSION="17"\n')
    java.write_text("#!/bin/sh\necho no memory today\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr(embedded_zookeeper, "find_jars", lambda: "nothing.jar")

    async def work() -> None:
        async with EmbeddedZooKeeper(tmp_path / "zookeeper"):
            pass

    with pytest.raises(ZooKeeperUnavailable, match=r"did not start.*\n  no memory today"):
        asyncio.run(work())


class TestOnAServer:
    pytestmark = needs_server

    def test_a_killed_server_is_started_again_with_what_it_had(self, tmp_path: Path) -> None:
        troubles: list[str] = []

        async def work() -> None:
            async with EmbeddedZooKeeper(tmp_path, on_trouble=troubles.append) as server:
                assert server.address.host == "127.0.0.1"
                target = parse_target(str(server.address))
                async with opened_store(target) as store:
                    assert (await store.ask(Create("/a", b"x"))).outcome is Outcome.OK
                    killed = server.pid
                    assert killed is not None
                    os.kill(killed, signal.SIGKILL)
                    await asyncio.sleep(0.1)
                    assert await store.wait_until_connected(20.0)
                    assert (await store.ask(Read("/a"))).data == b"x"
                    assert server.pid not in (None, killed)
            assert server.pid is None

        asyncio.run(work())
        assert troubles == ["ZooKeeper ended with -9: starting it again"]

    def test_all_that_a_server_has_is_for_its_owner_only(self, tmp_path: Path) -> None:
        home = tmp_path / "zookeeper"
        home.mkdir(mode=0o755)

        async def work() -> None:
            async with contextlib.AsyncExitStack() as stack:
                server = await stack.enter_async_context(EmbeddedZooKeeper(home))
                target = parse_target(str(server.address), "a:b")
                store = await stack.enter_async_context(opened_store(target))
                assert (await store.ask(Create("/a", b"x"))).outcome is Outcome.OK

        before = os.umask(0)
        try:
            asyncio.run(work())
        finally:
            os.umask(before)
        everything = [home, *home.rglob("*")]
        assert {"zoo.cfg", "zookeeper.log", "version-2"} <= {path.name for path in everything}
        assert any(path.name.startswith("log.") for path in everything)
        for path in everything:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path

    def test_nobody_else_sees_or_makes_anything_beside_our_tree(self, tmp_path: Path) -> None:
        async def work() -> None:
            async with EmbeddedZooKeeper(tmp_path) as server:
                ours, others = (
                    parse_target(str(server.address), auth) for auth in ("we:secret", "they:guess")
                )
                async with opened_store(ours) as store:
                    assert await store.close_root()
                    assert (await store.ask(Create("/a", b"x"))).outcome is Outcome.OK
                    assert (await store.ask(List("/"))).children == ("a", "zookeeper")
                for strangers in (others, parse_target(str(server.address))):
                    async with opened_store(strangers) as store:
                        for asked in (
                            List("/"),
                            Read("/"),
                            Write("/", b"x", 0),
                            Create("/b", b""),
                            Create("/zookeeper/b", b""),
                            Create("/zookeeper/quota/b", b""),
                            List("/zookeeper"),
                            Read("/a"),
                            Delete("/a", 0),
                        ):
                            assert (await store.ask(asked)).outcome is Outcome.DENIED, asked
                        assert not await store.close_root()
                async with opened_store(ours) as store:
                    assert (await store.ask(Read("/a"))).data == b"x"

        asyncio.run(work())

    def test_a_server_dies_with_its_parent(self, tmp_path: Path) -> None:
        code = (
            "import asyncio, sys, pathlib\n"
            "from pubweave.runtime.store.embedded_zookeeper import EmbeddedZooKeeper\n"
            "async def work():\n"
            "    async with EmbeddedZooKeeper(pathlib.Path(sys.argv[1])) as server:\n"
            "        print(server.pid, flush=True)\n"
            "        await asyncio.sleep(60)\n"
            "asyncio.run(work())\n"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        parent.stdout.close()
        deadline = time.monotonic() + 10.0
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_alive(pid)

    @pytest.mark.slow
    def test_an_ensemble_goes_on_without_one_of_its_servers(self, tmp_path: Path) -> None:
        async def work() -> None:
            async with ZooKeeperEnsemble(tmp_path) as ensemble:
                hosts = ",".join(str(address) for address in ensemble.addresses)
                async with opened_store(parse_target(hosts)) as store:
                    assert (await store.ask(Create("/a", b"x"))).outcome is Outcome.OK
                    ensemble.servers[0].kill()
                    deadline = time.monotonic() + 20.0
                    while (await store.ask(Create("/b"))).outcome not in (
                        Outcome.OK,
                        Outcome.EXISTS,
                    ):
                        assert time.monotonic() < deadline
                        await asyncio.sleep(0.1)
                    assert (await store.ask(Read("/a"))).data == b"x"

        asyncio.run(work())


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # whoever adopts it may be slow to reap
