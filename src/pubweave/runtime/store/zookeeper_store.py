"""The store of `deploy.store` on a real ZooKeeper, through kazoo.

kazoo lives in threads of its own. Requests are handed to it from the event loop without waiting;
answers, watches and session changes come back through ``call_soon_threadsafe`` and are delivered
one by one, in the event loop. Nothing here decides anything: whoever uses the store does.

Invariant: every request is answered exactly once until `stop`, whatever happens to connection,
session or server. What was under way when the connection went is answered `UNSURE`; kazoo may
still carry it out later, but before anything that is asked after the next CONNECTED.

Requests that need several of ZooKeeper's are sent as one pipeline, never as question and answer:
so they take one round trip, and those of one user are carried out in their order.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import itertools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo import exceptions  # type: ignore[import-untyped]
from kazoo.client import KazooClient, KazooState  # type: ignore[import-untyped]
from kazoo.handlers.threading import SequentialThreadingHandler  # type: ignore[import-untyped]
from kazoo.protocol.states import EventType, WatchedEvent  # type: ignore[import-untyped]
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE  # type: ignore[import-untyped]

from pubweave.deploy.store import (
    Create,
    Delete,
    List,
    NodeChanged,
    Outcome,
    Path,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreNotice,
    StoreRequest,
    StoreSessionState,
    Write,
)
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget

log = logging.getLogger(__name__)
_kazoo_log = log.getChild("kazoo")
_kazoo_log.setLevel(logging.ERROR)  # what matters of its sessions is said here

REQUESTS_MAX = 10_000
"""More than this under way at once are answered UNSURE without being sent."""
DATA_BYTES_MAX = 1_000_000
"""ZooKeeper closes the connection of whoever sends more than about this in one request."""
STOP_LIMIT_S = 3.0

Deliver = Callable[[StoreAnswer | StoreNotice], None]

_STATES = {
    KazooState.CONNECTED: StoreSessionState.CONNECTED,
    KazooState.SUSPENDED: StoreSessionState.SUSPENDED,
    KazooState.LOST: StoreSessionState.LOST,
}
_OUTCOMES: tuple[tuple[type[Exception], Outcome], ...] = (
    (exceptions.NoNodeError, Outcome.MISSING),
    (exceptions.NodeExistsError, Outcome.EXISTS),
    (exceptions.BadVersionError, Outcome.BAD_VERSION),
    (exceptions.NotEmptyError, Outcome.NOT_EMPTY),
    (exceptions.NoAuthError, Outcome.DENIED),
    (exceptions.AuthFailedError, Outcome.DENIED),
    (exceptions.InvalidACLError, Outcome.DENIED),
    (exceptions.NoChildrenForEphemeralsError, Outcome.DENIED),
    (exceptions.BadArgumentsError, Outcome.DENIED),
)


class _WatchKind(enum.Enum):
    """What a user waits for: changes of a node, or of its children."""

    NODE = enum.auto()
    CHILDREN = enum.auto()


_FIRED_BY = {
    EventType.CREATED: (_WatchKind.NODE, _WatchKind.CHILDREN),
    EventType.DELETED: (_WatchKind.NODE, _WatchKind.CHILDREN),
    EventType.CHANGED: (_WatchKind.NODE,),
    EventType.CHILD: (_WatchKind.CHILDREN,),
}


@dataclass
class _UnderWay:
    """A request and who wants its answer, which may have to wait for an earlier one's."""

    request: StoreRequest
    answer_to: Callable[[StoreAnswer], None] | None
    answer: StoreAnswer | None = None


