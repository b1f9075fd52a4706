"""Public MQTT suites against the door, and against mosquitto in the same run.

    python -m soak.run_mqtt_conformance --mosquitto DIR [--pytest FILE]... [--json FILE]

DIR is the unpacked source of mosquitto (its ``test/broker`` is the suite); FILE a file for pytest
that connects to the port in ``$PORT``, or paho-mqtt's ``tests/test_mqttv5.py``. Neither is in this
repository. Every script runs against both brokers, on a copy of the suite; what fails runs
once more by itself, because many of them count on a machine that is not busy. What is compared,
and what is not: `mqtt_suite_rules`; which settings of mosquitto become which of ours:
`mqtt_suite_settings`. What is changed in scripts, and why one cannot pass: `mqtt_suite_reasons`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import count
from pathlib import Path

from bench import rivals

from soak.mqtt_suite_reasons import EDITS, OUT_OF_SCOPE, REASONS
from soak.mqtt_suite_rules import REAL, STARTED, UNKNOWN_SETTING
from soak.mqtt_suite_settings import SECURE

MOSQUITTO, PUBWEAVE = "mosquitto", "pubweave"
SCRIPT_LIMIT_S = 240.0
_ports = count(21_000)
_INSTALL = "\nfrom soak.mqtt_suite_rules import install\ninstall(globals())\n"
_BROKERS = """import os
class listeners:
    class TCPListeners:
        class server:
            class socket:
                getsockname = staticmethod(lambda: ("127.0.0.1", int(os.environ["PORT"])))
            shutdown = staticmethod(lambda: None)
