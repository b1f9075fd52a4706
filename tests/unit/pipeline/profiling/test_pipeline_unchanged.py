"""Which frames of the profile before still hold, by what the screening tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pubweave.model.profile import PROFILE_TABLES
from pubweave.pipeline.frames.settings import ProfileWindow
from pubweave.pipeline.frames.small_tables import FILE_NAME, write_table
from pubweave.pipeline.profiling.output import ProfileOutput
from pubweave.pipeline.profiling.screening import Coverage, Screening
from pubweave.pipeline.profiling.task_graph import (
    OF_LINKS,
    OF_SUBSCRIPTIONS,
    KnownFrames,
    known_frames,
)

SUBSCRIBED = Coverage("subscription_changes", "b1", 7, 4, 4, 0, 0, 3, 5.0, 6.0)
LINKED = replace(SUBSCRIBED, table="link_changes")
PUBLISHED = replace(SUBSCRIBED, table="publications", last_at=60.0)
WINDOW = ProfileWindow(5.0, 60.0, 10.0)
NO_SPARK: Any = None


def version(directory: Path, name: str, *, small: bool = True) -> ProfileOutput:
    return ProfileOutput(NO_SPARK, str(directory), name, small=small)


@pytest.fixture
def known(tmp_path: Path) -> KnownFrames:
    """Of a profile whose tables are on disk; the frames are their names."""
    output = version(tmp_path, "1")
    frames: Any = {name: name for name in (*OF_SUBSCRIPTIONS, *OF_LINKS, "latency")}
    for name in PROFILE_TABLES:
        write_table(Path(output.path(name)), pa.table({"of": [name]}))
    return known_frames(output, frames, Screening((SUBSCRIBED, LINKED, PUBLISHED)), WINDOW)


@pytest.mark.parametrize(
    ("coverage", "window", "still"),
    [
        ((SUBSCRIBED, LINKED, PUBLISHED), WINDOW, {*OF_SUBSCRIPTIONS, *OF_LINKS}),
        # More traffic and a longer window change neither.
        (
            (SUBSCRIBED, LINKED, replace(PUBLISHED, records=9, last_number=8, last_at=90.0)),
            replace(WINDOW, ended_at=90.0),
            {*OF_SUBSCRIPTIONS, *OF_LINKS},
        ),
        ((replace(SUBSCRIBED, records=5), LINKED, PUBLISHED), WINDOW, {*OF_LINKS}),
        ((SUBSCRIBED, replace(LINKED, last_number=4), PUBLISHED), WINDOW, {*OF_SUBSCRIPTIONS}),
        # An incarnation ends the subscriptions of the one before it.
        (
            (SUBSCRIBED, LINKED, PUBLISHED, replace(PUBLISHED, epoch=8, first_at=70.0)),
            WINDOW,
            {*OF_LINKS},
        ),
        (
            (SUBSCRIBED, LINKED, replace(PUBLISHED, first_at=4.0)),
            replace(WINDOW, started_at=4.0),
            set(),
        ),
    ],
)
def test_only_what_is_made_of_the_same_records_is_taken_over(
    known: KnownFrames,
    tmp_path: Path,
    coverage: tuple[Coverage, ...],
    window: ProfileWindow,
    still: set[str],
) -> None:
    output = version(tmp_path, "2")
    taken = known.taken_over(Screening(coverage), window, output)
    assert taken == {name: name for name in still}
    for name in PROFILE_TABLES:
        path = Path(output.path(name)) / FILE_NAME
        assert path.exists() == (name in still)
        if name in still:
            assert pq.read_table(path).column("of").to_pylist() == [name]


def test_frames_that_are_not_held_are_made_again(known: KnownFrames, tmp_path: Path) -> None:
    screening = Screening((SUBSCRIBED, LINKED, PUBLISHED))
    assert known.taken_over(screening, WINDOW, version(tmp_path, "2", small=False)) == {}
