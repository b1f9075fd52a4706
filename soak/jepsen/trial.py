"""One trial: an overlay, its clients, a nemesis, a judge, from the start to the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import json
import platform
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pubweave
from pubweave.runtime.net.addresses import Address
from soak.cutting_proxy import CuttingProxy
from soak.jepsen.c_shims import Preloads
from soak.jepsen.checker import RULES_FILE, Checker, Rules, judge
from soak.jepsen.history import SUFFIX, HistoryReader, HistoryWriter, Line, read_in_order
from soak.jepsen.nemesis import Nemesis
from soak.jepsen.overlay import TrialOverlay, environment
from soak.jepsen.sandbox import (
    HOST_ADDRESS,
    Capabilities,
    Disk,
    Network,
    SetUpError,
    find_capabilities,
)
from soak.jepsen.schedule import CALM_AFTER_S, ON_DISKS, ON_NETWORK, Fault, draw_schedule
from soak.jepsen.settings import (
    MQTT_PORT,
    PORT,
    TrialSettings,
    draw_links,
    draw_mqtt,
    draw_native,
)
from soak.jepsen.timeline import Timeline

READY_LIMIT_S = 120.0
LOOK_EVERY_S = 5.0
QUIET_END_S = 5.0
END_LIMIT_S = 10.0
EXCERPT_LINES = 30
EXCERPTS = 20


class ClientsProcess:
    """One process of clients behind two pipes."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process

    async def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READY_LIMIT_S):
                if (await self.process.stdout.readline()).strip() == b"ready":
                    return
        raise SetUpError(f"the {self.name} did not get ready: see logs/{self.name}.log")

    def order(self, line: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(line + b"\n")


class Trial:
    """Run it once; the document has everything, also for the page."""

    def __init__(
        self,
        settings: TrialSettings,
        directory: Path,
        say: Callable[[str], None],
        stop: asyncio.Event,
    ) -> None:
        self.settings = settings
        self.directory = directory
        self._say = say
        self._stop = stop
        self._histories = directory / "histories"
        self._histories.mkdir(parents=True)
        (directory / "logs").mkdir()
        self.rules = Rules(
            settle_s=settings.settle_s,
            awaits_confirmation=settings.awaits_confirmation,
            has_journal=settings.overlay.durability == "journal",
        )
        (self._histories / RULES_FILE).write_text(json.dumps(asdict(self.rules)))
        self._history = HistoryWriter(self._histories / f"nemesis{SUFFIX}")
        self._reader = HistoryReader(self._histories)
        self._live = Checker(self.rules)
        self.capabilities = Capabilities()
        self.schedule: list[Fault] = []
        self._clients: list[ClientsProcess] = []
        self._nemesis: Nemesis
        self._overlay: TrialOverlay
        self._began = 0.0
        self._ended_early = ""

    async def run(self) -> dict[str, Any]:
        """SetUpError if it cannot begin."""
        self.capabilities = await asyncio.to_thread(find_capabilities)
        for each in self.capabilities.missing:
            self._say(f"without {each}")
        async with contextlib.AsyncExitStack() as stack:
            await self._set_up(stack)
            await self._traffic()
        return await asyncio.to_thread(self._judge)

    # --- the beginning -------------------------------------------------------------------------

    async def _set_up(self, stack: contextlib.AsyncExitStack) -> None:
        settings, names = self.settings, self.settings.names
        network: Network | None = None
        disks: dict[str, Disk] = {}
        hosts = {name: f"127.0.77.{place}" for place, name in enumerate(names, 11)}
        store_host = "127.0.77.1"
        if self.capabilities.has_namespaces:
            network = await asyncio.to_thread(Network, names, self.capabilities)
            hosts = {name: network.address(name) for name in names}
            store_host = HOST_ADDRESS
            if settings.overlay.durability == "journal":
                disks = {name: Disk(self.directory / "disks" / name) for name in names}
        preloads = Preloads(self.directory / "preloads", self.capabilities)
        self._overlay = TrialOverlay(
            settings,
            self.directory,
            hosts,
            network.inside if network is not None else lambda _: [],
            preloads,
            self._history,
            store_host=store_host,
            links=draw_links(names, settings.seed, is_tree=settings.overlay.has_store),
            disks={name: self.directory / "disks" / name for name in names},
        )
        stack.push_async_callback(self._overlay.close)
        await self._overlay.start()
        self._say(f"{len(names)} brokers are up ({settings.kind}, seed {settings.seed})")
        native, mqtt, proxies = await self._addresses(stack, hosts, network is None)
        for name, config in (
            ("native_clients", draw_native(settings, native)),
            ("mqtt_clients", draw_mqtt(settings, mqtt)),
        ):
            self._clients.append(await stack.enter_async_context(self._process(name, config)))
        for each in self._clients:
            await each.wait_until_ready()
        if not settings.awaits_confirmation:
            self._say(f"all clients are there; {settings.settle_s:g} s for their subscriptions")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(settings.settle_s + 1.0):
                    await self._stop.wait()
        self._nemesis = Nemesis(self._overlay, self._history, preloads, network, disks, proxies)
        self.schedule = draw_schedule(
            names,
            settings.minutes,
            settings.seed,
            weights=self._possible(settings.weights()),
            for_s=settings.for_s,
        )

    def _possible(self, weights: dict[str, int]) -> dict[str, int]:
        """Without what cannot be done here."""
        known, impossible = self.capabilities, set()
        if not known.has_namespaces:
            impossible |= {*ON_NETWORK, "full disk"} - {"cut", "isolate"}
        if not (known.has_netem or known.has_tbf):
            impossible.add("slow link")
        if known.gcc is None:
            impossible |= {"clock", "slow disk"}
        if self.settings.overlay.durability != "journal":
            impossible |= set(ON_DISKS)
        possible = {kind: w for kind, w in weights.items() if kind not in impossible}
        if weights and not possible:
            raise SetUpError(f"none of {', '.join(weights)} can be done here: see what is missing")
        return possible

    async def _addresses(
        self, stack: contextlib.AsyncExitStack, hosts: dict[str, str], through_proxies: bool
    ) -> tuple[dict[str, str], dict[str, Any], dict[str, list[CuttingProxy]]]:
        """Where native and MQTT clients find each broker."""
        native = {name: f"{host}:{PORT}" for name, host in hosts.items()}
        mqtt: dict[str, Any] = dict(hosts)
        proxies: dict[str, list[CuttingProxy]] = {name: [] for name in hosts}
        if through_proxies:
            for name, host in hosts.items():
                for port in (PORT, MQTT_PORT):
                    at = Address(host, port)
                    proxy = CuttingProxy(lambda at=at: at)  # type: ignore[misc]
                    proxies[name].append(await stack.enter_async_context(proxy))
                native[name] = str(proxies[name][0].address)
                mqtt[name] = list(proxies[name][1].address)
        return native, mqtt, proxies

    @contextlib.asynccontextmanager
    async def _process(self, name: str, config: dict[str, Any]) -> AsyncIterator[ClientsProcess]:
        path = self.directory / f"{name}.json"
        await asyncio.to_thread(path.write_text, json.dumps(config, indent=1))
        with (self.directory / "logs" / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"soak.jepsen.{name}", str(path)),
                str(self._histories / f"{name}{SUFFIX}"),
                env=environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield ClientsProcess(name, process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_LIMIT_S):
                    await process.wait()
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    # --- the traffic ---------------------------------------------------------------------------

    async def _traffic(self) -> None:
        """Under faults; then in peace, until nothing is missing or patience is at its end."""
        self._began = time.monotonic()
        end = self._began + self.settings.minutes * 60.0
        for each in self._clients:
            each.order(b"begin")
        striking = asyncio.create_task(self._nemesis.run(self.schedule))
        try:
            while time.monotonic() < end and not self._stop.is_set() and not self._ended_early:
                await self._look(end)
            if self._stop.is_set():
                self._ended_early = "it was asked to end"
        finally:
            if self._ended_early:
                striking.cancel()
            await asyncio.gather(striking, return_exceptions=True)
        for each in self._clients:
            each.order(b"end")
        deadline = time.monotonic() + self.settings.patience_s
        calm = time.monotonic() + (QUIET_END_S if self._ended_early else CALM_AFTER_S)
        while time.monotonic() < deadline and not (self._live.open == 0 < time.monotonic() - calm):
            await self._look(deadline, "settling")
        await self._overlay.count_now()
        await asyncio.sleep(HistoryReader.LAG_S)

    async def _look(self, end: float, what: str = "") -> None:
        """Judge what has come so far, and say how it goes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(LOOK_EVERY_S, max(0.1, end - time.monotonic()))):
                await self._stop.wait()
        if self._stop.is_set():
            await asyncio.sleep(1.0)
        self._history.flush()
        await asyncio.to_thread(self._read)
        counts = self._live.counts
        left_s = max(0.0, end - time.monotonic())
        found = dict(self._live.violation_counts) or "none"
        now = ", ".join(self._nemesis.now) or "-"
        self._say(
            f"{what or 'left'} {left_s / 60:4.1f} min  sent {counts['published']:,}  "
            f"received {counts['delivered']:,}  open {self._live.open:,}  "
            f"faults {counts['faults']} (now: {now})  violations {found}"
        )
        if self._reader.bytes > self.settings.history_mb << 20:
            self._ended_early = f"its histories have {self.settings.history_mb} MB"
        for each in self._clients:
            if each.process.returncode is not None and not self._ended_early:
                self._history.write("finding", f"the {each.name} ended by themselves")
                self._ended_early = f"the {each.name} ended by themselves"

    def _read(self) -> None:
        for line in self._reader.lines(time.monotonic() - HistoryReader.LAG_S):
            self._live.feed(line)

    # --- the verdict ---------------------------------------------------------------------------

    def _judge(self) -> dict[str, Any]:
        """Once more from the files alone, as anybody can."""
        self._history.flush()
        timeline = Timeline()

        def lines() -> Any:
            for line in read_in_order(self._histories):
                timeline.feed(line)
                yield line

        found = judge(lines(), self.rules)
        struck = self._nemesis.struck
        for each in struck:
            each["at_s"] = round(each["at"] - self._began, 1)
            each["for_s"] = round((each["over_at"] or time.monotonic()) - each["at"], 1)
        return {
            **found,
            "examples": self._with_excerpts(found["examples"]),
            "settings": self.settings.document(),
            "strategy": self.settings.kind,
            "rules": asdict(self.rules),
            "seconds": round(time.monotonic() - self._began, 1),
            "ended_early": self._ended_early,
            "capabilities": self.capabilities.document(),
            "versions": versions(),
            "faults": struck,
            "restarts": self._overlay.restarts,
            "timeline": timeline.document(self._began),
            "began": self._began,
            "history_bytes": self._reader.bytes,
        }

    def _with_excerpts(self, examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What histories say of the first violations."""
        wanted = {
            (each["publisher"], each["number"], each["client"]): []
            for each in examples[:EXCERPTS]
            if each["publisher"]
        }  # type: dict[tuple[str, int, str], list[Line]]
        for line in read_in_order(self._histories) if wanted else ():
            for (publisher, number, client), lines in wanted.items():
                if len(lines) < EXCERPT_LINES and _is_about(line, publisher, number, client):
                    lines.append(line)
        for each in examples:
            each["at_s"] = round(each["at"] - self._began, 3)
            lines = wanted.get((each["publisher"], each["number"], each["client"]), [])
            each["excerpt"] = [[round(t - self._began, 3), *rest] for t, *rest in lines]
            each["during"] = [
                f"{f['kind']} {' '.join(f['targets'])}"
                for f in self._nemesis.struck
                if f["at"] - 5.0 <= each["at"] <= (f["over_at"] or each["at"]) + 5.0
            ]
        return examples


def _is_about(line: Line, publisher: str, number: int, client: str) -> bool:
    kind = line[1]
    if kind in ("pub", "cut", "bye", "will"):
        return bool(line[2] == publisher and number in line[3:4])
    if kind == "ack":
        return bool(line[2] == publisher and line[3] <= number <= line[4])
    if kind == "got":
        return bool(line[2] == client and line[4] == publisher and line[5] == number)
    if kind in ("sub", "subok", "unsub", "unsubok", "unsure", "told", "session", "down"):
        return bool(line[2] == client)
    return False


def versions() -> dict[str, str]:
    source = str(Path(pubweave.__file__).parent)
    found = {"python": platform.python_version(), "kernel": platform.release(), "source": source}
    for package in ("pubweave", "paho-mqtt", "uvloop", "msgspec"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