def run(config): pass
"""
"""Stands for paho.mqtt.testing's broker, where paho's test file looks for it."""


@dataclass
class Outcome:
    """One script or test, at both brokers."""

    name: str
    mosquitto: str
    pubweave: str
    reason: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mosquitto", type=Path, metavar="DIR", help="mosquitto's source")
    parser.add_argument("--pytest", type=Path, metavar="FILE", action="append", default=[])
    parser.add_argument("--only", metavar="PATTERN", default="*", help="such scripts, 02-*")
    parser.add_argument("--jobs", type=int, default=4, help="scripts at the same time")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        parser.error("mosquitto is not installed: apt-get install -y mosquitto")
    outcomes: dict[str, list[Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="mqtt-conformance-") as scratch:
        Path(scratch).chmod(0o755)
        if options.mosquitto is not None:
            suite = Suite(options.mosquitto, Path(scratch), program)
            outcomes["mosquitto's test/broker"] = suite.run(options.only, options.jobs)
        for file in options.pytest:
            outcomes[file.name] = run_pytest(file.absolute(), Path(scratch))
    for title, found in outcomes.items():
        print_outcomes(title, found)
    if options.json is not None:
        document = {title: [asdict(o) for o in found] for title, found in outcomes.items()}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    sys.exit(any(is_unexplained(o) for found in outcomes.values() for o in found))


# --- mosquitto's scripts -------------------------------------------------------------------


class Suite:
    """Mosquitto's scripts, one copy for each broker."""

    def __init__(self, source: Path, scratch: Path, program: str) -> None:
        self._program = program
        self._secure = scratch / "secure"
        _secure(self._secure)
        self._folders = {broker: scratch / broker for broker in (MOSQUITTO, PUBWEAVE)}
        for folder in self._folders.values():
            shutil.copytree(source / "test", folder / "test")
            # Started by root, mosquitto becomes another user before it writes what persists.
            (folder / "test" / "broker").chmod(0o777)
            (folder / "src").mkdir()
            (folder / "src" / "mosquitto").symlink_to(program)
            (folder / "client").mkdir()
            for name in ("mosquitto_pub", "mosquitto_sub"):
                (folder / "client" / name).symlink_to(shutil.which(name) or "missing")
        ours = self._folders[PUBWEAVE] / "test"
        with (ours / "mosq_test.py").open("a") as module:
            module.write(_INSTALL)
        for name, (pattern, replacement) in EDITS:
            for script in (ours / "broker").glob(name):
                text = script.read_text()
                script.write_text(re.sub(pattern, replacement, text, flags=re.S))

    def scripts(self, only: str) -> list[tuple[int, str]]:
        """How many ports each needs, and its name."""
        listed = (self._folders[MOSQUITTO] / "test" / "broker" / "test.py").read_text()
        found = re.findall(r"^\s*\((\d), '\./([^']*)'\)", listed, flags=re.M)
        return [
            (int(ports), name)
            for ports, name in found
            if not any(fnmatch(name, out) for out in OUT_OF_SCOPE) and fnmatch(name, only)
        ]

    def run(self, only: str, jobs: int) -> list[Outcome]:
        cases = [(n, script, b) for n, script in self.scripts(only) for b in self._folders]
        with ThreadPoolExecutor(jobs) as pool:
            first = list(pool.map(lambda case: self._once(*case), cases))
        results = {case[1:]: result for case, result in zip(cases, first, strict=True)}
        for ports, script, broker in cases:
            if results[script, broker] == "failed":
                results[script, broker] = self._once(ports, script, broker)
        return [
            Outcome(s, results[s, MOSQUITTO], results[s, PUBWEAVE], REASONS.get(s, ""))
            for _, s in self.scripts(only)
        ]

    def _once(self, ports: int, script: str, broker: str) -> str:
        folder = self._folders[broker]
        started = folder / f"{script}.started"
        numbers = [str(next(_ports)) for _ in range(ports)]
        environment = {
            **os.environ,
            REAL: self._program,
            STARTED: str(started),
            SECURE: str(self._secure),
            "PYTHONPATH": f"{rivals.ROOT}:{rivals.ROOT / 'src'}",
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        }
        process = subprocess.Popen(
            [sys.executable, script, *numbers],
            cwd=folder / "test" / "broker",
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(SCRIPT_LIMIT_S)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            _end(process)
        result = {0: "passed", UNKNOWN_SETTING: "setting"}.get(code, "failed")
        if broker == PUBWEAVE and result == "passed" and not started.exists():
            result = "not ours"
        print(f"  {result:<9}{broker:<11}{script}", file=sys.stderr)
        return result


def _secure(directory: Path) -> None:
    """Certificates for scripts that want passwords or rights."""
    topology = directory.with_suffix(".json")
    topology.write_text('{"nodes": [{"id": "b1"}], "links": []}')
    command = [sys.executable, "-m", "pubweave", "security", "init", str(directory)]
    done = subprocess.run([*command, "--topology", str(topology)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"no certificates: {done.stderr}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """A script that fails may leave brokers behind; its session is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# --- files of pytest -----------------------------------------------------------------------


def run_pytest(file: Path, scratch: Path) -> list[Outcome]:
    found: dict[str, dict[str, str]] = {}
    stand_in = scratch / "paho.mqtt.testing" / "interoperability" / "mqtt" / "brokers"
    stand_in.mkdir(parents=True, exist_ok=True)
    (stand_in / "__init__.py").write_text(_BROKERS)
    for broker, start in ((MOSQUITTO, rivals.mosquitto), (PUBWEAVE, rivals.door)):
        with start() as running:
            environment = {**os.environ, "PORT": str(running.ports[0])}
            command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"]
            command += ["--rootdir", str(file.parent), "-c", os.devnull, str(file)]
            done = subprocess.run(
                command, cwd=scratch, env=environment, capture_output=True, text=True
            )
        words = {"PASSED": "passed", "FAILED": "failed", "SKIPPED": "setting", "ERROR": "failed"}
        for word, name in re.findall(r"^(\w+) \S*?::(?:\w+::)?(\w+)", done.stdout, flags=re.M):
            found.setdefault(name, {})[broker] = words.get(word, word)
        print(f"  {broker}: {done.stdout.strip().splitlines()[-1:]}", file=sys.stderr)
    return [
        Outcome(name, by.get(MOSQUITTO, "-"), by.get(PUBWEAVE, "-"), REASONS.get(name, ""))
        for name, by in found.items()
    ]


# --- the table -----------------------------------------------------------------------------


def is_unexplained(outcome: Outcome) -> bool:
    """Whether mosquitto passes, the door does not, and nobody has said why."""
    return outcome.mosquitto == "passed" and outcome.pubweave == "failed" and not outcome.reason


def print_outcomes(title: str, outcomes: list[Outcome]) -> None:
    ours = [o for o in outcomes if o.pubweave != "not ours"]
    passed = {b: sum(getattr(o, b) == "passed" for o in ours) for b in (MOSQUITTO, PUBWEAVE)}
    print(f"\n{title}: {len(ours)} where the broker is what is tested "
          f"(of {len(outcomes)}); passed: mosquitto {passed[MOSQUITTO]}, "
          f"pubweave {passed[PUBWEAVE]}")  # fmt: skip
    for outcome in ours:
        if (outcome.mosquitto, outcome.pubweave) != ("passed", "passed"):
            why = outcome.reason or ("NOT EXPLAINED" if is_unexplained(outcome) else "")
            print(f"  {outcome.name:<48}{outcome.mosquitto:<9}{outcome.pubweave:<9}{why}")


if __name__ == "__main__":
    main()
