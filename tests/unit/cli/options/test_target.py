"""The broker a command attaches to."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pubweave.cli import main
from pubweave.cli.errors import BadInput
from pubweave.cli.options import target
from pubweave.runtime.client.client import Client, ClientError
from pubweave.runtime.net.addresses import Address


@pytest.mark.sockets
@pytest.mark.parametrize("arguments", [["pub", "T"], ["sub", "*"], ["status"]])
def test_where_nobody_listens_the_question_is_whether_a_broker_runs(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(target, "CONNECT_LIMIT_S", 0.3)
    with socket.socket() as bound:  # but not listening: nobody else can be, either
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        assert main.run([*arguments, "--address", address]) == 2
    assert capsys.readouterr().err == (
        f"Error: cannot connect: {address}: Connection refused; is a broker running there?\n"
    )


def test_a_broker_that_refuses_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: Client, timeout_s: float) -> None:
        raise ClientError("the broker refused the Hello: another version")

    async def attach() -> None:
        async with target.attached(Address("127.0.0.1", 1)):
            pass

    monkeypatch.setattr(Client, "open", refuse)
    with pytest.raises(BadInput, match=r"^the broker refused the Hello: another version$"):
        asyncio.run(attach())
