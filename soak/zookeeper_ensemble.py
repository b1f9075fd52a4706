"""Several ZooKeeper servers on this machine, for tests of what outlives one of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

from pubweave.runtime.net.addresses import DEFAULT_HOST, Address
from pubweave.runtime.net.reserved_ports import ReservedPorts
from pubweave.runtime.security.directory import write_private
from pubweave.runtime.store.embedded_zookeeper import (
    LOG_FILE,
    START_LIMIT_S,
    ServerProcess,
    common_settings,
    find_jars,
    find_java,
    java_command,
    private_home,
    write_config,
)

MEMBER_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeperEnsemble:
    """Several servers that agree with each other: survives the loss of the fewer half."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        self._directory = directory
        self._size = size
        self._ports: ReservedPorts | None = None
        self.servers: list[ServerProcess] = []

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(server.address for server in self.servers)

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _start(self) -> None:
        java, class_path = find_java(), find_jars()
        names = [f"{use} {n}" for n in range(1, self._size + 1) for use in ("peer", "vote", "use")]
        self._ports = ReservedPorts({name: Address(DEFAULT_HOST, 0) for name in names})
        at = {name: address.port for name, address in self._ports.addresses.items()}
        members = [
            f"server.{n}={DEFAULT_HOST}:{at[f'peer {n}']}:{at[f'vote {n}']}"
            f";{DEFAULT_HOST}:{at[f'use {n}']}"
            for n in range(1, self._size + 1)
        ]
        for n in range(1, self._size + 1):
            home = self._directory / f"server-{n}"
            data = private_home(home)
            write_private(data / "myid", f"{n}\n")
            settings = [*common_settings(data), "initLimit=10", "syncLimit=5", *members]
            command = java_command(
                java, class_path, MEMBER_CLASS, write_config(home / "zoo.cfg", settings)
            )
            address = Address(DEFAULT_HOST, at[f"use {n}"])
            self.servers.append(ServerProcess(command, address, home / LOG_FILE))
        await asyncio.gather(*(server.start() for server in self.servers))
        await asyncio.gather(*(server.wait_until_serving(START_LIMIT_S) for server in self.servers))

    async def _stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self.servers))
        if self._ports is not None:
            self._ports.close()
