"""Publisher and subscriber processes that use pubweave's own client library at both ends.

The same tasks, feedback and reports as the raw load generators; what differs is that every message
is a Python call on one side and a turn of an ``async for`` on the other.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time

import msgspec
import uvloop

import pubweave
from bench.load_frames import NUMBER, TOPIC, payload
from bench.load_processors import machine_busy_s, processes_cpu_s
from bench.load_task import DONE, FEEDBACK, WARM, LoadReport, LoadTask, read_task


async def publish(task: LoadTask) -> LoadReport:
    feedback = socket.socket(fileno=task.feedback_fd)
    feedback.setblocking(False)
    payloads = [payload(number) for number in range(task.warm_count + task.count)]
    async with pubweave.connect(f"127.0.0.1:{task.port}", client_id=task.client) as client:
        await client.advertise(f"class = '{TOPIC}'")
        for content in payloads[: task.warm_count]:
            await client.publish(TOPIC, payload=content)
        await _until(feedback, WARM)
        started_at, cpu_s = time.monotonic(), time.process_time()
        for content in payloads[task.warm_count :]:
            await client.publish(TOPIC, payload=content)
        await client.flush()
        report = LoadReport(started_at, time.monotonic(), time.process_time() - cpu_s)
        await _until(feedback, DONE)
    return report


async def subscribe(task: LoadTask) -> LoadReport:
    feedback = socket.socket(fileno=task.feedback_fd)
    async with pubweave.connect(f"127.0.0.1:{task.port}", client_id=task.client) as client:
        subscription = await client.subscribe(f"class = '{TOPIC}'")
        print("ready", flush=True)
        total = task.warm_count + task.count
        count = disordered = 0
        last = -1
        started_at, before = time.monotonic(), _used(task)
        async for notification in subscription:
            (number,) = NUMBER.unpack_from(notification.payload)
            disordered += number <= last
            last = number
            count += 1
            if count == task.warm_count:
                feedback.sendall(FEEDBACK.pack(WARM))
                started_at, before = time.monotonic(), _used(task)
            if count == total:
                break
        finished_at, used = time.monotonic(), _used(task)
        feedback.sendall(FEEDBACK.pack(DONE))
    cpu_s, broker_cpu_s, busy_s = (after - first for after, first in zip(used, before, strict=True))
    return LoadReport(
        started_at=started_at,
        finished_at=finished_at,
        cpu_s=cpu_s,
        received=[count - task.warm_count],
        disordered=disordered,
        broker_cpu_s=broker_cpu_s,
        machine_busy_s=busy_s,
    )


async def _until(feedback: socket.socket, awaited: int) -> None:
    loop = asyncio.get_running_loop()
    while awaited not in FEEDBACK.unpack(await loop.sock_recv(feedback, FEEDBACK.size)):
        pass


def _used(task: LoadTask) -> tuple[float, float, float]:
    return time.process_time(), processes_cpu_s(task.broker_pids), machine_busy_s()


async def _within_limit(task: LoadTask, role: str) -> LoadReport:
    async with asyncio.timeout(task.limit_s):
        return await (publish(task) if role == "publisher" else subscribe(task))


def main() -> None:
    task = read_task(sys.argv[1])
    print(msgspec.json.encode(uvloop.run(_within_limit(task, sys.argv[2]))).decode(), flush=True)


if __name__ == "__main__":
    main()
