"""The run behind the live bar of relocation, small: processes, real clients, a verdict."""

from __future__ import annotations

import pytest
from soak.run_relocate import run

from pubweave.core.config.relocation import RelocationConfig, RelocationMode

pytestmark = [pytest.mark.sockets, pytest.mark.slow]


def test_publishers_of_seven_broker_processes_move_and_nothing_is_lost() -> None:
    config = RelocationConfig(RelocationMode.GRAPE, grape_threshold=100)
    figures = run(7, rate=40.0, seconds=8.0, config=config, seed=2)
    assert figures["is_clean"]
    assert figures["moves"] > 0
    assert figures["rate_saved"] > 0.2
    assert figures["wait_ms_by_hops"]
