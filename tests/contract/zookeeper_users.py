"""A real ZooKeeper for tests, and users of it that can be waited for from ordinary code."""

from __future__ import annotations

import asyncio
import itertools
import queue
import socket
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]

from pubweave.deploy.store import StoreAnswer, StoreNotice, StoreRequest
from pubweave.runtime.store.embedded_zookeeper import (
    EmbeddedZooKeeper,
    ZooKeeperUnavailable,
    find_jars,
    find_java,
)
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import parse_target

T = TypeVar("T")
WAIT_S = 15.0
A_MOMENT_S = 0.15


def needs_zookeeper() -> pytest.MarkDecorator:
    """Skips, saying why, where no ZooKeeper can be started."""
    reason = ""
    try:
        find_java()
        find_jars()
    except ZooKeeperUnavailable as error:
        reason = str(error)
    return pytest.mark.skipif(bool(reason), reason=f"no ZooKeeper: {reason}")


class ZooKeeperService:
    """A server, and the event loop in a thread of its own where stores live."""

    def __init__(self, server: EmbeddedZooKeeper, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop
        self._roots = itertools.count()

    def new_root(self) -> str:
        return f"/test-{next(self._roots)}"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(2 * WAIT_S)


@pytest.fixture(scope="session")
def zookeeper_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperService]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="stores", daemon=True)
    thread.start()
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    service = ZooKeeperService(server, loop)
    try:
        service.run(server.start())
        yield service
    finally:
        service.run(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


class ZooKeeperUser:
    """A `StoreUser` with a session at a real server."""

    def __init__(self, service: ZooKeeperService, root: str, auth: str | None = None) -> None:
        self._service = service
        self._notices: queue.Queue[StoreNotice] = queue.Queue()
        self._answers: queue.Queue[StoreAnswer] = queue.Queue()
        self.hosts = str(service.server.address)
        self.store = service.run(self._open(parse_target(self.hosts + root, auth)))

    async def _open(self, target: Any) -> ZooKeeperStore:
        store = ZooKeeperStore(target, self._take)
        store.start()
        assert await store.wait_until_connected(WAIT_S)
        return store

    def _take(self, event: StoreAnswer | StoreNotice) -> None:
        if isinstance(event, StoreAnswer):
            self._answers.put(event)
        else:
            self._notices.put(event)

    def ask(self, request: StoreRequest) -> StoreAnswer:
        return self.ask_all([request])[0]

    def ask_all(self, requests: list[StoreRequest]) -> list[StoreAnswer]:
        def request_all() -> None:
            for request in requests:
                self.store.request(request)

        self._service.loop.call_soon_threadsafe(request_all)
        return [self._answers.get(timeout=WAIT_S) for _ in requests]

    def next_notice(self) -> StoreNotice:
        return self._notices.get(timeout=WAIT_S)

    def hears_nothing(self) -> bool:
        try:
            self._notices.get(timeout=A_MOMENT_S)
        except queue.Empty:
            return True
        return False

    def interrupt(self) -> None:
        self.store._client._connection._socket.shutdown(socket.SHUT_RDWR)

    def expire(self) -> None:
        # Whoever knows a session's id and password can move it to a connection, and end it there.
        thief = KazooClient(self.hosts, client_id=self.store._client.client_id)
        thief.start()
        thief.stop()
        thief.close()

    def close(self) -> None:
        self._service.run(self.store.stop())
