"""A real ZooKeeper server as a child process, from the jars that PySpark brings along.

Nothing has to be installed but the package and Java. The server listens on loopback only, keeps
its data in a directory of its own and ends with the process that started it, however that ends.
PySpark itself is never imported: that takes seconds, and only its directory matters.

Writes are not forced to the disk one by one: the overlay such a server coordinates lives in the
memory of this very machine, so what a power cut would take is gone anyway. A server that is
killed loses nothing, and is started again with what it had.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Self

from pubweave.runtime.net.addresses import DEFAULT_HOST, Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.reserved_ports import ReservedPorts
from pubweave.runtime.security.directory import DIRECTORY_MODE, PRIVATE_MODE, write_private

log = logging.getLogger(__name__)

JAVA_VERSION_MIN = 17
HEAP_MB = 256
TICK_MS = 1000
"""Session timeouts are between 2 and 20 of these."""
START_LIMIT_S = 30.0
STOP_LIMIT_S = 5.0
RESTART_PAUSE_S = 0.5
LOG_FILE = "zookeeper.log"
STANDALONE_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
# All of Spark's jars would do as well, at twice the memory and a longer start.
_JARS = ("zookeeper-", "slf4j-api-", "log4j-", "netty-", "metrics-core-", "snappy-java-")
# Becomes the server after asking Linux to end it with its parent, which only it itself can do. What
# the server writes is for nobody else.
_BECOME = """
import ctypes, os, signal, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)
if prctl is not None:
    prctl(1, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent was gone before ZooKeeper began")
os.umask(0o077)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ZooKeeperUnavailable(OverlayError):
    """No ZooKeeper can be started here, with the reason and the remedy in words."""


class EmbeddedZooKeeper:
    """One server: ``async with EmbeddedZooKeeper(directory) as server``; clients use `address`."""

    def __init__(
        self, directory: Path, *, on_trouble: Callable[[str], None] = lambda text: None
    ) -> None:
        """``on_trouble`` hears in words when the server died and was started again."""
        self._directory = directory
        self._on_trouble = on_trouble
        self._ports: ReservedPorts | None = None
        self._process: ServerProcess | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def address(self) -> Address:
        assert self._ports is not None, "start() first"
        return self._ports.addresses["zookeeper"]

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:  # a cancellation, too, must not leave a server behind
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, limit_s: float = START_LIMIT_S) -> None:
        """Returns when it answers. ZooKeeperUnavailable, with the end of its log, if it cannot."""
        java, class_path = find_java(), find_jars()
        self._ports = ReservedPorts({"zookeeper": Address(DEFAULT_HOST, 0)})
        settings = common_settings(private_home(self._directory))
        settings += [f"clientPort={self.address.port}", f"clientPortAddress={DEFAULT_HOST}"]
        config = write_config(self._directory / "zoo.cfg", settings)
        command = java_command(java, class_path, STANDALONE_CLASS, config)
        self._process = ServerProcess(command, self.address, self._directory / LOG_FILE)
        await self._process.start()
        await self._process.wait_until_serving(limit_s)
        self._watch = asyncio.create_task(self._start_again(), name="embedded zookeeper")

    async def stop(self) -> None:
        """End the server; its data stay. May be called at any time."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._process is not None:
            await self._process.stop()
        if self._ports is not None:
            self._ports.close()

    async def _start_again(self) -> None:
        assert self._process is not None
        while True:
            exit_code = await self._process.wait()
            self._on_trouble(f"ZooKeeper ended with {exit_code}: starting it again")
            await asyncio.sleep(RESTART_PAUSE_S)
            try:
                await self._process.start()
                await self._process.wait_until_serving(START_LIMIT_S)
            except OverlayError as error:
                self._on_trouble(str(error))


class ServerProcess:
    """One Java process and where it serves."""

    def __init__(self, command: Sequence[str], address: Address, log_file: Path) -> None:
        self.address = address
        self._command = command
        self._log_file = log_file
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        with _private_log(self._log_file) as written:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid())),
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,  # Ctrl-C is for whoever started us
            )

    async def wait_until_serving(self, limit_s: float) -> None:
        """ZooKeeperUnavailable if it ends or stays silent instead."""
        try:
            async with asyncio.timeout(limit_s):
                while not await self._serves():
                    if self.pid is None:
                        raise ZooKeeperUnavailable(f"ZooKeeper did not start{self._last_lines()}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise ZooKeeperUnavailable(
                f"ZooKeeper did not answer within {limit_s:g} s{self._last_lines()}"
            ) from None

    async def wait(self) -> int:
        assert self._process is not None, "start() first"
        return await self._process.wait()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.pid is not None and self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_LIMIT_S):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()

    async def _serves(self) -> bool:
        # "srvr" names a mode only once the server takes requests, which "ruok" does not tell.
        try:
            async with asyncio.timeout(2.0):
                reader, writer = await asyncio.open_connection(*self.address)
                try:
                    writer.write(b"srvr")
                    return b"Mode:" in await reader.read(4096)
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    def _last_lines(self) -> str:
        lines = self._log_file.read_text(errors="replace").splitlines()[-5:]
        return f"; the end of {self._log_file}:" + "".join(f"\n  {line}" for line in lines)


def find_java() -> Path:
    """The Java program; ZooKeeperUnavailable if there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    advice = (
        f"install Java {JAVA_VERSION_MIN} or newer, name an existing ensemble with --zookeeper, "
        "or do without plans: --no-zookeeper"
    )
    if found is None:
        raise ZooKeeperUnavailable(f"ZooKeeper needs Java, and there is none: {advice}")
    version = java_version(Path(found))
    if version is not None and version < JAVA_VERSION_MIN:
        raise ZooKeeperUnavailable(f"{found} is Java {version}: {advice}")
    return Path(found)


