"""Carries out a schedule of faults against a running overlay, and writes down when each lasted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

from soak.cutting_proxy import CuttingProxy
from soak.jepsen.c_shims import Preloads
from soak.jepsen.history import HistoryWriter
from soak.jepsen.overlay import TrialOverlay
from soak.jepsen.sandbox import Disk, Network, SetUpError
from soak.jepsen.schedule import Fault


class Nemesis:
    """Strikes; every strike undoes what it did, also when it is cancelled."""

    def __init__(
        self,
        overlay: TrialOverlay,
        history: HistoryWriter,
        preloads: Preloads,
        network: Network | None,
        disks: dict[str, Disk],
        proxies: dict[str, list[CuttingProxy]],
    ) -> None:
        self._overlay = overlay
        self._history = history
        self._preloads = preloads
        self._network = network
        self._disks = disks
        self._proxies = proxies
        self._stopped: dict[str, int] = {}
        self.struck: list[dict[str, Any]] = []
        """What was done, for the page."""

    async def run(self, schedule: list[Fault]) -> None:
        """Until all faults are over."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in schedule:
                await asyncio.sleep(began + fault.at_s - time.monotonic())
                group.create_task(self._strike(fault))

    @property
    def now(self) -> list[str]:
        """What lasts at this moment, in words."""
        return [each["kind"] for each in self.struck if each["over_at"] is None]

    async def _strike(self, fault: Fault) -> None:
        told: dict[str, Any] = {
            "number": fault.number,
            "kind": fault.kind,
            "targets": list(fault.targets),
            "amount": fault.amount,
            "at": time.monotonic(),
            "over_at": None,
            "outcome": "",
        }
        self.struck.append(told)
        self._history.write("fault", fault.number, fault.kind, list(fault.targets), fault.for_s)
        try:
            told["outcome"] = await self._strikes(fault.kind)(fault) or ""
        except (SetUpError, OSError) as error:
            told["outcome"] = f"it did not work: {error}"
        except (
            Exception
        ) as error:  # a plan whose store is cut off, say: told, and the trial goes on
            told["outcome"] = f"{type(error).__name__}: {error}"
        finally:
            told["over_at"] = time.monotonic()
            if told["outcome"]:
                self._history.write("note", f"{fault.kind}: {told['outcome']}")
            self._history.write("over", fault.number)

    def _strikes(self, kind: str) -> Callable[[Fault], Awaitable[str | None]]:
        if kind.startswith("kill"):
            return self._kill
        return {
            "stop": self._stop,
            "stop several": self._stop,
            "stop and kill": self._stop_and_kill,
            "cut": self._cut,
            "one-way cut": self._cut,
            "isolate": self._isolate,
            "deafen": self._isolate,
            "mute": self._isolate,
            "loss": self._lose,
            "slow link": self._slow_link,
            "clock": self._clock,
            "full disk": self._fill_disk,
            "slow disk": self._slow_disk,
            "plan": self._plan,
            "remap": self._remap,
            "churn": self._churn,
        }[kind]

    # --- processes -----------------------------------------------------------------------------

    async def _stop(self, fault: Fault) -> None:
        for name in fault.targets:
            self._stopped[name] = self._stopped.get(name, 0) + 1
            self._overlay.brokers[name].send(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            for name in fault.targets:
                self._stopped[name] -= 1
                if not self._stopped[name]:
                    self._overlay.brokers[name].send(signal.SIGCONT)

    async def _kill(self, fault: Fault) -> None:
        names = list(fault.targets)
        await self._overlay.take_down(names, signal.SIGKILL)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            await self._overlay.bring_up(names)

    async def _stop_and_kill(self, fault: Fault) -> None:
        """It dies without having woken up."""
        names = list(fault.targets)
        await self._overlay.count_now()
        for name in names:
            self._overlay.brokers[name].send(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            await self._overlay.take_down(names, signal.SIGKILL)
            await self._overlay.bring_up(names)

    async def _churn(self, fault: Fault) -> None:
        """A broker leaves as it is asked to, and joins again."""
        names = list(fault.targets)
        await self._overlay.take_down(names, signal.SIGTERM)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            await self._overlay.bring_up(names)

    # --- the network ---------------------------------------------------------------------------

    async def _cut(self, fault: Fault) -> None:
        a, b = fault.targets
        if self._network is None:
            for proxy in self._proxies[a]:
                proxy.cut()
            return
        self._network.drop_from(fault.number, a, [b])
        if fault.kind == "cut":
            self._network.drop_from(fault.number, b, [a])
        await self._until_healed(fault)

    async def _isolate(self, fault: Fault) -> None:
        name = fault.targets[0]
        if self._network is None:
            await self._stall(fault)
            return
        if fault.kind != "mute":
            self._network.drop_all_in(fault.number, name)
        if fault.kind != "deafen":
            self._network.drop_all_out(fault.number, name)
        await self._until_healed(fault)

    async def _stall(self, fault: Fault) -> None:
        proxies = self._proxies[fault.targets[0]]
        for proxy in proxies:
            proxy.stall()
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            for proxy in proxies:
                proxy.flow()

    async def _lose(self, fault: Fault) -> None:
        assert self._network is not None
        self._network.drop_some(fault.number, fault.targets[0], fault.amount)
        await self._until_healed(fault)

    async def _until_healed(self, fault: Fault) -> None:
        assert self._network is not None
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            self._network.heal(fault.number)

    async def _slow_link(self, fault: Fault) -> None:
        assert self._network is not None
        self._network.slow(fault.targets[0])
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            self._network.unslow(fault.targets[0])

    # --- clocks and disks ----------------------------------------------------------------------

    async def _clock(self, fault: Fault) -> None:
        """It jumps, and jumps back."""
        self._preloads.set_clock(fault.targets[0], fault.amount)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            self._preloads.set_clock(fault.targets[0], 0.0)

    async def _fill_disk(self, fault: Fault) -> None:
        disk = self._disks[fault.targets[0]]
        await asyncio.to_thread(disk.fill)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            with contextlib.suppress(OSError):
                disk.free()

    async def _slow_disk(self, fault: Fault) -> None:
        self._preloads.set_sync_delay(fault.targets[0], fault.amount)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            self._preloads.set_sync_delay(fault.targets[0], 0.0)

    # --- what operators do meanwhile -----------------------------------------------------------

    async def _plan(self, fault: Fault) -> str:
        return await self._overlay.reshape(fault.number)

    async def _remap(self, fault: Fault) -> str:
        return await self._overlay.remap(fault.number)
