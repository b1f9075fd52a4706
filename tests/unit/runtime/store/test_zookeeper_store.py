"""What the ZooKeeper store does beyond the contract that all stores share (tests/contract)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]

from pubweave.deploy.store import (
    Create,
    Delete,
    List,
    NodeChanged,
    Outcome,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreSessionState,
    Write,
)
from pubweave.runtime.store import zookeeper_store
from pubweave.runtime.store.zookeeper_store import DATA_BYTES_MAX, ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import parse_target
from tests.contract.zookeeper_users import (
    ZooKeeperService,
    ZooKeeperUser,
    needs_zookeeper,
    zookeeper_service,
)

__all__ = ["zookeeper_service"]

needs_server = [pytest.mark.sockets, needs_zookeeper()]


@pytest.fixture
def user(zookeeper_service: ZooKeeperService) -> Iterator[ZooKeeperUser]:
    made = ZooKeeperUser(zookeeper_service, zookeeper_service.new_root())
    assert made.next_notice() == SessionChanged(StoreSessionState.CONNECTED)
    yield made
    made.close()


class TestOnAServer:
    pytestmark = needs_server

    def test_everything_is_kept_below_the_root_path(
        self, user: ZooKeeperUser, zookeeper_service: ZooKeeperService
    ) -> None:
        user.ask(Read("/a/b", watch=True))
        assert user.ask(Create("/a/b", b"x")).outcome is Outcome.OK
        assert user.next_notice() == NodeChanged("/a/b")
        elsewhere = ZooKeeperUser(zookeeper_service, "")
        try:
            root = user.store.target.root
            assert elsewhere.ask(Read(f"{root}/a/b")).data == b"x"
        finally:
            elsewhere.close()

    def test_what_a_login_made_is_for_that_login_only(
        self, zookeeper_service: ZooKeeperService
    ) -> None:
        root = zookeeper_service.new_root()
        owner, stranger, same = (
            ZooKeeperUser(zookeeper_service, root, auth)
            for auth in ("me:secret", None, "me:secret")
        )
        try:
            assert owner.ask(Create("/plan", b"x")).outcome is Outcome.OK
            for request in (Read("/plan"), Write("/plan", b"y"), List("/plan"), Create("/plan/a")):
                assert stranger.ask(request).outcome is Outcome.DENIED
            assert same.ask(Write("/plan", b"y")).outcome is Outcome.OK
        finally:
            for made in (owner, stranger, same):
                made.close()

    def test_parents_that_somebody_removed_are_made_again(
        self, user: ZooKeeperUser, zookeeper_service: ZooKeeperService
    ) -> None:
        assert user.ask(Create("/a/b/c")).outcome is Outcome.OK
        other = KazooClient(str(zookeeper_service.server.address))
        other.start()
        other.delete(f"{user.store.target.root}/a", recursive=True)
        other.stop()
        other.close()
        assert user.ask(Create("/a/b/c")).outcome is Outcome.OK

    def test_a_document_that_zookeeper_would_not_take_is_refused_here(
        self, user: ZooKeeperUser
    ) -> None:
        too_large = b"x" * (DATA_BYTES_MAX + 1)
        answers = user.ask_all([Create("/a", too_large), Create("/a", b"x"), Read("/a")])
        assert [a.outcome for a in answers] == [Outcome.DENIED, Outcome.OK, Outcome.OK]
        assert user.hears_nothing()  # the connection still stands

    def test_an_unusable_path_is_refused(self, user: ZooKeeperUser) -> None:
        assert user.ask(Read("/a/../b")).outcome is Outcome.DENIED

    def test_requests_beyond_the_bound_are_answered_without_being_sent(
        self, user: ZooKeeperUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(zookeeper_store, "REQUESTS_MAX", 3)
        answers = user.ask_all([Create(f"/{n}") for n in range(5)])
        assert [a.outcome for a in answers] == [Outcome.OK] * 3 + [Outcome.UNSURE] * 2

    def test_what_was_under_way_when_the_server_died_is_unsure_and_the_session_comes_back(
        self, user: ZooKeeperUser, zookeeper_service: ZooKeeperService
    ) -> None:
        assert user.ask(Create("/here", b"x", ephemeral=True)).outcome is Outcome.OK
        pid = zookeeper_service.server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert user.next_notice() == SessionChanged(StoreSessionState.SUSPENDED)
        assert user.ask(Write("/here", b"y")).outcome is Outcome.UNSURE
        assert user.next_notice() == SessionChanged(StoreSessionState.CONNECTED)
        assert user.ask(Read("/here")).data == b"x"
        assert user.ask(Delete("/here", 0)).outcome is Outcome.OK

    def test_a_stopped_store_answers_who_still_waits(
        self, zookeeper_service: ZooKeeperService
    ) -> None:
        async def work() -> list[StoreAnswer]:
            store = ZooKeeperStore(parse_target(str(zookeeper_service.server.address)), print)
            store.start()
            assert await store.wait_until_connected(10.0)
            waiting = asyncio.create_task(store.ask(Read("/nothing")))
            await asyncio.sleep(0)
            await store.stop()
            return [await waiting, await store.ask(Read("/nothing"))]

        answers = zookeeper_service.run(work())
        assert [answer.outcome for answer in answers] == [Outcome.UNSURE] * 2


def test_without_a_server_nobody_waits_for_ever() -> None:
    async def work() -> tuple[bool, StoreAnswer]:
        store = ZooKeeperStore(parse_target("127.0.0.1:1"), lambda event: None)
        store.start()
        is_connected = await store.wait_until_connected(0.2)
        answer = await store.ask(Read("/a"))
        await store.stop()
        return is_connected, answer

    began = time.monotonic()
    is_connected, answer = asyncio.run(work())
    assert not is_connected
    assert answer.outcome is Outcome.UNSURE
    assert time.monotonic() - began < 4.0
