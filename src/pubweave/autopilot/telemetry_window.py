"""The telemetry of the last while as a run of its own, made of links to a run's files.

The pipeline profiles a whole run; the loop wants what happened since an instant. Tables of state
(who subscribed, which links there were) are needed from the beginning; tables of traffic only
from then on. A file holds what a broker recorded in the seconds before it was written, so files
are chosen by when they were written.

Deliveries and hops are taken from a little earlier than publications: a publication of the window
always finds its deliveries, and deliveries of earlier publications are nobody's loss.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pubweave.model.telemetry import TABLES
from pubweave.telemetry.run_description import RUN_FILE, read_run_description

STATE_TABLES = frozenset(
    {"subscription_changes", "advertisement_changes", "client_changes", "link_changes"}
)
ROTATE_S = 6.0
"""No record is older than this when its file is written."""


def link_window(telemetry: Path, window: Path, since: float) -> int:
    """Make ``window`` a run directory with the telemetry since an instant; how many files it has.

    Raises TelemetryError if ``telemetry`` is no run's."""
    read_run_description(telemetry)
    shutil.rmtree(window, ignore_errors=True)
    window.mkdir(parents=True)
    shutil.copy2(telemetry / RUN_FILE, window / RUN_FILE)
    count = 0
    for table in TABLES:
        if not (telemetry / table).is_dir():
            continue
        (window / table).mkdir()
        for file in sorted((telemetry / table).glob("*.parquet")):
            if not file.name.startswith((".", "_")) and _is_wanted(file, table, since):
                (window / table / file.name).symlink_to(file.resolve())
                count += 1
    return count


def _is_wanted(file: Path, table: str, since: float) -> bool:
    if table in STATE_TABLES:
        return True
    margin_s = ROTATE_S if table == "publications" else 0.0
    try:
        return file.stat().st_mtime >= since + margin_s
    except OSError:  # somebody tidies up beside us
        return False
