"""The dashboard of a secured overlay, from its start by a user to what a browser gets."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from pubweave.cli.autopilot.dashboard import credentials_for
from pubweave.cli.options.security import SecurityChoice
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.observe.dashboard_server import serving_dashboard
from pubweave.runtime.observe.dashboard_source import FoundOverlay
from pubweave.runtime.security.directory import SecurityDirectory
from tests.sockets.harness import run, until
from tests.sockets.test_security import brokers, directory

__all__ = ["directory"]
pytestmark = pytest.mark.sockets
AS_OPERATOR = partial(credentials_for, SecurityChoice())


@dataclass
class Finding:
    """An overlay of one broker that is known by its address."""

    host: BrokerHost
    security: str | None

    def find(self) -> FoundOverlay:
        addresses = {"b1": self.host.address}
        return FoundOverlay("made", "tree", None, None, addresses, (), self.security)


async def get(address: str, **headers: str) -> tuple[int, bytes, str]:
    """A request as a browser without cookies makes it: status, body, cookie."""

    def ask() -> tuple[int, bytes, str]:
        opener = urllib.request.build_opener(NoRedirect)
        try:
            with opener.open(urllib.request.Request(address, headers=headers), timeout=10) as got:
                return got.status, got.read(), ""
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers.get("Set-Cookie", "")

    return await asyncio.to_thread(ask)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **given: Any) -> None:
        return None


def test_an_operator_gets_an_address_with_a_token_and_others_see_nothing(
    directory: SecurityDirectory,
) -> None:
    async def scenario() -> None:
        async with brokers(directory, "b1") as hosts:
            finder = Finding(hosts["b1"], str(directory.path))
            async with serving_dashboard(
                finder, interval_s=0.2, credentials=AS_OPERATOR
            ) as address:
                base, _, token = address.partition("?token=")
                assert len(token) >= 32
                for path in ("", "api/status", "events", "metrics", "main.js"):
                    assert (await get(base + path))[0] == 401
                assert (await get(f"{base}?token={token[::-1]}"))[0] == 401
                status, _, cookie = await get(address)
                assert status == 303
                known = {"Cookie": cookie.partition(";")[0]}
                assert (await get(base, **known))[0] == 200

                async def is_seen() -> bool:
                    bearer = {"Authorization": f"Bearer {token}"}
                    status, body, _ = await get(base + "api/picture", **bearer)
                    return status == 200 and b"b1" in body

                async with asyncio.timeout(20):
                    while not await is_seen():  # noqa: ASYNC110
                        await asyncio.sleep(0.1)

    run(scenario())


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_who_may_not_operate_gets_no_dashboard(directory: SecurityDirectory, user: str) -> None:
    async def scenario() -> None:
        async with brokers(directory, "b1") as hosts:
            finder = Finding(hosts["b1"], str(directory.path))
            named = partial(credentials_for, SecurityChoice(user=user))
            page = serving_dashboard(finder, interval_s=0.2, credentials=named)
            with pytest.raises(OverlayError, match=f"for operators: user '{user}' may not operate"):
                await page.__aenter__()

    run(scenario())


def test_an_open_overlay_on_loopback_is_shown_as_before_until_it_is_secured(
    directory: SecurityDirectory,
) -> None:
    async def scenario() -> None:
        async with brokers(directory, "b1") as hosts:
            finder = Finding(hosts["b1"], None)
            told: list[str] = []
            async with serving_dashboard(
                finder, interval_s=0.2, credentials=AS_OPERATOR, on_address=told.append
            ) as address:
                assert told == [address]
                assert "token" not in address
                assert (await get(address))[0] == 200
                finder.security = str(directory.path)
                await until(lambda: len(told) == 2)
                assert told[1].startswith(f"{address}?token=")
                assert (await get(address))[0] == 401

    run(scenario())
