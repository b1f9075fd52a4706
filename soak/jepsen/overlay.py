"""The overlay of a trial: ``pubweave broker`` processes, each where the network has a place for it.

Everything is done as an operator would: configuration files, ``pubweave status --watch`` for what
brokers have counted, ``plan``, ``apply`` and ``remap`` for changes, SIGTERM and signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from bench.rivals import ROOT

import pubweave
from pubweave.deploy.documents import Layout, TopologyDocument, decode
from pubweave.deploy.store import Read
from pubweave.model.files.topology import write_topology
from pubweave.model.topology import Topology
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.store.embedded_zookeeper import (
    LOG_FILE,
    STANDALONE_CLASS,
    START_LIMIT_S,
    ServerProcess,
    common_settings,
    find_jars,
    find_java,
    java_command,
    private_home,
    write_config,
)
from pubweave.runtime.store.session import opened_store
from pubweave.runtime.store.zookeeper_target import parse_target
from soak.jepsen.c_shims import Preloads
from soak.jepsen.history import HistoryWriter
from soak.jepsen.sandbox import SetUpError, die_with_parent
from soak.jepsen.settings import MQTT_PORT, PORT, STORE_PORT, TrialSettings

UP_LIMIT_S = 90.0
BACK_LIMIT_S = 120.0
FRESH_LIMIT_S = 4.0
STATUS_EVERY_S = 2.0
COMMAND_LIMIT_S = 150.0
STOP_LIMIT_S = 8.0
NAME = "soak"
TELLING = (
    ("notifications_lost", "dropped"),
    ("publications_lost_at_most",),
    ("notifications_lost_at_most",),
)
"""Counters of lost notifications (``dropped``: in MQTT sessions), publications, and bounds."""

Place = Callable[[str], list[str]]
"""What to put before a command for it to run where a broker is."""


def environment() -> dict[str, str]:
    """Of every process of a trial: it runs the code that this process has imported."""
    paths = [str(Path(pubweave.__file__).parent.parent), str(ROOT)]
    if earlier := os.environ.get("PYTHONPATH"):
        paths.append(earlier)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}


def toml(table: dict[str, Any], path: str = "") -> str:
    """Nested tables of plain values as TOML."""
    own = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"[{path}]"] if path and own else []
    lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in own.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            lines.append(toml(value, f"{path}.{key}" if path else key))
    return "\n".join(lines)


class Broker:
    """One broker: its configuration and its process, whichever that is."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], log: Path) -> None:
        self.name = name
        self._command = command
        self._env = env
        self._log = log
        self.process: asyncio.subprocess.Process | None = None
        self.kept_down = 0
        """How many faults want it to be down."""
        self.is_expected_down = False

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.is_expected_down = False  # not before: the one before may just have ended

    def send(self, what: signal.Signals) -> bool:
        if self.process is None or self.process.returncode is not None:
            return False
        if what in (signal.SIGKILL, signal.SIGTERM):
            self.is_expected_down = True
        self.process.send_signal(what)
        return True

    def last_words(self, count: int = 12) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-count:])


