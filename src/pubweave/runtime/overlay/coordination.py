"""What an overlay has to do with the store: put its topology there, and follow it.

The store is where plans are carried out, so from the start on it, and not the file the overlay
was started from, says which links there are. A start begins with a clean tree; it is refused
where brokers of an overlay by the same name are alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

from pubweave.deploy.commands import create_topology
from pubweave.deploy.documents import (
    DocumentError,
    Layout,
    TopologyDocument,
    decode,
)
from pubweave.deploy.store import (
    List,
    NodeChanged,
    Outcome,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreNotice,
    StoreSessionState,
)
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import OverlaySpec
from pubweave.runtime.security.directory import write_private
from pubweave.runtime.store.embedded_zookeeper import EmbeddedZooKeeper
from pubweave.runtime.store.session import delete_tree, opened_store, read_address, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget, parse_target

log = logging.getLogger(__name__)

EARLIER_SESSIONS_LIMIT_S = 15.0
"""How long to wait for the sessions of brokers that were killed to run out."""

LOGIN_BYTES = 24

OnTopology = Callable[[Topology, dict[BrokerId, Address]], None]


class OverlayCoordination:
    """An overlay's own session with the store, and its own ZooKeeper unless it is given one."""

    def __init__(
        self,
        spec: OverlaySpec,
        directory: RunDirectory,
        target: ZooKeeperTarget | None,
        on_topology: OnTopology,
        on_trouble: Callable[[str], None],
    ) -> None:
        """``target`` None: an embedded server with its data in the run directory."""
        self._layout = Layout(spec.name)
        self._spec = spec
        self._directory = directory
        self._on_topology = on_topology
        self._on_trouble = on_trouble
        self._target = target
        self._store: ZooKeeperStore | None = None
        self._stack = contextlib.AsyncExitStack()
        self._follows: set[asyncio.Task[None]] = set()

    @property
    def target(self) -> ZooKeeperTarget:
        assert self._target is not None, "open() first"
        return self._target

    @property
    def name(self) -> str | None:
        """The store as people name it; None before there is one."""
        return None if self._target is None else str(self._target)

    async def open(self) -> None:
        """Start or reach ZooKeeper and put the topology there; OverlayError if that fails."""
        is_ours = self._target is None
        if self._target is None:
            server = EmbeddedZooKeeper(self._directory.zookeeper, on_trouble=self._on_trouble)
            await self._stack.enter_async_context(server)
            # On loopback, but this machine may have other users: only we change our plans.
            login = f"pubweave:{secrets.token_urlsafe(LOGIN_BYTES)}"
            write_private(self._directory.zookeeper_auth, f"{login}\n")
            self._target = parse_target(str(server.address), login)
        store = await self._stack.enter_async_context(opened_store(self._target, self._take))
        self._store = store
        if is_ours and not await store.close_root():
            raise OverlayError(f"the root of ZooKeeper at {self.target} cannot be closed to others")
        await self._wait_for_earlier_brokers(store)
        await delete_tree(store, self._layout.top)
        if not await run_command(store, create_topology(self._layout, self._spec.topology)):
            raise OverlayError(
                f"{self._layout.topology} at {self.target} is left over from an earlier overlay "
                "and cannot be removed: give this one another --name"
            )
        await self._follow()

    async def close(self) -> None:
        for task in self._follows:
            task.cancel()
        await self._stack.aclose()

    async def _wait_for_earlier_brokers(self, store: ZooKeeperStore) -> None:
        alive: tuple[str, ...] = ()
        for _ in range(int(EARLIER_SESSIONS_LIMIT_S)):
            answer = await store.ask(List(self._layout.brokers))
            alive = answer.children
            if not alive and answer.outcome is not Outcome.UNSURE:
                return
            await asyncio.sleep(1.0)
        raise OverlayError(
            f"an overlay {self._layout.overlay!r} is alive at {self.target} (brokers "
            f"{', '.join(alive[:5])}): stop it, or give this one another --name"
        )

    # --- following the topology --------------------------------------------------------------

    def _take(self, event: StoreAnswer | StoreNotice) -> None:
        is_news = isinstance(event, NodeChanged) or event == SessionChanged(
            StoreSessionState.CONNECTED
        )
        if is_news and self._store is not None:
            task = asyncio.create_task(self._follow(), name="follow the topology")
            self._follows.add(task)
            task.add_done_callback(self._follows.discard)

    async def _follow(self) -> None:
        assert self._store is not None
        path = self._layout.topology
        answer = await self._store.ask(Read(path, watch=True))
        if answer.outcome is not Outcome.OK:
            return  # not now: a notice follows when it is there again
        try:
            topology = decode(answer.data, TopologyDocument, path).topology()
        except (DocumentError, ValueError) as error:
            log.warning("%s", error)
            return
        known = dict(self._spec.addresses)
        for broker in sorted(topology.brokers - known.keys()):
            address = await self._address(self._store, broker)
            if address is not None:
                known[broker] = address
        self._on_topology(topology, {b: known[b] for b in known if b in topology.brokers})

    async def _address(self, store: ZooKeeperStore, broker: BrokerId) -> Address | None:
        try:
            return await read_address(store, self._layout, broker)
        except (DocumentError, ValueError) as error:
            log.warning("%s", error)
            return None
