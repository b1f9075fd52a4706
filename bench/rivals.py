"""Starting and stopping the brokers that are measured: mosquitto, amqtt and pubweave.

Each function starts a chain of broker processes on free loopback ports and gives their ports back;
leaving the context stops them. Rivals get the settings that serve them best in these measurements:
no logging, no persistence, no limit on queued messages.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AMQTT_LOCK = Path(__file__).with_name("requirements-amqtt.lock")
AMQTT_ENVIRONMENT = ROOT / ".venv-bench"


class RivalMissingError(RuntimeError):
    """A rival is not installed; the message says how to get it."""


@dataclass(frozen=True)
class Brokers:
    """The processes of a chain, first to last, and where they listen."""

    dialect: str
    ports: tuple[int, ...]
    pids: tuple[int, ...]


@contextlib.contextmanager
def mosquitto(
    chain: int = 1, *, no_delay: bool = False, more: Sequence[str] = ()
) -> Iterator[Brokers]:
    """A chain of mosquittos, each bridging everything on to the next.

    Without ``no_delay`` (its default, too) the kernel joins its small writes, which gives half as
    much throughput again; with it, a message does not wait for the acknowledgement of another.
    ``more``: further lines of its configuration.
    """
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise RivalMissingError(
            "mosquitto is not installed: apt-get install -y mosquitto (the rest was measured)"
        )
    ports = free_ports(chain)
    with tempfile.TemporaryDirectory(prefix="bench-mosquitto-") as directory:
        commands = []
        for index, port in enumerate(ports):
            config = Path(directory) / f"{index}.conf"
            following = ports[index + 1] if index + 1 < chain else None
            config.write_text(_mosquitto_config(index, port, following, no_delay, more))
            commands.append([program, "-c", str(config)])
        # Last first: a bridge waits some seconds before it dials a second time.
        with _processes(commands[::-1], ports[::-1]) as pids:
            yield Brokers("mqtt", ports, pids)


def _mosquitto_config(
    index: int, port: int, following: int | None, no_delay: bool, more: Sequence[str]
) -> str:
    lines = [
        f"listener {port} 127.0.0.1",
        "allow_anonymous true",
        "persistence false",
        "log_type none",
        f"set_tcp_nodelay {str(no_delay).lower()}",
        "max_queued_messages 0",
        "sys_interval 0",
        *more,
    ]
    if following is not None:
        lines += [
            f"connection bridge{index}",
            f"address 127.0.0.1:{following}",
            "topic # out 0",
            "cleansession true",
            "notifications false",
            "restart_timeout 1",
        ]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def amqtt() -> Iterator[Brokers]:
    """One amqtt broker in its own environment, which is made on first use."""
    python = _amqtt_environment()
    ports = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="bench-amqtt-") as directory:
        config = Path(directory) / "amqtt.yaml"
        config.write_text(
            f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{ports[0]}\n"
            "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n"
            "    allow_anonymous: true\n"
        )
        command = [str(python.with_name("amqtt")), "-c", str(config)]
        with _processes([command], ports) as pids:
            yield Brokers("mqtt", ports, pids)


def _amqtt_environment() -> Path:
    python = AMQTT_ENVIRONMENT / "bin" / "python"
    stamp = AMQTT_ENVIRONMENT / ".ready"
    lock = AMQTT_LOCK.read_text()
    if stamp.exists() and stamp.read_text() == lock:
        return python
    print(f"  installing amqtt into {AMQTT_ENVIRONMENT.name} ...", file=sys.stderr)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", str(AMQTT_ENVIRONMENT)], check=True
        )
        subprocess.run([*install, "--require-hashes", "-r", str(AMQTT_LOCK)], check=True)
    except subprocess.CalledProcessError as error:
        raise RivalMissingError(f"amqtt could not be installed: {error}") from error
    stamp.write_text(lock)
    return python


@contextlib.contextmanager
def pubweave(
    chain: int = 1,
    *,
    telemetry: Path | None = None,
    sample_ratio: float = 1.0,
    journals: Path | None = None,
    relocation: str = "off",
) -> Iterator[Brokers]:
    """A chain of pubweave brokers, one process each; with ``journals`` each has one there.
    ``relocation`` is one of the ways of `bench_relocation_cost`."""
    ports = free_ports(chain)
    commands = []
    for index, port in enumerate(ports):
        command = [sys.executable, "-m", "bench.load_broker"]
        command += ["--id", f"b{index + 1}", "--port", str(port), "--relocation", relocation]
        for other in (index - 1, index + 1):
            if 0 <= other < chain:
                command += ["--neighbor", f"b{other + 1}={ports[other]}"]
        if telemetry is not None:
            command += ["--telemetry", str(telemetry), "--sample", str(sample_ratio)]
        if journals is not None:
            command += ["--journal", str(journals / f"b{index + 1}")]
        commands.append(command)
    with _processes(commands, ports) as pids:
        yield Brokers("pubweave", ports, pids)


@contextlib.contextmanager
def door(*options: str) -> Iterator[Brokers]:
    """One pubweave broker that lets MQTT clients in, as `pubweave broker --mqtt` starts it."""
    native, mqtt = free_ports(2)
    command = [sys.executable, "-m", "pubweave", "broker", "--id", "b1", *options]
    command += ["--listen", f"127.0.0.1:{native}", "--mqtt", f"127.0.0.1:{mqtt}"]
    with _processes([command], (mqtt,)) as pids:
        yield Brokers("mqtt", (mqtt,), pids)


@contextlib.contextmanager
def _processes(commands: list[list[str]], ports: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Run the commands until the context ends; each must listen on its port first."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command, port in zip(commands, ports, strict=True):
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            started.append(process)
            _wait_until_listening(process, port)
        yield tuple(process.pid for process in started)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 20.0
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if process.poll() is not None:
                name = Path(str(process.args[0])).name  # type: ignore[index]
                raise RuntimeError(f"{name} ended with {process.returncode}") from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def free_ports(count: int) -> tuple[int, ...]:
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return tuple(sock.getsockname()[1] for sock in socks)
