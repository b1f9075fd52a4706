"""``pubweave security``: what init makes is whole, and check finds what is open."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from pubweave.cli import main
from pubweave.runtime.net.tls import client_context, server_context
from pubweave.runtime.overlay.run_directory import (
    BrokerState,
    OverlayCondition,
    OverlayState,
    RunDirectory,
)
from pubweave.runtime.security.certificates import revoked_serials, serial_of_file
from pubweave.runtime.security.directory import SecurityDirectory


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("security") / "secure"
    assert main.run(["security", "init", str(path), "--broker", "b/1", "--user", "al"]) == 0
    return path


@pytest.fixture
def secure(made: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(made, tmp_path / "secure"))


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = main.run(["security", "check", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)["open"]


def test_what_init_makes_can_be_used_and_nothing_is_open(
    secure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = SecurityDirectory(secure)
    server_context(directory.broker_security("b/1").tls)
    client_context(directory.user_files("al"))
    login = directory.store_login()
    assert login is not None
    assert login.startswith("pubweave:")
    assert check(capsys, str(secure)) == (0, [])


def test_init_never_overwrites_an_authority(
    secure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (secure / "ca.key").read_bytes()
    assert main.run(["security", "init", str(secure), "--broker", "b1"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (secure / "ca.key").read_bytes() == before


def test_an_init_that_fails_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = tmp_path / "secure"
    wanted.mkdir()
    assert main.run(["security", "init", str(wanted), "--broker", "b1", "--user", "a b"]) == 2
    assert "'a b' cannot be a user" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["secure"]
    assert main.run(["security", "init", str(wanted), "--broker", "b1"]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["secure"]


def test_add_certifies_more_and_refuses_what_exists(
    secure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["security", "add", str(secure), "--broker", "b2", "--user", "bob"]) == 0
    assert check(capsys, str(secure))[1] == [
        f"{secure}/passwords: user bob has a password and no rules: remove the line"
    ]
    assert main.run(["security", "add", str(secure), "--broker", "b2"]) == 2
    assert "remove it and its key first" in capsys.readouterr().err
    assert main.run(["security", "add", str(secure), "--user", "../x"]) == 2
    assert "cannot be a user" in capsys.readouterr().err


def test_check_names_what_is_open_with_its_remedy(
    secure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (secure / "passwords").chmod(0o644)
    (secure / "users" / "al.key").chmod(0o640)
    rules = (secure / "access.toml").read_text()
    (secure / "access.toml").write_text(
        rules.replace("anonymous = false", "anonymous = true") + "\n[users.anonymous]\n"
    )
    short = ["security", "add", str(secure), "--broker", "soon", "--days", "3"]
    assert main.run(short) == 0
    code, found = check(capsys, str(secure))
    assert code == 1
    for part in ("passwords can be read", "al.key can be read", "anonymous", "soon.crt expires on"):
        assert any(part in finding for finding in found), part
    assert len(found) == 4


ALL = 'publish = ["*"]\nsubscribe = ["*"]\n'


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (f"[users.op]\n{ALL}operate = true\n[users.al]\n{ALL}", ["op"]),
        (f"[users.op]\noperate = true\n[users.al]\n{ALL}", []),
        (f"[users.op]\noperate = true\n[users.al]\n[users.'*']\n{ALL}", ["op"]),
        (f"[users.b]\n{ALL}operate = true\n[users.a]\n{ALL}operate = true\n", ["a", "b"]),
        ('[users.op]\npublish = ["*"]\nsubscribe = ["class = \'x\'"]\noperate = true\n', []),
        (f"anonymous = true\n[users.anonymous]\n{ALL}operate = true\n", ["anonymous"]),
    ],
)
def test_check_names_who_may_do_everything(
    secure: Path, capsys: pytest.CaptureFixture[str], rules: str, named: list[str]
) -> None:
    (secure / "access.toml").write_text(rules)
    (secure / "passwords").unlink()
    capsys.readouterr()
    main.run(["security", "check", str(secure), "--json"])
    assert json.loads(capsys.readouterr().out)["may_do_everything"] == named
    code = main.run(["security", "check", str(secure)])
    told = capsys.readouterr().out
    assert told.count("may do everything") == len(named)
    for user in named:
        assert f"note: user {user} may do everything: operate" in told
    assert code == ("anonymous" in named)  # a note is no finding


def test_a_running_overlay_tells_who_may_do_everything(
    secure: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory(tmp_path / "run")
    brokers = {"b1": BrokerState("127.0.0.1:7001", 1)}
    directory.write(
        OverlayState(
            "o", OverlayCondition.RUNNING, 1, 0.0, "tree", brokers, [], security=str(secure)
        )
    )
    directory.release()
    capsys.readouterr()
    main.run(["security", "check", "--run-dir", str(tmp_path / "run"), "--json"])
    assert json.loads(capsys.readouterr().out)["may_do_everything"] == ["operator"]


def test_a_wrong_limit_and_a_missing_file_are_named(
    secure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (secure / "access.toml").open("a") as rules:
        rules.write("connectoins = 3\n")
    assert "unknown limit 'connectoins'" in check(capsys, str(secure))[1][0]
    (secure / "access.toml").unlink()
    assert "No such file" in check(capsys, str(secure))[1][0]
    assert main.run(["security", "check", str(secure / "nothing")]) == 2


def test_an_open_overlay_is_said_to_be_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory(tmp_path)
    brokers = {"b1": BrokerState("10.0.0.1:7000", 1), "b2": BrokerState("127.0.0.1:7001", 1)}
    directory.write(
        OverlayState(
            "o", OverlayCondition.RUNNING, 1, 0.0, "tree", brokers, [], zookeeper="zk:2181"
        )
    )
    directory.release()
    code, found = check(capsys, "--run-dir", str(tmp_path))
    assert code == 1
    assert len(found) == 3
    assert "broker b1 at 10.0.0.1:7000 can be reached" in found[0]
    assert "without a login" in found[2]


def test_up_and_broker_say_which_certificate_is_missing(
    secure: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "tree.json"
    assert main.run(["topology", "generate", "chain", "-n", "2", "-o", str(tree)]) == 0
    assert main.run(["up", str(tree), "--security", str(secure), "--port", "0"]) == 2
    assert "pubweave security add" in capsys.readouterr().err
    alone = ["broker", "--id", "b9", "--listen", "127.0.0.1:0"]
    alone += ["--set", f"broker.security.ca={secure / 'ca.crt'}"]
    assert main.run(alone) == 2
    assert "broker.security: a broker needs all of ca, cert and key" in capsys.readouterr().err


def test_secrets_are_no_options() -> None:
    """What stands on a command line stands in the process list."""
    context = main.cli.make_context("pubweave", ["--help"], resilient_parsing=True)
    for verb in ("up", "broker", "pub", "sub", "status", "apply", "dashboard"):
        command = main.cli.get_command(context, verb)
        assert command is not None
        names = {name for parameter in command.params for name in parameter.opts}
        assert not names & {"--password", "--zookeeper-auth", "--token"}, verb


def test_revoke_puts_certificates_on_the_list_one_after_the_other(
    secure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = SecurityDirectory(secure)
    assert revoked_serials(directory.crl) == frozenset()
    assert main.run(["security", "revoke", str(secure), "--user", "al"]) == 0
    assert "revoked.crl first" in capsys.readouterr().err
    stolen = str(secure / "users" / "operator.crt")
    assert main.run(["security", "revoke", str(secure), "--certificate", stolen]) == 0
    names = [directory.user_files(user).cert for user in ("al", "operator")]
    assert revoked_serials(directory.crl) == {serial_of_file(Path(str(name))) for name in names}
    assert check(capsys, str(secure)) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((), "name a --broker"), (("--user", "nobody"), "nobody.crt"), (("--broker", "b9"), "b9.crt")],
)
def test_revoke_says_what_it_cannot_find(
    secure: Path, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["security", "revoke", str(secure), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_reload_looks_at_the_files_before_it_tells_any_broker(
    secure: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda pid, number: told.append((pid, number)))
    run = RunDirectory(tmp_path / "run")
    run.write(state(secure, pid=11))
    arguments = ["security", "reload", "--run-dir", str(tmp_path / "run")]
    assert main.run(arguments) == 0
    assert told == [(11, signal.SIGHUP)]
    (secure / "access.toml").write_text("users = 3")
    assert main.run(arguments) == 2
    assert "access.toml" in capsys.readouterr().err
    run.write(state(None, pid=11))
    assert main.run(arguments) == 2
    assert "is open" in capsys.readouterr().err
    assert len(told) == 1
    run.release()


def state(secure: Path | None, pid: int) -> OverlayState:
    brokers = {"b/1": BrokerState("127.0.0.1:7000", pid)}
    known = None if secure is None else str(secure)
    return OverlayState(
        "tree", OverlayCondition.RUNNING, 7, 0.0, "tree", brokers, [], security=known
    )


def test_add_where_nothing_was_made_says_how_to_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["security", "add", str(tmp_path), "--user", "al"]) == 2
    assert "'pubweave security init'" in capsys.readouterr().err
