"""``--durability`` of ``pubweave simulate``."""

from __future__ import annotations

from click.testing import CliRunner

from pubweave.cli.lab.simulate import simulate


def test_a_scenario_without_restarts_cannot_be_durable() -> None:
    result = CliRunner().invoke(simulate, ["autopilot", "--seed", "0", "--durability", "journal"])
    assert result.exit_code == 2
    assert "autopilot: durability is not an option of this scenario" in result.output
