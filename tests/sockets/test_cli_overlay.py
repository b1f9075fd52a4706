"""The command line against real overlays: every verb in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pubweave.model.files.topology import write_topology
from pubweave.model.topology import Topology

pytestmark = pytest.mark.sockets

COMMAND = [sys.executable, "-c", "from pubweave.cli.main import main; main()"]
LIMIT_S = 20.0


class Started:
    """A running ``pubweave``, read line by line."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        document = json.loads(self.process.stdout.readline())
        assert isinstance(document, dict)
        return document

    def line_with(self, event: str) -> dict[str, Any]:
        while (document := self.line()).get("event") != event:
            pass
        return document

    def error_line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def end(self, how: signal.Signals | None = None) -> tuple[int, list[str], str]:
        """Its exit code, the rest of its output and of its errors."""
        if how is not None:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out.splitlines(), err


@contextlib.contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[Started]:
    started = Started(*arguments, cwd=cwd)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.terminate()
            started.process.communicate(timeout=LIMIT_S)


def pubweave(
    *arguments: str, cwd: Path, given: str = "", limit_s: float = LIMIT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        input=given,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def status(cwd: Path, *arguments: str) -> dict[str, Any]:
    document = json.loads(pubweave("status", "--json", *arguments, cwd=cwd).stdout)
    assert isinstance(document, dict)
    return document


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tree = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b2", "b4"), ("b4", "b5")])
    write_topology(tree, tmp_path / "tree.json")
    return tmp_path


@pytest.fixture
def overlay(folder: Path) -> Iterator[tuple[Path, Started]]:
    """An overlay of five processes in ``folder``, already up."""
    with running("up", "tree.json", "--port", "0", "--json", cwd=folder) as up:
        started = up.line()
        assert (started["event"], started["strategy"]) == ("started", "tree")
        yield folder, up


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_what_is_published_with_pub_is_printed_by_sub(overlay: tuple[Path, Started]) -> None:
    folder, _ = overlay
    wanted = "class = 'STOCK' and volume > 1000"
    with running("sub", wanted, "--broker", "b5", "--count", "3", "--json", cwd=folder) as sub:
        assert sub.error_line() == f"subscribed at b5 to {wanted}\n"
        options = ["-a", "volume=2000", "-a", "symbol='7'", "-a", "late=true", "-p", "hello"]
        done = pubweave("pub", "STOCK", *options, "-n", "2", "--json", cwd=folder)
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert (summary["published"], summary["broker"]) == (2, "b1")
        lines = '{"attributes": {"volume": 1}}\n\n{"attributes": {"volume": 1001.5}}\n'
        done = pubweave("pub", "STOCK", "--stdin", "--broker", "b3", cwd=folder, given=lines)
        assert done.returncode == 0, done.stderr
        assert "published 2 at b3" in done.stderr
        code, out, _ = sub.end()
    assert code == 0
    first, second, third = (json.loads(line) for line in out)
    assert first["attributes"] == {"volume": 2000, "symbol": "7", "late": True}
    assert (first["topic"], first["payload"]) == ("STOCK", "hello")
    assert 0 < first["latency_ms"] < 5000
    assert second["sequence"] == first["sequence"] + 1
    assert third["attributes"] == {"volume": 1001.5}


def test_status_tells_of_brokers_links_and_what_was_counted(overlay: tuple[Path, Started]) -> None:
    folder, up = overlay
    pubweave("pub", "T", "--count", "50", "--broker", "b4", cwd=folder)
    document = status(folder)
    assert (document["brokers_up"], document["links_up"], document["down"]) == (5, 4, [])
    assert (document["overlay"], document["strategy"]) == ("tree", "tree")
    assert document["totals"]["publications_accepted"] == 50
    b4 = document["broker_status"]["b4"]
    assert (b4["state"], b4["clients"]) == ("up", 0)
    assert is_alive(b4["pid"])
    assert {link["state"] for link in document["link_status"]} == {"up"}
    single = status(folder, "--address", b4["address"])
    assert list(single["broker_status"]) == ["b4"]
    assert (single["overlay"], single["strategy"]) == ("b4", "tree")
    assert [s["remote"] for s in single["broker_status"]["b4"]["neighbors"]] == ["b2", "b5"]
    shown = pubweave("status", cwd=folder)
    assert shown.returncode == 0
    assert "b2-b4" in shown.stdout
    assert "overlay tree (strategy tree): brokers 5/5, links 4/4" in shown.stdout
    shown = pubweave("status", "--address", b4["address"], cwd=folder)
    assert "broker b4 (strategy tree): brokers 1/1" in shown.stdout
    assert up.line_with("pulse")["brokers_up"] == 5


def test_a_killed_broker_is_reported_and_comes_back(overlay: tuple[Path, Started]) -> None:
    folder, up = overlay
    with running("sub", "class = 'T'", "--broker", "b5", "-n", "1", cwd=folder) as sub:
        sub.error_line()
        pid = status(folder)["broker_status"]["b2"]["pid"]
        os.kill(pid, signal.SIGKILL)
        died = up.line_with("broker_died")
        assert (died["broker"], died["pid"], died["exit_code"]) == ("b2", pid, -9)
        restarted = up.line_with("broker_restarted")
        assert status(folder)["broker_status"]["b2"]["pid"] == restarted["pid"] != pid
        wait_for_links(folder, 4)
        assert pubweave("pub", "T", "--broker", "b1", cwd=folder).returncode == 0
        code, out, _ = sub.end()
        assert code == 0
        assert out[0].startswith("T  ")


def wait_for_links(folder: Path, count: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while status(folder)["links_up"] < count:
        assert time.monotonic() < deadline, "the links did not come back"
        time.sleep(0.1)


def test_a_second_up_in_the_same_run_directory_is_refused(overlay: tuple[Path, Started]) -> None:
    folder, up = overlay
    done = pubweave("up", "tree.json", "--port", "0", cwd=folder)
    assert done.returncode == 2
    assert f"an overlay is running in runs/current (process {up.process.pid})" in done.stderr
    assert done.stderr.count("\n") == 1
    assert status(folder)["brokers_up"] == 5


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_stops_everything_and_the_last_line_sums_up(
    overlay: tuple[Path, Started], how: signal.Signals, code: int
) -> None:
    folder, up = overlay
    brokers = status(folder)["broker_status"]
    pubweave("pub", "T", "--count", "7", cwd=folder)
    ended, out, err = up.end(how)
    assert (ended, err) == (code, "")
    last = json.loads(out[-1])
    assert last["event"] == "stopped"
    assert last["totals"]["publications_accepted"] == 7
    assert not [b for b, known in brokers.items() if is_alive(known["pid"])]
    gone = pubweave("status", cwd=folder)
    assert gone.returncode == 2
    assert "was stopped" in gone.stderr


def test_brokers_end_when_up_is_killed(overlay: tuple[Path, Started]) -> None:
    folder, up = overlay
    pids = [known["pid"] for known in status(folder)["broker_status"].values()]
    up.process.kill()
    up.process.communicate()
    deadline = time.monotonic() + LIMIT_S
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "brokers outlive their overlay"
        time.sleep(0.05)
    down = pubweave("status", "--json", cwd=folder)
    assert down.returncode == 1
    assert json.loads(down.stdout)["down"] == ["b1", "b2", "b3", "b4", "b5"]


def test_an_overlay_in_one_process_ends_by_itself_after_its_duration(folder: Path) -> None:
    options = [
        "--set",
        "overlay.in_process=true",
        "--port",
        "0",
        "--no-telemetry",
        "--duration",
        "0.5",
    ]
    options += ["--strategy", "tree_covering"]
    done = pubweave("up", "tree.json", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    told = "overlay tree (strategy tree_covering): 5 brokers and 4 links are up"
    assert done.stderr.startswith(told)
    assert "brokers 5/5  links 4/4" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("stopped tree: 0 publications")
    assert not (folder / "runs/current/telemetry").exists()


def test_a_topology_that_is_no_tree_is_one_message_and_code_2(folder: Path) -> None:
    ring = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b1", "b3")])
    write_topology(ring, folder / "ring.json")
    done = pubweave("up", "ring.json", cwd=folder)
    assert done.returncode == 2
    told = "ring.json: not a tree: b3-b1 closes a cycle; remove one link of b1-b2-b3"
    assert done.stderr == f"Error: {told}\n"


def test_single_brokers_make_an_overlay_too(folder: Path) -> None:
    with running(
        "broker",
        "--id",
        "b2",
        "--listen",
        "127.0.0.1:0",
        "--neighbor",
        "b1=1",
        "--json",
        cwd=folder,
    ) as second:
        address = second.line_with("listening")["address"]
        (folder / "b1.toml").write_text(
            f"[broker]\nid = 'b1'\nlisten = '127.0.0.1:0'\nneighbors = {{ b2 = '{address}' }}\n"
        )
        with running("broker", "--config", "b1.toml", "--json", cwd=folder) as first:
            first.line_with("listening")
            options = ["--address", address, "-n", "1", "--json"]
            with running("sub", "*", *options, cwd=folder) as sub:
                assert sub.error_line() == "subscribed at b2 to *\n"
                done = pubweave("pub", "T", "--address", address, cwd=folder)
                assert "published 1 at b2" in done.stderr
                assert json.loads(sub.end()[1][0])["topic"] == "T"
            code, out, _ = first.end(signal.SIGTERM)
            assert code == 0
            assert json.loads(out[-1])["event"] == "stopped"


def test_listening_beyond_this_machine_is_warned_of(folder: Path) -> None:
    with running("broker", "--id", "b1", "--listen", "0.0.0.0:0", cwd=folder) as broker:
        assert "no authentication" in broker.error_line()


def test_a_broker_nobody_answers_for_is_one_message_and_code_2(folder: Path) -> None:
    done = pubweave("status", "--address", "127.0.0.1:1", cwd=folder)
    assert done.returncode == 2
    told = "cannot connect: 127.0.0.1:1: Connection refused; is a broker running there?"
    assert done.stderr == f"Error: {told}\n"


def test_sub_that_ends_before_its_count_says_so_by_its_exit_code(
    overlay: tuple[Path, Started],
) -> None:
    folder, _ = overlay
    options = ["--count", "1", "--duration", "0.2"]
    assert pubweave("sub", "*", *options, cwd=folder).returncode == 1
    stats = pubweave("sub", "*", "--stats", "--duration", "1.3", "--json", cwd=folder)
    assert stats.returncode == 0
    assert json.loads(stats.stdout.splitlines()[0]) == {"received": 0, "rate_per_s": 0.0}


def test_what_cannot_be_published_is_one_message_and_code_2(overlay: tuple[Path, Started]) -> None:
    folder, _ = overlay
    done = pubweave("pub", "STOCK", "--advertise", "class = 'NEWS'", cwd=folder)
    told = "--advertise does not match the publication on 'STOCK': widen it or leave it out"
    assert (done.returncode, done.stderr) == (2, f"Error: {told}\n")
    line = '{"topic": 5}\n'
    done = pubweave("pub", "--stdin", "--advertise", "*", cwd=folder, given=line)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: standard input, line 1: Expected `str | null`, got `int`")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_improves_its_overlay_and_loses_nothing(folder: Path) -> None:
    """The whole loop: brokers, Spark, design, plan, ZooKeeper, and the traffic all the time."""
    done = pubweave("demo", "--json", cwd=folder, limit_s=540)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    verdict = summary["deliveries"]
    assert verdict["delivered"] == verdict["expected"] > 10_000
    troubles = ("lost", "duplicated", "unexpected", "out_of_order")
    assert [verdict[name] for name in troubles] == [0] * 4
    by_name = {row["name"]: row for row in summary["figures"]}
    for name in ("cost_ms", "latency_ms_mean"):
        assert by_name[name]["change"] <= -0.25
        assert abs(by_name[name]["prediction_error"]) <= 0.2
    assert (folder / summary["report"]).read_text().startswith("<!doctype html>")
