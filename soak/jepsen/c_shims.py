"""What is preloaded into broker processes: an fsync that sleeps, and a clock that jumps.

Both are ruled by a small file for each broker: seconds of sleep, or seconds of offset.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from soak.jepsen.sandbox import Capabilities, SetUpError

_SLOW_SYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void wait_a_while(void) {
    const char *path = getenv("SOAK_SYNC_DELAY");
    FILE *file = path ? fopen(path, "r") : 0;
    double seconds = 0;
    if (!file) return;
    if (fscanf(file, "%lf", &seconds) == 1 && seconds > 0) {
        struct timespec nap = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
        nanosleep(&nap, 0);
    }
    fclose(file);
}
int fsync(int fd) { wait_a_while(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { wait_a_while(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


class Preloads:
    """The environment of each broker, and the files that rule it."""

    def __init__(self, directory: Path, capabilities: Capabilities) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._faketime = capabilities.faketime
        self._slow_sync: Path | None = None
        if capabilities.gcc is not None:
            self._slow_sync = directory / "slow_sync.so"
            source = directory / "slow_sync.c"
            source.write_text(_SLOW_SYNC)
            command = [capabilities.gcc, "-shared", "-fPIC", "-O1", "-o", str(self._slow_sync)]
            done = subprocess.run(
                [*command, str(source), "-ldl"], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SetUpError(f"gcc cannot build {source}: {done.stderr}")

    def environment(self, broker: str, *, fakes_clock: bool) -> dict[str, str]:
        preloaded, variables = [], {}
        if self._slow_sync is not None:
            preloaded.append(str(self._slow_sync))
            variables["SOAK_SYNC_DELAY"] = str(self._file("sync", broker))
        if fakes_clock and self._faketime is not None:
            preloaded.append(str(self._faketime))
            self.set_clock(broker, 0.0)
            variables["FAKETIME_TIMESTAMP_FILE"] = str(self._file("clock", broker))
            variables["FAKETIME_CACHE_DURATION"] = "1"
            # Timers go by the monotonic clock, which no operator sets.
            variables["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
            variables["DONT_FAKE_MONOTONIC"] = "1"
        return {**variables, "LD_PRELOAD": ":".join(preloaded)} if preloaded else {}

    def set_clock(self, broker: str, offset_s: float) -> None:
        self._write("clock", broker, f"{offset_s:+.3f}s\n")

    def set_sync_delay(self, broker: str, seconds: float) -> None:
        self._write("sync", broker, f"{seconds:.3f}\n")

    def _file(self, what: str, broker: str) -> Path:
        return self._directory / f"{what}-{broker}"

    def _write(self, what: str, broker: str, text: str) -> None:
        scratch = self._directory / f".{what}-{broker}"
        scratch.write_text(text)
        scratch.replace(self._file(what, broker))
