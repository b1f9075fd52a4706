"""Compiles the kernels of topic-connected overlays into numba's cache, or loads them from there.

Also run before rounds are timed: the first call of a kernel takes as long as a hundred rounds.
"""

from __future__ import annotations

import numpy as np

from pubweave.design.tco.changes import (
    Backups,
    ChurnSettings,
    DegreeRule,
    Join,
    Leave,
    Method,
    Resubscribe,
)
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.divided import build_attached
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import Mode, build_overlay
from pubweave.design.tco.verify import verify


def warm_up_tco() -> None:
    """Build, churn and verify an overlay of few nodes in every way there is."""
    wanted = Subscriptions.of(
        {f"n{n}": [f"t{t}" for t in range(12) if (n * t + n + t) % 3] for n in range(12)}
    )
    links = build_overlay(wanted)
    build_overlay(wanted, Mode.GM)
    build_attached(wanted, 5, lambda attach, tasks: [attach(task) for task in tasks])
    verify(wanted, links)
    for settings in (
        ChurnSettings(),
        ChurnSettings(rule=DegreeRule.ALL, backups=Backups.GREEDY),
        ChurnSettings(rule=DegreeRule.ALL, method=Method.NAIVE),
    ):
        overlay = MaintainedOverlay(wanted, links, settings, np.random.default_rng(0))
        overlay.apply([Leave("n1"), Resubscribe("n2", ("new",), ("t1",)), Join("j", ("t1", "t2"))])
        overlay.update_backups()
        overlay.tidy()
        verify(*overlay.snapshot())
