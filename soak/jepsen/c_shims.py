"""What is preloaded into broker processes: an fsync that sleeps, and a wall clock that jumps.

A small shared library, built by gcc when a trial begins. Two files of eight bytes for each broker
rule it: seconds of sleep, seconds of offset. libfaketime would do for the clock, but its 0.9.10
also breaks ``clock_nanosleep`` with an absolute time, which is what ``time.sleep`` of Python calls:
threads of brokers died of that. Here the monotonic clock and sleeps are left alone.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from soak.jepsen.sandbox import Capabilities, SetUpError

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile double none, *offset = &none, *delay = &none;

static volatile double *ruled_by(const char *variable) {
    const char *path = getenv(variable);
    int fd = path ? open(path, O_RDONLY) : -1;
    void *found = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    return found == MAP_FAILED ? &none : found;
}
__attribute__((constructor)) static void begin(void) {
    offset = ruled_by("SOAK_CLOCK_OFFSET");
    delay = ruled_by("SOAK_SYNC_DELAY");
}
#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void shift(struct timespec *at) {
    double seconds = floor(*offset);
    at->tv_sec += (time_t)seconds;
    at->tv_nsec += (long)((*offset - seconds) * 1e9);
    if (at->tv_nsec >= 1000000000L) { at->tv_nsec -= 1000000000L; at->tv_sec++; }
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int code = real(clock, at);
    if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(at);
    return code;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) { at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000; }
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
static void wait_a_while(void) {
    double seconds = *delay;
    struct timespec nap = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    if (seconds > 0) nanosleep(&nap, 0);
}
int fsync(int fd) {
    REAL(int, "fsync", int);
    wait_a_while();
    return real(fd);
}
int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    wait_a_while();
    return real(fd);
}
"""


class Preloads:
    """The environment of each broker, and the files that rule it."""

    def __init__(self, directory: Path, capabilities: Capabilities) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._library: Path | None = None
        if capabilities.gcc is not None:
            self._library = directory / "soak.so"
            source = directory / "soak.c"
            source.write_text(_SOURCE)
            command = [capabilities.gcc, "-shared", "-fPIC", "-O1", "-o", str(self._library)]
            done = subprocess.run(
                [*command, str(source), "-ldl", "-lm"], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SetUpError(f"gcc cannot build {source}: {done.stderr}")

    def environment(self, broker: str) -> dict[str, str]:
        if self._library is None:
            return {}
        self.set_clock(broker, 0.0)
        self.set_sync_delay(broker, 0.0)
        return {
            "LD_PRELOAD": str(self._library),
            "SOAK_CLOCK_OFFSET": str(self._file("clock", broker)),
            "SOAK_SYNC_DELAY": str(self._file("sync", broker)),
        }

    def set_clock(self, broker: str, offset_s: float) -> None:
        self._write("clock", broker, offset_s)

    def set_sync_delay(self, broker: str, seconds: float) -> None:
        self._write("sync", broker, seconds)

    def _file(self, what: str, broker: str) -> Path:
        return self._directory / f"{what}-{broker}"

    def _write(self, what: str, broker: str, value: float) -> None:
        """In place: brokers have mapped it."""
        path = self._file(what, broker)
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.write(struct.pack("d", value))
