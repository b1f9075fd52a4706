"""Marked branches of a run: those of the core, and what only the simulator sees.

A branch that was never reached in thousands of runs is not tested by them, whatever they found.
`python -m soak.count_marks` runs all scenarios and tells which were reached by how many runs.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from pubweave.core.vocabulary.rare_branches import Branch, heard_by


class RunBranch(enum.Enum):
    """What happens to brokers in a run that they cannot see themselves."""

    TORN_SNAPSHOT = "a crash tears a snapshot that is being written"
    COMMIT_REPLAYED = "a broker comes back with a commit that its snapshot does not have"
    CLOCK_TURNED_BACK = "a broker comes back and its clock says less than its journal"
    JUMP_WITH_UNACKED = "a clock jumps while a link has something unacknowledged"
    CRASH_BESIDE_PAUSED = "a broker crashes while a neighbor is paused"
    SECOND_IN_CRASH = "a fault beside a broker that has crashed"
    SECOND_IN_PAUSE = "a fault beside a broker that is paused"
    SECOND_IN_RESTART = "a fault while a link's gate is shut"
    SECOND_IN_ACTION = "a fault at a broker in an action"
    SECOND_IN_MIGRATION = "a fault at a broker that a client is moved past"
    SECOND_IN_HANDOVER = "a fault at a gateway that gives or gets a session"
    SECOND_IN_FADING = "a fault at a broker with a topic that no client wants any more"


MARKS: dict[str, str] = {
    branch.name: branch.value for branches in (Branch, RunBranch) for branch in branches
}
"""What each mark says."""


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often each mark is reached within this."""
    reached: Counter[str] = Counter()

    def hear(branch: enum.Enum) -> None:
        reached[branch.name] += 1

    with heard_by(hear):
        yield reached
