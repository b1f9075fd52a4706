"""A process tree with networks, mounts and process ids of its own: it takes all along at its end.

`enter` starts this program again below ``unshare``. Its end, also by SIGKILL, ends what it has
started (they share its process namespace), unmounts its disks and removes its networks, because
nobody else holds them. So there is nothing to clean up, and nothing that a stale run could leave
but its directory.

Inside, `Network` joins a network namespace for each broker to a bridge, and cuts, drops and slows
what passes. What this kernel or user cannot do is in `Capabilities`, with the reason in words.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

INSIDE = "PUBWEAVE_JEPSEN_INSIDE"
BRIDGE = "soak0"
SUBNET = "10.77.0"
HOST_ADDRESS = f"{SUBNET}.1"
"""Clients, ZooKeeper and the nemesis are there."""
LIMIT_S = 10.0
ADVICE = "apt-get install iproute2 nftables util-linux gcc libc6-dev"


class SetUpError(Exception):
    """A trial cannot begin; the message says what to do."""


@dataclass
class Capabilities:
    """What can be done to brokers here; `missing` says why not."""

    has_namespaces: bool = True
    has_netem: bool = True
    has_tbf: bool = True
    gcc: str | None = None
    missing: list[str] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        return {
            "namespaces": self.has_namespaces,
            "slow links": "netem" if self.has_netem else "tbf" if self.has_tbf else "none",
            "clocks and slow disks": "preloaded" if self.gcc else "none",
            "missing": self.missing,
        }


def run(*command: str, text: str | None = None) -> str:
    """A command to its end; SetUpError says what it said."""
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetUpError(f"{' '.join(command)}: {error}") from None
    if done.returncode:
        raise SetUpError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


# --- going inside -------------------------------------------------------------------------------


def unshare_command() -> list[str] | None:
    """How to get a sandbox here; None if there is no way."""
    if shutil.which("unshare") is None or shutil.which("ip") is None or shutil.which("nft") is None:
        return None
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
    command += ["--kill-child=KILL"]
    if os.geteuid():
        command += ["--user", "--map-root-user"]
    with contextlib.suppress(SetUpError):
        run(*command, "--", "ip", "link", "add", BRIDGE, "type", "bridge")
        return command
    return None


def enter(arguments: Sequence[str], command: Sequence[str]) -> int:
    """This program once more, inside; its exit code. Ctrl-C and SIGTERM are passed on."""
    inside = subprocess.Popen(
        [*command, "--", sys.executable, "-m", "soak.jepsen", *arguments],
        env={**os.environ, INSIDE: "1"},
        preexec_fn=die_with_parent,
    )

    def pass_on(number: int, _: object) -> None:
        for pid in _children(inside.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal has sent it to the inside, too
    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGHUP, pass_on)
    return inside.wait()


def die_with_parent() -> None:
    """For a process that was just forked: whoever ends this program ends it, too."""
    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def find_capabilities() -> Capabilities:
    """Inside: what can be done here."""
    found = Capabilities(has_namespaces=os.environ.get(INSIDE) == "1")
    if not found.has_namespaces:
        found.missing.append(
            "namespaces (unshare, ip and nft, as root or with user namespaces): connections of "
            "clients go through proxies that are cut instead, nothing is dropped or slowed, "
            f"no disk is full; {ADVICE}"
        )
    found.has_netem = found.has_namespaces and _can_shape("netem", "delay", "1ms")
    found.has_tbf = found.has_namespaces and _can_shape(
        "tbf", "rate", "1mbit", "burst", "8k", "latency", "1s"
    )
    if found.has_namespaces and not found.has_netem:
        how = "slow links have a narrow tbf instead" if found.has_tbf else "no link is slow"
        found.missing.append(f"netem (this kernel is without sch_netem): {how}")
    found.gcc = shutil.which("gcc")
    if found.gcc is None:
        found.missing.append(f"gcc: no clock jumps, no disk is slow; {ADVICE}")
    return found


def _can_shape(*how: str) -> bool:
    with contextlib.suppress(SetUpError):
        run("tc", "qdisc", "replace", "dev", "lo", "root", *how)
        run("tc", "qdisc", "del", "dev", "lo", "root")
        return True
    return False


# --- networks -----------------------------------------------------------------------------------


class Network:
    """A namespace for each broker, joined by a bridge; this process is on the bridge, too."""

    def __init__(self, brokers: list[str], capabilities: Capabilities) -> None:
        self._capabilities = capabilities
        self._address = {b: f"{SUBNET}.{place}" for place, b in enumerate(brokers, 11)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._rules: dict[str, dict[int, list[str]]] = {b: {} for b in brokers}
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "address", "add", f"{HOST_ADDRESS}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for place, broker in enumerate(brokers):
            self._join(broker, f"v{place}")

    def address(self, broker: str) -> str:
        return self._address[broker]

    def inside(self, broker: str) -> list[str]:
        """What to put before a command for it to run where the broker is."""
        return ["nsenter", f"--net=/proc/{self._holders[broker].pid}/ns/net", "--"]

    def _join(self, broker: str, name: str) -> None:
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._holders[broker] = holder
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + LIMIT_S
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            if time.monotonic() > deadline:
                raise SetUpError("unshare --net gives no network namespace")
            time.sleep(0.005)
        run(
            "ip",
            "link",
            "add",
            name,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(holder.pid),
        )
        run("ip", "link", "set", name, "master", BRIDGE, "up")
        for command in (
            ("ip", "address", "add", f"{self._address[broker]}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
            ("ip", "link", "set", "lo", "up"),
        ):
            run(*self.inside(broker), *command)

    def drop_from(self, fault: int, broker: str, others: Sequence[str]) -> None:
        """What comes from other brokers does not reach this one."""
        from_all = ", ".join(self._address[other] for other in others)
        self._rule(fault, broker, f"ip saddr {{ {from_all} }}", "input")

    def drop_all_in(self, fault: int, broker: str) -> None:
        self._rule(fault, broker, 'iifname "eth0"', "input")

    def drop_all_out(self, fault: int, broker: str) -> None:
        self._rule(fault, broker, 'oifname "eth0"', "output")

    def drop_some(self, fault: int, broker: str, percent: float) -> None:
        self._rule(fault, broker, f"numgen random mod 1000 < {percent * 10:.0f}", "input")

    def heal(self, fault: int) -> None:
        for broker, rules in self._rules.items():
            if rules.pop(fault, None) is not None:
                self._write(broker)

    def slow(self, broker: str) -> None:
        how = ["netem", "delay", "150ms", "100ms", "loss", "1%"]
        if not self._capabilities.has_netem:
            how = ["tbf", "rate", "96kbit", "burst", "4k", "latency", "2s"]
        run(*self.inside(broker), "tc", "qdisc", "replace", "dev", "eth0", "root", *how)

    def unslow(self, broker: str) -> None:
        with contextlib.suppress(SetUpError):
            run(*self.inside(broker), "tc", "qdisc", "del", "dev", "eth0", "root")

    def _rule(self, fault: int, broker: str, rule: str, chain: str) -> None:
        self._rules[broker].setdefault(fault, []).append(f"add rule inet soak {chain} {rule} drop")
        self._write(broker)

    def _write(self, broker: str) -> None:
        lines = ["flush ruleset", "add table inet soak"]
        for chain in ("input", "output"):
            hook = f"{{ type filter hook {chain} priority 0; policy accept; }}"
            lines.append(f"add chain inet soak {chain} {hook}")
        lines += [rule for rules in self._rules[broker].values() for rule in rules]
        run(*self.inside(broker), "nft", "-f", "-", text="\n".join(lines) + "\n")


# --- disks --------------------------------------------------------------------------------------


class Disk:
    """A small file system in memory that can be filled; it outlives the broker, not the trial."""

    BYTES = 96 << 20

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", f"size={self.BYTES}", "tmpfs", str(path))

    def fill(self) -> None:
        """Nothing is left."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def free(self) -> None:
        (self.path / "filler").unlink(missing_ok=True)
