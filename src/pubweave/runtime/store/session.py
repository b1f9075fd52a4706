"""A session with the store for whoever asks and waits: commands, and following the topology.

Agents and executors are told things as they happen; people's commands are a question, an answer,
and the next question. Those of `deploy.commands` are generators of requests; here they are run.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Generator
from typing import TypeVar

from pubweave.deploy.documents import BrokerDocument, Layout, decode
from pubweave.deploy.store import (
    Delete,
    List,
    Outcome,
    Read,
    StoreAnswer,
    StoreNotice,
    StoreRequest,
)
from pubweave.model.ids import BrokerId
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget

T = TypeVar("T")
CONNECT_LIMIT_S = 10.0


class StoreUnreachable(OverlayError):
    """ZooKeeper does not answer, or not us."""


@contextlib.asynccontextmanager
async def opened_store(
    target: ZooKeeperTarget,
    deliver: Callable[[StoreAnswer | StoreNotice], None] = lambda event: None,
    *,
    limit_s: float = CONNECT_LIMIT_S,
) -> AsyncIterator[ZooKeeperStore]:
    """A connected store; StoreUnreachable if no session stands within ``limit_s``."""
    store = ZooKeeperStore(target, deliver)
    store.start()
    try:
        if not await store.wait_until_connected(limit_s):
            raise StoreUnreachable(
                f"no ZooKeeper answers at {target} within {limit_s:g} s: is it running there?"
            )
        yield store
    finally:
        await store.stop()


async def ask_connected(store: ZooKeeperStore, request: StoreRequest) -> StoreAnswer:
    """What the store answers once it is there; StoreUnreachable if it is not, or denies access."""
    if not await store.wait_until_connected(CONNECT_LIMIT_S):
        raise StoreUnreachable(f"ZooKeeper at {store.target} does not answer any more")
    answer = await store.ask(request)
    if answer.outcome is Outcome.DENIED:
        raise StoreUnreachable(
            f"ZooKeeper at {store.target} denies access to {request.path}: "
            "give the right login with --zookeeper-auth-file"
        )
    return answer


async def run_command(store: ZooKeeperStore, command: Generator[StoreRequest, StoreAnswer, T]) -> T:
    """Carry out what a command asks for, one request after the other; its result."""
    try:
        request = next(command)
        while True:
            request = command.send(await ask_connected(store, request))
    except StopIteration as finished:
        result: T = finished.value
        return result
    finally:
        command.close()


async def read_address(store: ZooKeeperStore, layout: Layout, broker: BrokerId) -> Address | None:
    """Where a broker listens, as it says in the store; None if it is not there. DocumentError or
    ValueError for a document that is none of ours."""
    path = layout.broker(broker)
    answer = await store.ask(Read(path))
    if answer.outcome is not Outcome.OK:
        return None
    return Address.parse(decode(answer.data, BrokerDocument, path).address)


async def delete_tree(store: ZooKeeperStore, path: str) -> None:
    """Remove a node and everything below it; what is not there is fine."""
    listed = await store.ask(List(path))
    for child in listed.children:
        await delete_tree(store, f"{path}/{child}")
    if listed.outcome is not Outcome.MISSING:
        await store.ask(Delete(path))