class TrialOverlay:
    """All brokers and the store, from `start` to `close`."""

    def __init__(
        self,
        settings: TrialSettings,
        directory: Path,
        hosts: dict[str, str],
        place: Place,
        preloads: Preloads,
        history: HistoryWriter,
        *,
        store_host: str,
        links: list[tuple[str, str]],
        disks: dict[str, Path],
    ) -> None:
        self.settings = settings
        self._directory = directory
        self._hosts = hosts
        self._place = place
        self._preloads = preloads
        self._history = history
        self._store_host = store_host
        self._links = links
        self._disks = disks
        self._store: ServerProcess | None = None
        self._watch: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._counted: dict[str, tuple[float, dict[str, Any]]] = {}
        self._status_at = 0.0
        self.status: dict[str, Any] = {}
        self._status_came = asyncio.Event()
        self.brokers: dict[str, Broker] = {}
        self.restarts = 0

    # --- its beginning and its end -------------------------------------------------------------

    async def start(self) -> None:
        """Until all brokers and links are up; SetUpError if they are not."""
        for sub in ("brokers", "logs", "run"):
            (self._directory / sub).mkdir(parents=True, exist_ok=True)
        self._write_topology(self._directory / "topology.json", self._links)
        if self.settings.overlay.has_store:
            await self._start_store()
        for name in self.settings.names:
            self.brokers[name] = self._make_broker(name)
        for name in sorted(self.brokers, reverse=True):
            await self.brokers[name].start()
            self._tasks.append(asyncio.create_task(self._look_after(self.brokers[name])))
        self._write_state()
        self._tasks.append(asyncio.create_task(self._watch_status()))
        deadline = time.monotonic() + UP_LIMIT_S
        while not self.is_whole:
            if time.monotonic() > deadline:
                words = {name: each.last_words() for name, each in self.brokers.items()}
                raise SetUpError(f"the overlay did not come up: {words}")
            await asyncio.sleep(0.2)

    @property
    def is_whole(self) -> bool:
        return (
            bool(self.status)
            and not self.status["down"]
            and (
                self.settings.overlay.strategy != "tree"
                or self.status["links_up"] == self.status["links"]
            )
        )

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        processes = [each.process for each in self.brokers.values()] + [self._watch]
        alive = [p for p in processes if p is not None and p.returncode is None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_LIMIT_S):
                await asyncio.gather(*(process.wait() for process in alive))
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if self._store is not None:
            await self._store.stop()

    async def _start_store(self) -> None:
        home = self._directory / "zookeeper"
        config = common_settings(private_home(home))
        config += [f"clientPort={STORE_PORT}", f"clientPortAddress={self._store_host}"]
        command = java_command(
            find_java(), find_jars(), STANDALONE_CLASS, write_config(home / "zoo.cfg", config)
        )
        self._store = ServerProcess(command, Address(self._store_host, STORE_PORT), home / LOG_FILE)
        await self._store.start()
        await self._store.wait_until_serving(START_LIMIT_S)

    def _make_broker(self, name: str) -> Broker:
        kind = self.settings.overlay
        address = f"{self._hosts[name]}:{PORT}"
        near = [b if a == name else a for a, b in self._links if name in (a, b)]
        broker: dict[str, Any] = {
            "id": name,
            "listen": address,
            "strategy": kind.strategy,
            "durability": kind.durability,
            "neighbors": {other: f"{self._hosts[other]}:{PORT}" for other in near},
            "mqtt": {"listen": f"{self._hosts[name]}:{MQTT_PORT}"},
            **kind.options.get("broker", {}),
        }
        if kind.durability == "journal":
            broker["journal"] = {"directory": str(self._disks[name] / "journal")}
        else:
            broker["journal"] = {"held_file": str(self._directory / "brokers" / f"{name}.held")}
        document: dict[str, Any] = {
            "broker": broker,
            "output": {"json": True, "verbose": True},
            **{key: value for key, value in kind.options.items() if key != "broker"},
        }
        if kind.has_store:
            document["store"] = {"zookeeper": self.store_address}
            document["overlay"] = {
                "name": NAME,
                "topology": str(self._directory / "topology.json"),
            }
        config = self._directory / "brokers" / f"{name}.toml"
        config.write_text(toml(document) + "\n")
        command = [*self._place(name), sys.executable, "-m", "pubweave", "broker"]
        env = {**environment(), **self._preloads.environment(name)}
        log = self._directory / "logs" / f"{name}.log"
        return Broker(name, [*command, "--config", str(config)], env, log)

    @property
    def store_address(self) -> str:
        return f"{self._store_host}:{STORE_PORT}"

    def _write_state(self) -> None:
        """What ``pubweave up`` writes for ``pubweave status``."""
        state = {
            "overlay": NAME,
            "condition": "running",
            "pid": os.getpid(),
            "started_at": time.time(),
            "strategy": self.settings.overlay.strategy,
            "brokers": {b: {"address": f"{h}:{PORT}", "pid": None} for b, h in self._hosts.items()},
            "links": self._links,
        }
        (self._directory / "run" / "overlay.json").write_text(json.dumps(state))

    @staticmethod
    def _write_topology(path: Path, links: list[tuple[str, str]]) -> None:
        write_topology(Topology.from_links(links), path)

    # --- its brokers ---------------------------------------------------------------------------

    async def _look_after(self, broker: Broker) -> None:
        """A broker that ends without having been ended is a finding, and is started again."""
        while True:
            process = broker.process
            if process is None or broker.kept_down:
                await asyncio.sleep(0.05)
                continue
            code = await process.wait()
            if broker.process is not process or broker.kept_down or broker.is_expected_down:
                await asyncio.sleep(0.05)
                continue
            said = f"broker {broker.name} ended by itself with {code}: {broker.last_words()}"
            self._history.write("finding", said)
            await asyncio.sleep(1.0)
            if broker.process is process and not broker.kept_down:
                await broker.start()

    async def take_down(self, names: list[str], what: signal.Signals) -> None:
        """Kill, or ask to leave, and keep down until `bring_up`."""
        await self.count_now()
        for name in names:
            self.brokers[name].kept_down += 1
            self.brokers[name].send(what)
        for name in names:
            process = self.brokers[name].process
            if process is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STOP_LIMIT_S):
                        await process.wait()
                        continue
                self.brokers[name].send(signal.SIGKILL)
                await process.wait()

    async def bring_up(self, names: list[str]) -> None:
        """And wait until they answer."""
        for name in names:
            broker = self.brokers[name]
            broker.kept_down -= 1
            if not broker.kept_down:
                self.restarts += 1
                await broker.start()
        began = time.monotonic()
        while any(
            self.status.get("broker_status", {}).get(name, {}).get("state") != "up"
            or self._status_at < began
            for name in names
            if not self.brokers[name].kept_down
        ):
            if time.monotonic() > began + BACK_LIMIT_S:
                self._history.write("finding", f"of {names} not all were back in {BACK_LIMIT_S} s")
                return
            await asyncio.sleep(0.2)

    # --- what it says --------------------------------------------------------------------------

    async def _watch_status(self) -> None:
        """``pubweave status --watch`` as a process; it is started again should it end."""
        options = ["status", "--watch", "--json", "--interval", str(STATUS_EVERY_S)]
        options += ["--run-dir", str(self._directory / "run")]
        while True:
            with (self._directory / "logs" / "status.log").open("ab") as log:
                self._watch = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "pubweave", *options),
                    env=environment(),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    limit=1 << 24,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            assert self._watch.stdout is not None
            while line := await self._watch.stdout.readline():
                self._take_status(json.loads(line))
            await asyncio.sleep(1.0)

    def _take_status(self, document: dict[str, Any]) -> None:
        now = time.monotonic()
        for name, status in document["broker_status"].items():
            if status["state"] == "up":
                counters = {**status["counters"], **status.get("mqtt", {})}
                self._count(now, name, status["uptime_s"], counters)
        self.status, self._status_at = document, now
        self._status_came.set()
        self._status_came = asyncio.Event()

    def _count(self, now: float, name: str, uptime_s: float, counters: dict[str, Any]) -> None:
        """Write down what was counted as lost since the last look at this very process."""
        before_s, before = self._counted.get(name, (0.0, {}))
        if uptime_s < before_s:
            before = {}
        self._counted[name] = uptime_s, counters
        news = [sum(counters.get(f, 0) - before.get(f, 0) for f in fields) for fields in TELLING]
        if any(news):
            self._history.write("counted", name, *news, at=now)

    async def count_now(self) -> None:
        """Two looks: the second began after this was called."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FRESH_LIMIT_S):
                for _ in range(2):
                    await self._status_came.wait()

    # --- changes -------------------------------------------------------------------------------

    async def reshape(self, seed: int) -> str:
        """A plan to another tree, made and applied; how it went in words."""
        now, target, plan = (self._directory / f"{what}.json" for what in ("now", "target", "plan"))
        self._write_topology(now, await self._stored_links())
        mutate = ["topology", "mutate", str(now), "--ratio", "0.4", "--seed", str(seed)]
        code, said = await self.pubweave(*mutate, "-o", str(target))
        if not code:
            code, said = await self.pubweave("plan", "make", str(now), str(target), "-o", str(plan))
        if not code:
            code, said = await self.pubweave(
                *("apply", str(plan), "-q", "--zookeeper", self.store_address, "--overlay", NAME)
            )
        return f"exit code {code}: {' '.join(said.split())[-300:]}"

    async def _stored_links(self) -> list[tuple[str, str]]:
        path = Layout(NAME).topology
        async with opened_store(parse_target(self.store_address)) as store:
            answer = await store.ask(Read(path))
        links = decode(answer.data, TopologyDocument, path).links
        return sorted((a, b) for a, b in links)

    async def remap(self, seed: int) -> str:
        """Brokers take other positions on the ring; how it went in words."""
        positions = list(range(len(self.brokers)))
        Random(f"remap {seed}").shuffle(positions)
        mapping = self._directory / "mapping.csv"
        rows = [f"{b},{p}" for b, p in zip(sorted(self.brokers), positions, strict=True)]
        mapping.write_text("\n".join(["broker,position", *rows]) + "\n")
        code, said = await self.pubweave(
            *("remap", str(mapping), "--zookeeper", self.store_address, "--overlay", NAME)
        )
        return f"exit code {code}: {' '.join(said.split())[-300:]}"

    async def pubweave(self, *arguments: str) -> tuple[int, str]:
        """A verb to its end, or to the limit of our patience; what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pubweave", *arguments),
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            async with asyncio.timeout(COMMAND_LIMIT_S):
                said, _ = await process.communicate()
        except TimeoutError:
            return 124, "it took too long"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        return process.returncode or 0, said.decode(errors="replace")