class ZooKeeperStore:
    """One user's session. ``deliver`` is called in the event loop that called `start`."""

    def __init__(self, target: ZooKeeperTarget, deliver: Deliver) -> None:
        self.target = target
        self._deliver = deliver
        self._client = _make_client(target)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected = asyncio.Event()
        self._armed: set[tuple[_WatchKind, Path]] = set()
        self._known: set[Path] = {"", "/"}
        """Nodes that are there as far as we know: parents that need not be made."""
        self._under_way: dict[int, _UnderWay] = {}
        """Requests without an answer, or with one that waits for an earlier one's; in order."""
        self._numbers = itertools.count()

    # --- beginning and end -------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect; CONNECTED is delivered once a session stands. Never waits."""
        self._loop = asyncio.get_running_loop()
        self._client.add_listener(self._on_state)
        self._client.start_async()

    async def wait_until_connected(self, limit_s: float) -> bool:
        """Whether a session stood within this time."""
        try:
            async with asyncio.timeout(limit_s):
                await self._connected.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """End the session and with it our ephemeral nodes. Nothing is delivered any more."""
        if self._loop is None:
            return
        loop, self._loop = self._loop, None
        self._deliver = _drop
        self._answer_all_unsure()
        ended = asyncio.Event()

        def end() -> None:
            try:
                self._client.stop()
                self._client.close()
            except Exception as error:
                log.debug("ending the session with ZooKeeper failed: %s", error)
            loop.call_soon_threadsafe(ended.set)

        # Not the loop's own executor: its threads are waited for at exit, and a server that is
        # gone keeps kazoo waiting.
        threading.Thread(target=end, name="zookeeper stop", daemon=True).start()
        try:
            async with asyncio.timeout(STOP_LIMIT_S):
                await ended.wait()
        except TimeoutError:
            log.warning("the session with ZooKeeper is left to end by itself")

    async def close_root(self) -> bool:
        """On a server of our own: from here on nobody else sees or makes anything beside our tree.
        Whether that worked. The system's own nodes are open, too, unless they are closed."""
        assert self._loop is not None, "start() first"
        done: list[asyncio.Future[Exception | None]] = []
        for path in ("/zookeeper/quota", "/zookeeper", "/"):
            answered = self._loop.create_future()
            done.append(answered)
            result = self._client.set_acls_async(path, [*CREATOR_ALL_ACL])
            result.rawlink(functools.partial(self._on_closed, answered))
        return not any(await asyncio.gather(*done))

    # --- requests ----------------------------------------------------------------------------

    def request(
        self, request: StoreRequest, answer_to: Callable[[StoreAnswer], None] | None = None
    ) -> None:
        """Have a request carried out; its answer is delivered later, or given to ``answer_to``."""
        if self._loop is None:
            return
        number = next(self._numbers)
        refusal = self._refusal(request)
        self._under_way[number] = _UnderWay(request, answer_to)
        if refusal is not None:
            self._loop.call_soon(self._answer, number, StoreAnswer(request, refusal))
            return
        if isinstance(request, Read | List) and request.watch:
            kind = _WatchKind.NODE if isinstance(request, Read) else _WatchKind.CHILDREN
            self._armed.add((kind, request.path))
        self._send(number, request)

    async def ask(self, request: StoreRequest) -> StoreAnswer:
        """Have a request carried out and wait for its answer."""
        if self._loop is None:
            return StoreAnswer(request, Outcome.UNSURE)
        answered: asyncio.Future[StoreAnswer] = self._loop.create_future()

        def take(answer: StoreAnswer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self.request(request, take)
        return await answered

    def _refusal(self, request: StoreRequest) -> Outcome | None:
        """Why a request is not even sent; None if it is."""
        if not self._connected.is_set() or len(self._under_way) >= REQUESTS_MAX:
            return Outcome.UNSURE
        data = request.data if isinstance(request, Create | Write) else b""
        if len(data) > DATA_BYTES_MAX:
            log.error("%s: %d bytes are too many for one node", request.path, len(data))
            return Outcome.DENIED
        return None

    def _send(self, number: int, request: StoreRequest) -> None:
        try:
            result = self._hand_to_kazoo(request)
        except ValueError as error:  # what kazoo finds wrong with a path it says at once
            log.error("%s: %s", request.path, error)
            self._hand_over(self._answer, number, StoreAnswer(request, Outcome.DENIED))
            return
        result.rawlink(functools.partial(self._on_result, number, request))

    def _hand_to_kazoo(self, request: StoreRequest) -> Any:
        path = self.target.root + request.path
        match request:
            case Create(data=data, ephemeral=ephemeral):
                for parent in self._unknown_parents(path):
                    self._client.create_async(parent)
                return self._client.create_async(path, data, ephemeral=ephemeral)
            case Read(watch=watch):
                if watch:
                    # Of a node that is missing, only "exists" arms a watch.
                    self._client.exists_async(path, watch=self._on_watch)
                return self._client.get_async(path)
            case List(watch=watch):
                if watch:
                    self._client.exists_async(path, watch=self._on_watch)
                return self._client.get_children_async(
                    path, watch=self._on_watch if watch else None
                )
            case Write(data=data, version=version):
                return self._client.set_async(path, data, version)
            case Delete(version=version):
                self._known.discard(path)
                return self._client.delete_async(path, version)

    def _unknown_parents(self, path: Path) -> list[Path]:
        """Those to be made before a node, the highest first."""
        parents = []
        while (path := path.rpartition("/")[0]) not in self._known:
            parents.append(path)
        return parents[::-1]

    # --- from kazoo's threads ----------------------------------------------------------------

    def _on_result(self, number: int, request: StoreRequest, result: Any) -> None:
        self._hand_over(self._take_result, number, request, result.exception, result.value)

    def _on_closed(self, answered: asyncio.Future[Exception | None], result: Any) -> None:
        def take(error: Exception | None) -> None:
            if not answered.done():
                answered.set_result(error)

        self._hand_over(take, result.exception)

    def _on_watch(self, event: WatchedEvent) -> None:
        if event.type in _FIRED_BY:  # or else the connection went: SUSPENDED tells
            self._hand_over(self._notice_change, event.type, event.path)

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            # A server of an ensemble may be behind the one we, or somebody else, wrote to.
            self._client.sync_async(self.target.root or "/")
        self._hand_over(self._notice_state, _STATES[state])

    def _hand_over(self, call: Callable[..., None], *arguments: Any) -> None:
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(call, *arguments)
            except RuntimeError:
                log.debug("the event loop is closed: an answer is dropped")

    # --- in the event loop -------------------------------------------------------------------

    def _take_result(
        self, number: int, request: StoreRequest, error: Exception | None, value: Any
    ) -> None:
        if number not in self._under_way:
            return  # answered already: the connection went meanwhile
        if isinstance(request, Create):
            if isinstance(error, exceptions.NoNodeError) and self._forget_parents(request):
                self._send(number, request)
                return
            if error is None or isinstance(error, exceptions.NodeExistsError):
                self._remember_parents(request)
        self._answer(number, _answer_of(request, error, value))

    def _answer(self, number: int, answer: StoreAnswer) -> None:
        """Give answers in the order of their requests, which kazoo does not always keep."""
        if number in self._under_way:
            self._under_way[number].answer = answer
        while self._loop is not None and self._under_way:
            first, waiting = next(iter(self._under_way.items()))
            if waiting.answer is None:
                return
            del self._under_way[first]
            (waiting.answer_to or self._deliver)(waiting.answer)

    def _answer_all_unsure(self) -> None:
        under_way, self._under_way = self._under_way, {}
        for waiting in under_way.values():
            answer = waiting.answer or StoreAnswer(waiting.request, Outcome.UNSURE)
            (waiting.answer_to or self._deliver)(answer)

    def _forget_parents(self, request: Create) -> bool:
        """A parent we believed in is gone; whether there was such a belief."""
        path = self.target.root + request.path
        believed = False
        while path := path.rpartition("/")[0]:
            believed = believed or path in self._known
            self._known.discard(path)
        return believed

    def _remember_parents(self, request: Create) -> None:
        path = self.target.root + request.path
        while path := path.rpartition("/")[0]:
            self._known.add(path)

    def _notice_change(self, event_type: str, path: str) -> None:
        short = path[len(self.target.root) :]
        fired = {(kind, short) for kind in _FIRED_BY[event_type]} & self._armed
        if self._loop is not None and fired:
            self._armed -= fired
            self._deliver(NodeChanged(short))

    def _notice_state(self, state: StoreSessionState) -> None:
        if self._loop is None:
            return
        log.info("the session with ZooKeeper is %s", state.value)
        if state is StoreSessionState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()
            self._armed.clear()
        self._deliver(SessionChanged(state))
        if state is not StoreSessionState.CONNECTED:
            self._answer_all_unsure()


class _OneQueue(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with watches and answers in one queue instead of two.

    So a change is told before anything that was answered after it, as ZooKeeper promises."""

    def dispatch_callback(self, callback: Any) -> None:
        self.completion_queue.put(lambda: callback.func(*callback.args))


def _drop(event: StoreAnswer | StoreNotice) -> None:
    """What comes after the end."""


def _make_client(target: ZooKeeperTarget) -> Any:
    client = KazooClient(
        hosts=target.hosts,
        timeout=target.session_timeout_s,
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=0.5),
        auth_data=[] if target.auth is None else [("digest", target.auth)],
        handler=_OneQueue(),
        logger=_kazoo_log,
    )
    client.default_acl = [*OPEN_ACL_UNSAFE] if target.auth is None else [*CREATOR_ALL_ACL]
    return client


def _answer_of(request: StoreRequest, error: Exception | None, value: Any) -> StoreAnswer:
    if error is not None:
        outcome = next((o for kind, o in _OUTCOMES if isinstance(error, kind)), Outcome.UNSURE)
        if isinstance(request, Create) and outcome is Outcome.MISSING:
            outcome = Outcome.DENIED  # its parents could not be made
        return StoreAnswer(request, outcome)
    match request:
        case Read():
            data, stat = value
            return StoreAnswer(
                request, Outcome.OK, data=data, version=stat.version, written_at=stat.mtime / 1000.0
            )
        case Write():
            return StoreAnswer(request, Outcome.OK, version=value.version)
        case List():
            return StoreAnswer(request, Outcome.OK, children=tuple(sorted(value)))
    return StoreAnswer(request, Outcome.OK)
