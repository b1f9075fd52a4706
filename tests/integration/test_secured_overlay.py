"""``pubweave up --security``: every verb gets in as the run directory says, others do not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pubweave.cli import main
from pubweave.generate.topologies.trees import hierarchical_tree
from pubweave.model.files.topology import write_topology
from tests.contract.zookeeper_users import needs_zookeeper
from tests.integration.live_overlay import LiveOverlay, start, until

pytestmark = [pytest.mark.sockets, pytest.mark.slow, needs_zookeeper()]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def overlay(directory: Path) -> Iterator[LiveOverlay]:
    topology = hierarchical_tree(5, 3, True, np.random.default_rng(5))
    write_topology(topology, directory / "tree.json")
    made = ["security", "init", str(directory / "secure"), "--topology"]
    assert main.run([*made, str(directory / "tree.json"), "--user", "al"]) == 0
    live = LiveOverlay(directory, topology, security=directory / "secure")
    yield live
    live.close()


def test_plans_status_and_clients_work_as_in_an_open_overlay(overlay: LiveOverlay) -> None:
    plan_file, _, target = overlay.make_plan(seed=1, ratio=0.5)
    done = overlay.run("apply", str(plan_file), "--json")
    assert done.returncode == 0, done.stderr
    until(lambda: overlay.current().links == target.links)
    until(overlay.is_whole)
    listening = start("sub", "*", "-n", "1", "--user", "al", *overlay.options)
    until(lambda: sum(b["subscriptions"] for b in overlay.status()["broker_status"].values()) > 0)
    assert overlay.run("pub", "STOCK", "--payload", "hello").returncode == 0
    output, errors = listening.communicate(timeout=30)
    assert "hello" in output, errors


def test_nothing_is_open_and_the_limits_are_shown(overlay: LiveOverlay) -> None:
    checked = overlay.run("security", "check", "--json")
    assert (checked.returncode, json.loads(checked.stdout)["open"]) == (0, []), checked.stderr
    access = next(iter(overlay.status()["broker_status"].values()))["access"]
    assert access["tls"]
    assert access["limits"]["connections"] == 12_000


def test_who_has_no_certificate_is_told_what_is_missing(
    overlay: LiveOverlay, directory: Path
) -> None:
    address = next(iter(overlay.state.brokers.values())).address
    plain = start("sub", "*", "--address", address, "--duration", "1")
    assert "may want TLS" in plain.communicate(timeout=30)[1]
    wrong = directory / "wrong"
    wrong.write_text("wrong\n")
    secure = str(directory / "secure")
    guess = ("--security", secure, "--user", "al", "--password-file", str(wrong))
    refused = start("sub", "*", "--address", address, *guess)
    assert "wrong user or password" in refused.communicate(timeout=30)[1]


def test_no_secret_is_in_logs_state_or_process_list(overlay: LiveOverlay, directory: Path) -> None:
    secure = directory / "secure"
    secrets = [p.read_text().strip() for p in secure.glob("users/*.password")]
    secrets += [(secure / "zookeeper-auth").read_text().strip().partition(":")[2]]
    assert overlay.login is not None
    secrets.append(overlay.login.partition(":")[2])
    run = directory / "run"
    texts = [p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name != "zookeeper-auth"]
    pids = [known.pid for known in overlay.state.brokers.values()] + [overlay.zookeeper_pid()]
    texts += [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    for secret in secrets:
        assert len(secret) > 20
        assert not any(secret.encode() in text for text in texts)
    for path in (run / "zookeeper").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_a_user_who_is_taken_out_of_the_rules_is_let_go_by_a_reload(
    overlay: LiveOverlay, directory: Path
) -> None:
    listening = start("sub", "*", "--user", "al", *overlay.options)
    until(lambda: sum(b["subscriptions"] for b in overlay.status()["broker_status"].values()) > 0)
    rules = directory / "secure" / "access.toml"
    rules.write_text(rules.read_text().replace('[users."al"]', '[users."other"]'))
    done = overlay.run("security", "reload")
    assert done.returncode == 0, done.stderr
    assert "5 brokers read their security files again" in done.stderr
    until(lambda: sum(b["subscriptions"] for b in overlay.status()["broker_status"].values()) == 0)
    watchdog = threading.Timer(30, listening.kill)
    watchdog.start()
    assert listening.stderr is not None
    assert any("user 'al'" in line for line in listening.stderr)
    watchdog.cancel()
    listening.kill()
    listening.communicate(timeout=30)
