"""Brokers with journals, killed under load while plans are carried out: a short run of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import uvloop
from soak.run_journal import JournalRun

from tests.contract.zookeeper_users import needs_zookeeper

pytestmark = [pytest.mark.slow, pytest.mark.sockets, needs_zookeeper()]


def test_killed_brokers_come_back_and_nothing_is_lost(tmp_path: Path) -> None:
    run = JournalRun(
        tmp_path,
        brokers=5,
        kills=8,
        every_s=1.0,
        subscribers=20,
        publishers=4,
        rate=10.0,
        durability="journal",
        seed=3,
    )
    figures = uvloop.run(run.run())
    assert figures["is_clean"], figures["verdict"]
    assert figures["verdict"]["delivered"] > 0
    assert figures["broker_deaths"] >= 4
    assert figures["duplicates_over_the_wire"] == 0
    assert figures["notifications_lost"] == 0
