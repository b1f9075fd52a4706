"""Users of a store, one kind per implementation, so that one suite runs against all of them.

A kind is a fixture that gives a `StoreFactory`; its name is in KINDS. A factory makes users of one
fresh store: each call is another user with a session of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from pubweave.deploy.memory_store import MemoryStore
from pubweave.deploy.store import (
    Outcome,
    SessionChanged,
    StoreAnswer,
    StoreNotice,
    StoreRequest,
    StoreSessionState,
)
from tests.contract.zookeeper_users import (
    ZooKeeperService,
    ZooKeeperUser,
    needs_zookeeper,
    zookeeper_service,
)

__all__ = ["zookeeper_service"]


class StoreUser(Protocol):
    """Somebody with a session. ``ask`` and ``next_notice`` wait for what they return."""

    def ask(self, request: StoreRequest) -> StoreAnswer: ...

    def ask_all(self, requests: list[StoreRequest]) -> list[StoreAnswer]:
        """Make all requests without waiting in between; their answers in the order they came."""
        ...

    def next_notice(self) -> StoreNotice:
        """The next notice; fails if none comes."""
        ...

    def hears_nothing(self) -> bool:
        """No notice waits, and none comes for a moment."""
        ...

    def interrupt(self) -> None:
        """The connection drops and comes back in time: the session lives on."""
        ...

    def expire(self) -> None:
        """The session ends; a new one is opened."""
        ...

    def close(self) -> None:
        """The user goes for good; its session ends now."""
        ...


StoreFactory = Callable[[], StoreUser]

KINDS = [
    "memory_users",
    pytest.param("zookeeper_users", marks=[pytest.mark.sockets, needs_zookeeper()]),
]


@pytest.fixture(params=KINDS)
def store_factory(request: pytest.FixtureRequest) -> StoreFactory:
    factory: StoreFactory = request.getfixturevalue(request.param)
    return factory


class MemoryUser:
    """A user of the memory store that hears everything at once."""

    def __init__(self, store: MemoryStore, users: dict[int, MemoryUser]) -> None:
        self._store = store
        self._users = users
        self._notices: deque[StoreNotice] = deque()
        self._session = self._open()

    def _open(self) -> int:
        session = self._store.open()
        self._users[session] = self
        self._notices.append(SessionChanged(StoreSessionState.CONNECTED))
        return session

    def _spread(self) -> None:
        for session, notice in self._store.take_notices():
            self._users[session]._notices.append(notice)

    def ask(self, request: StoreRequest) -> StoreAnswer:
        answer = self._store.handle(self._session, request)
        self._spread()
        return answer

    def ask_all(self, requests: list[StoreRequest]) -> list[StoreAnswer]:
        return [self.ask(request) for request in requests]

    def next_notice(self) -> StoreNotice:
        assert self._notices, "no notice came"
        return self._notices.popleft()

    def hears_nothing(self) -> bool:
        return not self._notices

    def interrupt(self) -> None:
        self._store.forget_watches(self._session)
        self._notices.append(SessionChanged(StoreSessionState.SUSPENDED))
        self._notices.append(SessionChanged(StoreSessionState.CONNECTED))

    def expire(self) -> None:
        self._notices.append(SessionChanged(StoreSessionState.LOST))
        self._store.expire(self._session)
        self._spread()
        self._session = self._open()

    def close(self) -> None:
        self._store.expire(self._session)
        self._spread()


@pytest.fixture
def memory_users() -> StoreFactory:
    store = MemoryStore()
    users: dict[int, MemoryUser] = {}
    return lambda: MemoryUser(store, users)


@pytest.fixture
def zookeeper_users(zookeeper_service: ZooKeeperService) -> Iterator[StoreFactory]:
    """Users below a root path of their own, on the one server of all tests."""
    root = zookeeper_service.new_root()
    users: list[ZooKeeperUser] = []

    def factory() -> ZooKeeperUser:
        users.append(ZooKeeperUser(zookeeper_service, root))
        return users[-1]

    yield factory
    for user in users:
        user.close()


def assert_ok(answer: StoreAnswer) -> StoreAnswer:
    assert answer.outcome is Outcome.OK, answer
    return answer
