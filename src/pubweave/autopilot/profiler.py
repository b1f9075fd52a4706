"""Profiles for the autopilot: a Spark session in a process of its own, asked line by line.

Apart from the loop, so that Spark may be slow, run out of memory or be killed without taking the
loop along; kept between profiles, because the second in a session takes half the time. A request
is a line of JSON, and so is its answer; when nobody asks any more (end of input) it ends.

``python -m pubweave.autopilot.profiler LOG MEMORY`` is the process, `Profiler` its owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import msgspec

LIMIT_S = 600.0
"""A profile that takes longer is given up."""
END_S = 10.0
PROGRAM = ("-m", "pubweave.autopilot.profiler")


class ProfilerError(Exception):
    """There is no profile; the message says why."""


class ProfileRequest(msgspec.Struct, frozen=True):
    """Profile a run's directory into another."""

    run: str
    output: str
    now: float


class ProfileReply(msgspec.Struct, frozen=True):
    """``problem`` is empty if the profile is there."""

    problem: str = ""


class Profiler:
    """The process, started with the first profile and again whenever it is gone."""

    def __init__(self, log: Path, memory: str, program: tuple[str, ...] = PROGRAM) -> None:
        self._log = log
        self._memory = memory
        self._program = program
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def profile(self, run: Path, output: Path, now: float) -> None:
        """Profile a run; ProfilerError if there is none, for whatever reason."""
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        request = msgspec.json.encode(ProfileRequest(str(run), str(output), now))
        try:
            async with asyncio.timeout(LIMIT_S):
                process.stdin.write(request + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
        except TimeoutError:
            await self.close()
            raise ProfilerError(f"the Spark job took longer than {LIMIT_S:.0f} s") from None
        except OSError:
            line = b""
        except asyncio.CancelledError:
            await self.close()
            raise
        if not line:
            code = await process.wait()
            self._process = None
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise ProfilerError(f"the Spark job {how}; {self._log} has what it said")
        reply = msgspec.json.decode(line, type=ProfileReply)
        if reply.problem:
            raise ProfilerError(reply.problem)

    async def _running(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *(*self._program, str(self._log), self._memory),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                # Ctrl-C at the terminal is for the loop, which ends this one in its own time.
                start_new_session=True,
            )
        return self._process

    async def close(self) -> None:
        """End the process: by itself if it can, or else by force."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def serve(log: Path, memory: str) -> None:
    """Answer requests on standard input until it ends."""
    from pubweave.pipeline.batch import profile
    from pubweave.pipeline.frames.session import spark_session

    spark = None
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=ProfileRequest)
        problem = ""
        try:
            if spark is None:
                spark = spark_session(quick=True, memory=memory, log=log, name="pubweave autopilot")
            profile(spark, request.run, request.output, now=request.now)
        except Exception as error:  # whatever it is, the next profile may succeed
            traceback.print_exc()  # standard error is the log: a bug shows there where it is
            problem = str(error) or type(error).__name__
        sys.stdout.buffer.write(msgspec.json.encode(ProfileReply(problem[:2000])) + b"\n")
        sys.stdout.buffer.flush()
    if spark is not None:
        spark.stop()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])
