"""Brokers that sleep, stall or die under load, judged from outside: is anything lost unnoticed?

    python -m soak.run_sleepers --strategy tree --fault stop --for 45 --repeat 3
    python -m soak.run_sleepers --durability journal --fault stop --for 120 --at-once 2
    python -m soak.run_sleepers --fault stall --for 20
    python -m soak.run_sleepers --fault kill --times 5 --payload 4000 --rate 200
    python -m soak.run_sleepers --strategy rendezvous --fault freeze-kill --for 10 --json
    python -m soak.run_sleepers --fault none    # for comparison

An overlay is started with ``pubweave up``, clients at all of its brokers are another process. Each
publisher numbers what it publishes and each subscriber writes down what it gets; what is due is
computed from these lists and from what was subscribed before the traffic began, and from nothing
that the overlay says. Beside it stands what brokers have counted and clients were told. A run is

    clean          everything came, once and in order
    counted        what is missing is counted, exactly
    bounded        what is missing is no more than what was counted
    SILENT LOSS    more is missing than anybody says

and DOUBLED, OUT OF ORDER or UNEXPECTED if what came is wrong. Exit code 1 for any of these in
capitals, 2 if a run could not be judged. Only loopback is used; every run ends by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from pubweave.runtime.net.addresses import Address
from soak.cutting_proxy import CuttingProxy
from soak.sleepers_overlay import OverlayProcess, RunFailedError, environment
from soak.sleepers_plan import ClientsPlan, ClientsResult, draw_clients
from soak.sleepers_report import (
    BETWEEN_S,
    SLACK_S,
    SleepersChoice,
    SleepersRun,
    exit_code,
    in_words,
    table,
)
from soak.sleepers_verdict import judge

FAULTS = ("stop", "stall", "kill", "freeze-kill", "none")
STRATEGIES = ("tree", "topic_connected", "rendezvous")
BY_CONTENT = ("tree",)
"""Strategies with filters on more than a topic."""
CLIENTS_START_S = 120.0


class ClientsProcess:
    """`sleepers_clients` behind two pipes; it ends with the first."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def wait_for(self, event: str, limit_s: float) -> dict[str, Any]:
        """RunFailedError if it says something else, or nothing in time."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise RunFailedError(f"the clients did not get to {event!r}") from None
        said = json.loads(line) if line else {"event": "nothing: see clients.log"}
        if said["event"] != event:
            raise RunFailedError(f"the clients said {said['event']}, not {event!r}")
        return dict(said)

    def order(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")


@contextlib.asynccontextmanager
async def clients_process(plan: ClientsPlan, log_file: Path) -> AsyncIterator[ClientsProcess]:
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "soak.sleepers_clients"),
            env=environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        clients = ClientsProcess(process)
        clients.order(msgspec.json.encode(plan))
        yield clients
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10.0):
                    await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


async def run(choice: SleepersChoice, scratch: Path) -> SleepersRun:
    """One run in a directory; what cannot be judged says why."""
    told = SleepersRun(choice)
    overlay = OverlayProcess(
        scratch,
        strategy=choice.strategy,
        durability=choice.durability,
        limit_s=choice.limit_s + SLACK_S,
    )
    began = time.monotonic()
    try:
        async with asyncio.timeout(choice.limit_s), contextlib.AsyncExitStack() as stack:
            await overlay.start(choice.brokers, choice.seed)
            await _play(told, overlay, scratch, stack)
    except (RunFailedError, TimeoutError) as error:
        told.failure = str(error) or "it took too long"
    finally:
        await asyncio.to_thread(overlay.close)  # to its end, even if we are interrupted again
    told.seconds = time.monotonic() - began
    return told


async def _play(
    told: SleepersRun, overlay: OverlayProcess, scratch: Path, stack: contextlib.AsyncExitStack
) -> None:
    """Traffic before, during and after the faults."""
    choice = told.choice
    rng = Random(f"faults {choice.seed}")
    plan = draw_clients(
        overlay.addresses(),
        by_content=choice.strategy in BY_CONTENT,
        homes=choice.homes,
        rate=choice.rate,
        payload_bytes=choice.payload_bytes,
        seed=choice.seed,
        patience_s=choice.patience_s,
        result_file=str((scratch / "clients.json").absolute()),
    )
    proxies: list[CuttingProxy] = []
    if choice.fault == "stall":
        plan = await _through_proxies(plan, rng, proxies, stack, told)
    clients = await stack.enter_async_context(clients_process(plan, scratch / "clients.log"))
    if unheard := (await clients.wait_for("routed", CLIENTS_START_S))["unheard"]:
        raise RunFailedError(f"{unheard} ways from publishers to subscribers do not stand")
    await overlay.count()
    clients.order(b"begin")
    await asyncio.sleep(choice.before_s + rng.random() * 2.0)
    for number in range(choice.times):
        if number:
            await asyncio.sleep(BETWEEN_S * (0.5 + rng.random()))
        overlay.check()
        await _strike(told, overlay, proxies, rng)
    await asyncio.sleep(choice.after_s)
    clients.order(b"end")
    await clients.wait_for("settled", 2 * choice.patience_s + SLACK_S)
    overlay.check()
    told.silent_brokers = await overlay.count()
    told.counters = overlay.counted()
    text = await asyncio.to_thread((scratch / "clients.json").read_bytes)
    told.result = msgspec.json.decode(text, type=ClientsResult)
    told.judgement = await asyncio.to_thread(judge, plan, told.result, told.counters)


async def _through_proxies(
    plan: ClientsPlan,
    rng: Random,
    proxies: list[CuttingProxy],
    stack: contextlib.AsyncExitStack,
    told: SleepersRun,
) -> ClientsPlan:
    """One publisher and one subscriber that reach their brokers through proxies."""
    for clients in ("publishers", "subscribers"):
        all_of_them = list(getattr(plan, clients))
        place = rng.randrange(len(all_of_them))
        first, *others = all_of_them[place].addresses.split(",")
        proxy = await stack.enter_async_context(CuttingProxy(_always(Address.parse(first))))
        proxies.append(proxy)
        addresses = ",".join([str(proxy.address), *others])
        all_of_them[place] = msgspec.structs.replace(all_of_them[place], addresses=addresses)
        told.victims.append(all_of_them[place].name)
        plan = msgspec.structs.replace(plan, **{clients: tuple(all_of_them)})
    return plan


def _always(address: Address) -> Callable[[], Address]:
    return lambda: address


async def _strike(
    told: SleepersRun, overlay: OverlayProcess, proxies: list[CuttingProxy], rng: Random
) -> None:
    """One fault, to its end; "none" only waits, to show what the judge says of peace."""
    choice = told.choice
    if choice.fault == "none":
        await asyncio.sleep(choice.for_s)
        return
    if choice.fault == "stall":
        if not all([proxy.stall() for proxy in proxies]):
            raise RunFailedError("there was no connection to stall")
        await asyncio.sleep(choice.for_s)
        for proxy in proxies:
            proxy.flow()
        return
    victims = rng.sample(sorted(overlay.pids()), choice.at_once)
    told.victims += victims
    if choice.fault != "stop":
        await overlay.count()  # who is killed takes its counters along
    if choice.fault != "kill":
        await _sleep(overlay, victims, choice.for_s)
    if choice.fault == "stop":
        for victim in victims:
            overlay.send(victim, signal.SIGCONT)
        return
    killed = overlay.pids()
    for victim in victims:
        overlay.send(victim, signal.SIGKILL)
    for victim in victims:
        told.back_after_s.append(await overlay.wait_until_back(victim, killed[victim]))


async def _sleep(overlay: OverlayProcess, victims: list[str], for_s: float) -> None:
    for victim in victims:
        overlay.send(victim, signal.SIGSTOP)
    await asyncio.sleep(for_s)
    if awake := [victim for victim in victims if not overlay.is_asleep(victim)]:
        raise RunFailedError(f"{', '.join(awake)} did not sleep")


@contextlib.contextmanager
def scratch_directory(keep: Path | None, seed: int) -> Iterator[Path]:
    """Of one run: it goes with it, unless it is to be kept."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="sleepers-") as scratch:
            yield Path(scratch)
        return
    kept = (keep / f"seed-{seed}").absolute()
    kept.mkdir(parents=True)
    yield kept


