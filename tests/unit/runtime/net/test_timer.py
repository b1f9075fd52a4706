"""The timer of a core knows a pause of its process from a core that is in a hurry."""

from __future__ import annotations

import asyncio

from pubweave.runtime.net.clock import DeadlineTimer, UnixClock


class SetClock(UnixClock):
    """A clock that stands where it is put."""

    at = 1_000_000.0

    def now(self) -> float:
        return self.at


def test_a_deadline_long_past_is_no_pause_of_the_process() -> None:
    """Cores name 0.0 if they want to be called at once."""

    async def run() -> None:
        timer = DeadlineTimer(clock := SetClock(), lambda: None)
        timer.arm(0.0)
        assert timer.take_pause(clock.now()) == 0.0
        clock.at += 45.0
        assert timer.take_pause(clock.now()) == 45.0
        assert timer.take_pause(clock.now()) == 0.0
        timer.cancel()

    asyncio.run(run())


def test_a_timer_that_is_late_itself_still_knows_the_pause() -> None:
    """After a pause the loop calls timers first, before anything else has come in."""

    async def run() -> list[float]:
        clock = SetClock()
        noticed: list[float] = []
        timer = DeadlineTimer(clock, lambda: noticed.append(timer.take_pause(clock.now())))
        timer.arm(clock.at + 0.01)
        clock.at += 45.0
        await asyncio.sleep(0.05)
        clock.at += 45.0
        noticed.append(timer.take_pause(clock.now()))
        return noticed

    assert [round(each, 2) for each in asyncio.run(run())] == [44.99, 0.0], (
        "nobody was waited for the second time"
    )


def test_a_clock_is_set_forward_to_what_an_earlier_process_said_and_never_back() -> None:
    clock = UnixClock()
    now = clock.now()
    clock.not_before(now - 100.0)
    assert now <= clock.now() < now + 50.0
    clock.not_before(now + 100.0)
    assert now + 100.0 <= clock.now() < now + 150.0
