"""The command line as a whole: speed of help, exit codes, one message per bad input."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from pubweave.cli import errors, main
from pubweave.model.filters.lexer import FilterSyntaxError
from pubweave.model.topology import TopologyError
from pubweave.runtime.client.client import ClientError
from pubweave.runtime.net.errors import OverlayError


def pubweave(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from pubweave.cli.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_help_lists_every_verb() -> None:
    done = pubweave("-h")
    assert done.returncode == 0
    for verb, told in main.VERBS.items():
        assert f"  {verb}" in done.stdout
        assert told.summary in done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pubweave.cli.main import run; run(['--help']);"
        "heavy = {'numpy', 'pyarrow', 'uvloop', 'networkx', 'asyncio', 'rich.console'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("verb", sorted(set(main.VERBS) - {"topology", "simulate"}))
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([verb, "-h"]) == 0
    told = capsys.readouterr().out
    assert "Example:" in told
    assert f"pubweave {verb}" in told


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"pubweave {version('pubweave')}\n"


def test_an_unknown_verb_is_bad_input_and_the_verbs_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["upp"]) == 2
    assert "no such command 'upp'; there are up, broker" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (TopologyError("tree.json: no brokers"), 2, "Error: tree.json: no brokers\n"),
        (OverlayError("no overlay"), 2, "Error: no overlay\n"),
        (ClientError("cannot connect"), 2, "Error: cannot connect\n"),
        (OSError(98, "Address already in use"), 2, "Error: Address already in use\n"),
        (PermissionError(13, "Permission denied", "x"), 2, "Error: x: Permission denied\n"),
        (click.UsageError("say more"), 2, "Error: say more\n"),
        (errors.BadInput("not that"), 2, "Error: not that\n"),
        (ExceptionGroup("", [ClientError("gone")]), 2, "Error: gone\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (SystemExit(3), 3, ""),
        (click.exceptions.Exit(1), 1, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_error_has_its_exit_code_and_at_most_one_message(
    error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert errors.exit_code_for(error) == code
    assert capsys.readouterr().err == told


def test_a_filter_that_cannot_be_read_is_shown_with_its_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["sub", "volume > much"]) == 2
    told = capsys.readouterr().err
    assert FilterSyntaxError.subject in told
    assert "\n           ^" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "bug",
    [
        ValueError("of some library"),
        KeyError("x"),
        OSError(5, "Input/output error"),
        ExceptionGroup("", [ClientError("gone"), KeyError("x")]),
    ],
    ids=["ValueError", "KeyError", "OSError", "mixed"],
)
def test_a_bug_shows_its_traceback(bug: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(type(bug)) as caught:
        raise bug
    assert errors.exit_code_for(caught.value) == 1
    assert "Traceback" in capsys.readouterr().err


def test_blame_names_the_input_that_was_wrong() -> None:
    with pytest.raises(errors.BadInput, match="--attr: too large"), errors.blaming("--attr"):
        raise ValueError("too large")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pub"], "name a TOPIC"),
        (["pub", "T", "--attr", "x"], "write name=value"),
        (["pub", "T", "--attr", "x=99999999999999999999999"], "64 bits"),
        (["pub", "T", "--attr", "class=y", "--address", "1"], "do not repeat it"),
        (["pub", "T", "--address", "nowhere"], "is no address"),
        (["pub", "T", "--address", "1", "--broker", "b1"], "not both"),
        (["pub", "T", "--payload", "@/nonexistent"], "/nonexistent: No such file"),
        (["pub", "T", "--stdin", "--count", "2"], "--stdin has its own lines"),
        (["pub", "T", "--stdin", "--payload", "-"], "would both read standard input"),
        (["pub", "T", "--run-dir", "/nonexistent"], "no overlay in /nonexistent"),
        (["status", "--run-dir", "/nonexistent"], "no overlay in /nonexistent"),
        (["sub", "*", "--run-dir", "/nonexistent"], "no overlay in /nonexistent"),
        (["up", "/nonexistent.json"], "/nonexistent.json: No such file"),
        (["broker", "--id", "b1"], "needs --id and --listen"),
        (["broker", "--id", "b1", "--listen", "x"], "is no address"),
        (["broker", "--id", "b", "--listen", "1", "--neighbor", "b2"], "write id=host:port"),
        (["broker", "--id", "b", "--listen", "1", "--neighbor", "b=2"], "its own neighbor"),
    ],
)
def test_bad_input_is_one_message_and_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "Traceback" not in said