async def run_all(
    choice: SleepersChoice, repeat: int, parallel: int, keep: Path | None
) -> list[SleepersRun]:
    """Several runs, with seeds that follow each other; each is printed when it is over."""
    turn = asyncio.Semaphore(parallel)

    async def one(number: int) -> SleepersRun:
        own = replace(choice, seed=choice.seed + number)
        async with turn:
            with scratch_directory(keep, own.seed) as scratch:
                told = await run(own, scratch)
            print(in_words(told), file=sys.stderr, flush=True)
            return told

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(repeat)]
    return [task.result() for task in tasks]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--strategy", choices=STRATEGIES, default="tree")
    parser.add_argument("--durability", choices=("memory", "journal"), default="memory")
    parser.add_argument("--fault", choices=FAULTS, default="stop")
    parser.add_argument("--for", type=float, default=20.0, dest="for_s", metavar="SECONDS")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="so many brokers")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="faults in one run")
    parser.add_argument("--brokers", type=int, default=10)
    parser.add_argument("--homes", type=int, default=1, help="brokers that each client knows")
    parser.add_argument("--rate", type=float, default=100.0, help="publications/s in all")
    parser.add_argument("--payload", type=int, default=100, dest="payload_bytes", metavar="BYTES")
    parser.add_argument("--before", type=float, default=8.0, dest="before_s", metavar="SECONDS")
    parser.add_argument("--after", type=float, default=20.0, dest="after_s", metavar="SECONDS")
    parser.add_argument(
        "--patience", type=float, default=60.0, dest="patience_s", metavar="SECONDS"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1, metavar="K", help="seeds S to S + K - 1")
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="runs at a time")
    parser.add_argument("--keep", type=Path, help="leave logs and lists in this directory")
    parser.add_argument("--json", action="store_true")
    given = vars(parser.parse_args())
    repeat, parallel, keep = (given.pop(name) for name in ("repeat", "parallel", "keep"))
    as_json = given.pop("json")
    choice = SleepersChoice(**given)
    if not 1 <= choice.at_once <= choice.brokers or not 1 <= choice.homes <= choice.brokers:
        parser.error("--at-once and --homes must be from 1 to the number of brokers")

    async def until_stopped() -> list[SleepersRun]:
        task = asyncio.current_task()
        assert task is not None
        # A shell starts what is in the background with SIGINT ignored; nohup means what it says.
        asked = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            asked.append(signal.SIGHUP)
        for number in asked:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await run_all(choice, repeat, parallel, keep)

    try:
        runs = asyncio.run(until_stopped())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    print(json.dumps([told.document() for told in runs]) if as_json else table(runs))
    return exit_code(runs)


if __name__ == "__main__":
    sys.exit(main())