def java_version(java: Path) -> int | None:
    """The major version, from the file every Java has beside it; None if it does not tell.

    Asking the program itself would take as long as half the server's start."""
    release = java.resolve().parent.parent / "release"
    with contextlib.suppress(OSError):
        told = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(), re.MULTILINE)
        return None if told is None else int(told.group(1))
    return None


def find_jars() -> str:
    """ZooKeeper's class path among PySpark's jars; ZooKeeperUnavailable without them."""
    spec = importlib.util.find_spec("pyspark")
    places = () if spec is None else spec.submodule_search_locations or ()
    jars = sorted(
        jar
        for place in places
        for jar in (Path(place) / "jars").glob("*.jar")
        if jar.name.startswith(_JARS)
    )
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise ZooKeeperUnavailable(
            "ZooKeeper's jars come with the package pyspark, which is not installed (or is "
            "without jars): install pyspark, or name an existing ensemble with --zookeeper"
        )
    return ":".join(str(jar) for jar in jars)


def java_command(java: Path, class_path: str, main_class: str, config: Path) -> list[str]:
    """What to execute for a server; small and quickly up rather than fast in the long run."""
    return [
        str(java),
        f"-Xmx{HEAP_MB}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.awt.headless=true",
        "-Dorg.apache.logging.log4j.level=WARN",
        "-Dzookeeper.forceSync=no",
        "-Dzookeeper.preAllocSize=1024",
        "-cp",
        class_path,
        main_class,
        str(config),
    ]


def private_home(home: Path) -> Path:
    """A server's directory, for this user only, made if it is not there; where its data go."""
    data = home / "data"
    for directory in (home, data):
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        directory.chmod(DIRECTORY_MODE)
    return data


def _private_log(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_MODE)
    os.fchmod(descriptor, PRIVATE_MODE)
    return os.fdopen(descriptor, "ab")


def common_settings(data: Path) -> list[str]:
    return [
        f"dataDir={data.absolute()}",
        f"tickTime={TICK_MS}",
        "admin.enableServer=false",
        "maxClientCnxns=0",  # the default of 60 is per host, and all brokers are on this one
        "4lw.commands.whitelist=srvr",
    ]


def write_config(path: Path, settings: Sequence[str]) -> Path:
    write_private(path, "".join(f"{line}\n" for line in settings))
    return path.absolute()
