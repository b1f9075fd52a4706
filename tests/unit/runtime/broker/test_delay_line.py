"""A delay line keeps its order and its distance, also when the loop was busy meanwhile."""

from __future__ import annotations

import asyncio
import time

from pubweave.runtime.broker.host import DelayLine


def test_everything_comes_out_in_order_and_not_before_its_time() -> None:
    seen: list[tuple[int, float]] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        line = DelayLine(0.03)
        put_at = {}
        for number in range(50):
            put_at[number] = loop.time()
            line.put(lambda number=number: seen.append((number, loop.time())))  # type: ignore[misc]
            if number % 10 == 0:
                time.sleep(0.005)  # noqa: ASYNC251 - a busy loop: several come due at once
                await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert [number for number, _ in seen] == list(range(50))
        assert all(at - put_at[number] >= 0.03 for number, at in seen)

    asyncio.run(work())


def test_what_is_put_in_while_something_comes_out_waits_its_own_time() -> None:
    seen: list[str] = []

    async def work() -> None:
        line = DelayLine(0.02)

        def first() -> None:
            seen.append("first")
            line.put(lambda: seen.append("second"))

        line.put(first)
        await asyncio.sleep(0.03)
        assert seen == ["first"]
        await asyncio.sleep(0.05)
        assert seen == ["first", "second"]

    asyncio.run(work())
