"""What a followed profile need not compute again: frames whose records have not changed.

Who subscribed when, and which links changed when, follows from the records of changes alone. Most
batches bring none, and then the frames of the profile before are taken over as they are. Whether
any came is known from the screening, which numbers all records.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from pubweave.pipeline.profile_output import ProfileOutput
from pubweave.pipeline.screening import Screening
from pubweave.pipeline.time_slots import ProfileWindow

OF_SUBSCRIPTIONS = (
    "subscriptions", "subscription_counts", "subscription_rates", "client_topics", "broker_topics",
    "placement_candidates", "audit_subscriptions", "audit_kinds",
)  # fmt: skip
"""Made of subscription changes, incarnations and the window's start."""
OF_LINKS = ("periods",)
"""Made of link changes, and of when traffic began."""


@dataclass(frozen=True)
class KnownFrames:
    """Frames of one profile that may serve the next."""

    output: ProfileOutput
    frames: Mapping[str, DataFrame]
    made_of: Mapping[str, Hashable]
    """By frame: what it was made of, as far as it can change within a run."""

    def taken_over(
        self, screening: Screening, window: ProfileWindow, output: ProfileOutput
    ) -> dict[str, DataFrame]:
        """Those that are still right, their tables copied into another version of the profile."""
        if not output.may_take_over(self.output):
            return {}
        now = _made_of(screening, window)
        still = [name for name in self.frames if self.made_of[name] == now[name]]
        for name in still:
            output.take_over(name, self.output)
        return {name: self.frames[name] for name in still}


def known_frames(
    output: ProfileOutput,
    frames: Mapping[str, DataFrame],
    screening: Screening,
    window: ProfileWindow,
) -> KnownFrames:
    """What the next profile may take over from one that is complete."""
    made_of = _made_of(screening, window)
    return KnownFrames(output, {name: frames[name] for name in made_of}, made_of)


def _made_of(screening: Screening, window: ProfileWindow) -> dict[str, Hashable]:
    epochs = tuple(
        (broker, epoch, first_at)
        for broker, spans in screening.spans().items()
        for epoch, first_at, _ in spans
    )
    changes = _records_of(screening, "subscription_changes")
    links = (_records_of(screening, "link_changes"), screening.first_at("publications"))
    return {
        **dict.fromkeys(OF_SUBSCRIPTIONS, (changes, epochs, window.started_at)),
        **dict.fromkeys(OF_LINKS, links),
    }


def _records_of(screening: Screening, table: str) -> Hashable:
    return tuple(c for c in screening.coverage if c.table == table)
