"""The papers' evaluations again, and a virtual day of the autopilot: our figures beside theirs.

`runner` lists every experiment (`EXPERIMENTS`) and runs one (`reproduce`): here, in processes or on
Spark. `experiment` says what an `Experiment` is: options, tasks, rows, and a `Report` of them with
the paper's `Statement`s. `plotting` is what all pictures share. A folder for each paper holds
the setting, the engine that measures, the statements, the pictures, and in `experiments` the
registration. What is measured lives below: algorithms in `design` and `planning`, brokers in
`core`, worlds in `sim`. Nothing here reads arguments or prints: `cli.lab.reproduce` does.

>>> from pubweave.experiments import EXPERIMENTS
>>> EXPERIMENTS["ipitt-table1"].unit
'topologies'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave.experiments.experiment import Experiment as Experiment
    from pubweave.experiments.experiment import Report as Report
    from pubweave.experiments.runner import EXPERIMENTS as EXPERIMENTS
    from pubweave.experiments.runner import reproduce as reproduce

__getattr__, __all__ = lazily(
    __name__,
    {
        "pubweave.experiments.experiment": "Experiment Report",
        "pubweave.experiments.runner": "EXPERIMENTS reproduce",
    },
)
