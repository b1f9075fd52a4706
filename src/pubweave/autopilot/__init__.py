"""The autopilot on a real overlay: answers the control loop with Spark and ZooKeeper.

>>> from pubweave.autopilot import AssumedPrices, ControlMode, ControlSettings, PilotSetup
>>> settings = ControlSettings(mode=ControlMode.AUTO, period_s=600.0)
>>> setup = PilotSetup("where", "telemetry", "work", settings, AssumedPrices(assumed_ms=1.0))
>>> await LivePilot(setup).run()        # doctest: +SKIP

In `driver`: the loop over sockets (`LivePilot`), and the rehearsal of a plan. `profiler` keeps
Spark in a process of its own, `telemetry_window` gives it the telemetry of the last while.
Not here: the decisions (`control`), carrying plans out (`runtime.coordination`), the pipeline
(`pipeline`), the loop in virtual time (`sim.autopilot`), options and printing (`cli`).
Invariant: nothing is kept that the store does not have, so this process may be killed at any time.
ADR 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave.autopilot.driver import AssumedPrices as AssumedPrices
    from pubweave.autopilot.driver import LivePilot as LivePilot
    from pubweave.autopilot.driver import PilotSetup as PilotSetup
    from pubweave.autopilot.driver import read_decisions as read_decisions
    from pubweave.control.settings import ControlSettings as ControlSettings
    from pubweave.control.settings import EvidenceDemands as EvidenceDemands
    from pubweave.control.settings import OperatorLimits as OperatorLimits
    from pubweave.model.decisions import ControlMode as ControlMode
    from pubweave.model.decisions import DecisionRecord as DecisionRecord
    from pubweave.runtime.store.zookeeper_target import Coordination as Coordination

__getattr__, __all__ = lazily(
    __name__,
    {
        "pubweave.autopilot.driver": "AssumedPrices LivePilot PilotSetup read_decisions",
        "pubweave.control.settings": "ControlSettings EvidenceDemands OperatorLimits",
        "pubweave.model.decisions": "ControlMode DecisionRecord",
        "pubweave.runtime.store.zookeeper_target": "Coordination",
    },
)
