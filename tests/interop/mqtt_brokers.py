"""Broker processes with MQTT doors, and mosquitto beside them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pubweave import connect

START_LIMIT_S = 60.0


@dataclass
class Running:
    """One process that listens for MQTT clients."""

    command: list[str]
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        wait_until_listening(self.process, self.port, self.log)

    def kill(self) -> None:
        """As a power cut does it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10.0)
            except subprocess.TimeoutExpired:
                self.kill()


def ask(broker: Running, subject: str) -> dict[str, Any]:
    """A broker's answer to an operator."""
    address = broker.command[broker.command.index("--listen") + 1]

    async def query() -> bytes:
        async with connect(address) as operator:
            return await operator.query(subject)

    answer: dict[str, Any] = json.loads(asyncio.run(query()))
    return answer


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            ended = process.poll() is not None
            assert not ended, f"it ended at once: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, "it does not listen"
            time.sleep(0.05)


@contextlib.contextmanager
def broker_chain(folder: Path, count: int = 2, *options: str) -> Iterator[list[Running]]:
    """Brokers b1, b2, ... in a chain, each with a door."""
    listening, doors = free_ports(count), free_ports(count)
    brokers = []
    for index in range(count):
        command = [sys.executable, "-m", "pubweave", "broker", "--id", f"b{index + 1}"]
        command += ["--listen", f"127.0.0.1:{listening[index]}"]
        command += ["--mqtt", f"127.0.0.1:{doors[index]}", *options]
        for other in (index - 1, index + 1):
            if 0 <= other < count:
                command += ["--neighbor", f"b{other + 1}=127.0.0.1:{listening[other]}"]
        brokers.append(Running(command, doors[index], folder / f"b{index + 1}.log"))
    with started(brokers):
        yield brokers


@contextlib.contextmanager
def mosquitto(folder: Path, lines: list[str]) -> Iterator[Running]:
    """A mosquitto with such a configuration; the test is skipped where there is none."""
    program = program_or_skip("mosquitto", "mosquitto")
    (port,) = free_ports(1)
    config = folder / f"mosquitto-{port}.conf"
    head = [f"listener {port} 127.0.0.1", "allow_anonymous true", "persistence false"]
    config.write_text("\n".join([*head, *lines]) + "\n")
    broker = Running([program, "-c", str(config)], port, folder / f"mosquitto-{port}.log")
    with started([broker]):
        yield broker


@contextlib.contextmanager
def started(brokers: list[Running]) -> Iterator[None]:
    try:
        for broker in brokers:
            broker.start()
        yield
    finally:
        for broker in brokers:
            broker.stop()


def program_or_skip(name: str, package: str) -> str:
    """Where a program is, or skip the test and say how to get it."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install -y {package}")
    return found
