"""The options of journals, and what they say when they do not fit together."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pubweave.cli.errors import BadInput
from pubweave.cli.lab.simulate import simulate
from pubweave.cli.options.brokers import chosen_journal
from pubweave.sim.simulate import DURABLE


def test_the_directory_given_goes_before_the_usual_one() -> None:
    assert chosen_journal("memory", None, Path("run")) is None
    assert chosen_journal("journal", None, Path("run")) == Path("run")
    assert chosen_journal("journal", Path("mine"), Path("run")) == Path("mine")


def test_a_directory_without_a_journal_is_refused() -> None:
    with pytest.raises(BadInput, match="without --durability journal"):
        chosen_journal("memory", Path("mine"), None)


def test_a_journal_without_a_directory_is_refused() -> None:
    with pytest.raises(BadInput, match="needs --journal-dir"):
        chosen_journal("journal", None, None)


def test_a_scenario_without_restarts_cannot_be_durable() -> None:
    result = CliRunner().invoke(simulate, ["autopilot", "--seed", "0", "--durability", "journal"])
    assert result.exit_code == 2
    assert ", ".join(DURABLE) in result.output
