"""Options that let a rendezvous overlay place its users: for whoever starts one, or a broker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import click

from pubweave.cli.kinds import NOT_NEGATIVE, SHARE, packed
from pubweave.core.config.placement import LASTING, RULES, SIMILARITY, PlacementConfig
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.runtime.overlay.spec import OverlaySpec

PLAIN = PlacementConfig()
NUMBER_OPTIONS = (
    click.option(
        "--placement-update",
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help=f"How often brokers of a cluster tell each other of themselves. "
        f"[default: {PLAIN.update_s:g}]",
    ),
    click.option(
        "--placement-load",
        type=NOT_NEGATIVE,
        metavar="WEIGHT",
        help="What a broker's load weighs: over the mean of its cluster, or with --placement-rule "
        f"{SIMILARITY} as a share of it. [default: {PLAIN.load_weight:g}]",
    ),
    click.option(
        "--placement-least-gain",
        type=SHARE,
        help=f"How much better another broker must be. [default: {PLAIN.least_gain:g}]",
    ),
    click.option(
        "--placement-rest",
        type=NOT_NEGATIVE,
        metavar="SECONDS",
        help=f"How long a client that was sent is left alone. [default: {PLAIN.rest_s:g}]",
    ),
    click.option(
        "--placement-rule",
        type=click.Choice(RULES),
        help=f"'{LASTING}': clients go where fewest topics begin and end, now and later. "
        f"'{SIMILARITY}': where most of theirs are wanted already. [default: {PLAIN.rule}]",
    ),
)
_FIELDS = {
    "placement_update": "update_s",
    "placement_load": "load_weight",
    "placement_least_gain": "least_gain",
    "placement_rest": "rest_s",
    "placement_rule": "rule",
}


_SIZE_OPTION = click.option(
    "--placement",
    "placement_size",
    type=click.IntRange(min=2),
    metavar="BROKERS",
    help="With --strategy rendezvous: clients go to the broker that suits their topics best, among "
    "so many.",
)


@dataclass(frozen=True)
class PlacementChoice:
    """What was chosen for placing users: among how many brokers, and other settings."""

    size: int | None
    settings: dict[str, Any]

    def applied(self, spec: OverlaySpec) -> OverlaySpec:
        """An overlay whose brokers place users so; `click.UsageError` if that cannot be."""
        check_placement("--placement", self.size is not None, spec.strategy, self.settings)
        if self.size is None:
            return spec
        return replace(
            spec, placement=replace(PLAIN, members=(), **self.settings), placement_size=self.size
        )


def changed_fields(**given: Any) -> dict[str, Any]:
    """The fields of a `PlacementConfig` that `NUMBER_OPTIONS` change."""
    return {_FIELDS[name]: value for name, value in given.items() if value is not None}


placement_options = packed(
    "placement",
    lambda placement_size, **given: PlacementChoice(placement_size, changed_fields(**given)),
    _SIZE_OPTION,
    *NUMBER_OPTIONS,
)
"""For a whole overlay; the command gets ``placement``, a `PlacementChoice`."""


def check_placement(option: str, is_given: bool, strategy: str, chosen: dict[str, Any]) -> None:
    """`click.UsageError` if settings are given for what is not there; ``option`` asks for it."""
    if is_given and strategy != RENDEZVOUS_PROTOCOL:
        raise click.UsageError(f"{option} is for --strategy {RENDEZVOUS_PROTOCOL}")
    if chosen and not is_given:
        names = {field: name for name, field in _FIELDS.items()}
        wrong = names[next(iter(chosen))].replace("_", "-")
        raise click.UsageError(f"--{wrong} needs {option}")
