"""The end of TLS connections: an ordinary one is silent, a failure is told."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pubweave.runtime.client.client import Client, ClientError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.security.setup import SecuritySetup
from tests.sockets.harness import until
from tests.sockets.test_security import NOW, brokers, directory

__all__ = ["directory"]
pytestmark = [
    pytest.mark.sockets,
    pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"]),
]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def hang_up(client: Client) -> None:
    """The far end hears the end of TCP, and nothing of the end of TLS before it."""
    assert client._connection is not None
    assert client._connection._transport is not None
    own = client._connection._transport.get_extra_info("socket")
    with socket.fromfd(own.fileno(), own.family, own.type) as copy:
        copy.shutdown(socket.SHUT_WR)


def test_an_ordinary_end_of_tls_is_silent(
    directory: SecurityDirectory, caplog: pytest.LogCaptureFixture, run: Callable[..., Any]
) -> None:
    """Clients that leave, also with much on its way to them, are cut off, hang up; brokers too."""
    user = directory.credentials()

    async def scenario() -> None:
        async with brokers(directory, "b1", "b2") as hosts:
            near, far = (str(hosts[name].address) for name in ("b1", "b2"))

            def is_empty() -> bool:
                return not hosts["b1"].broker.sessions.clients

            async with connect(near, credentials=user) as leaving:
                await leaving.subscribe("*")
            async with connect(near, credentials=user) as busy:
                await busy.subscribe("*")
                async with connect(far, credentials=user) as publisher:
                    await publisher.advertise("*")
                    for _ in range(100):
                        await publisher.publish("T", {}, bytes(20_000))
            async with connect(near, credentials=user) as cut:
                await cut.subscribe("*")
                before = cut._connection
                assert before is not None
                before.abort()
                await until(lambda: cut._connection not in (None, before))
            async with connect(near, credentials=user) as hanging:
                await hanging.subscribe("*")
                gone = hanging._connection
                hang_up(hanging)
                await until(lambda: hanging._connection not in (None, gone))
            await until(is_empty)
            async with connect(far, credentials=user) as left_behind:
                await left_behind.subscribe("*")
                await hosts["b2"].stop()
                await until(lambda: left_behind._connection is None)

    run(scenario())
    assert told(caplog) == []


def test_a_failure_is_told(
    directory: SecurityDirectory,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    run: Callable[..., Any],
) -> None:
    """A user who trusts another authority than that of the broker."""
    others = SecurityDirectory(tmp_path / "others")
    list(SecuritySetup(others, NOW).create(["b1"], ["mallory"]))
    stranger = others.credentials("mallory")

    async def scenario() -> None:
        async with brokers(directory, "b1") as hosts:
            with pytest.raises(ClientError):
                async with connect(str(hosts["b1"].address), credentials=stranger, timeout_s=10.0):
                    pass

    run(scenario())
    assert any(text.startswith("TLS with broker failed") for text in told(caplog))
