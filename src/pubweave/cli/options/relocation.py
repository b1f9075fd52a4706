"""Options that let clients of an overlay move by themselves: for whoever starts one."""

from __future__ import annotations

from typing import Any

import click

from pubweave.cli.kinds import COUNT, NOT_NEGATIVE, packed
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.design.relocation.rules import Preference, Priority

_MODES = [mode.value for mode in RelocationMode]
_OPTIONS = (
    click.option(
        "--relocation",
        type=click.Choice(_MODES),
        default="off",
        help="Let publishers move to the broker where they cost least: by the majority of "
        "subscribers (pop) or by load and delay (grape).",
    ),
    click.option(
        "--relocation-priority",
        type=click.Choice([priority.value for priority in Priority]),
        help="What grape minimises first. [default: load]",
    ),
    click.option(
        "--relocation-weight",
        type=click.FloatRange(0, 100),
        help="How much of it, in percent. [default: 100]",
    ),
    click.option(
        "--relocation-of",
        multiple=True,
        metavar="CLIENT=MODE",
        help="A publisher that is treated otherwise; may be repeated.",
    ),
    click.option(
        "--relocation-trace",
        type=click.IntRange(1, 4096),
        metavar="PUBLICATIONS",
        help="How many of a publisher's publications are traced before a decision. [default: 100]",
    ),
    click.option(
        "--relocation-least-gain",
        type=click.FloatRange(0, 99),
        metavar="PERCENT",
        help="By how much a move has to lower what decides it. [default: 5]",
    ),
    click.option(
        "--relocation-rest",
        type=NOT_NEGATIVE,
        metavar="SECONDS",
        help="How long a client that has moved is left alone. [default: 60]",
    ),
    click.option(
        "--relocation-subscribers",
        is_flag=True,
        help="With grape: subscribers move, too, wherever publishers stay.",
    ),
    click.option(
        "--relocation-most-clients",
        type=COUNT,
        metavar="N",
        help="Subscribers move to no broker that has N clients already. [default: 200]",
    ),
)
_OF_GRAPE = ("priority", "weight", "subscribers", "most_clients")


def _config(relocation: str, **given: Any) -> RelocationConfig:
    mode = RelocationMode(relocation)
    chosen = {name.removeprefix("relocation_"): value for name, value in given.items()}
    publishers = dict(_publisher(text) for text in chosen["of"])
    modes = {mode, *publishers.values()}
    if RelocationMode.GRAPE not in modes:
        for name in _OF_GRAPE:
            if chosen[name] not in (None, False):
                raise click.UsageError(f"{_option(name)} is for --relocation grape")
    if modes == {RelocationMode.OFF}:
        for name in ("trace", "least_gain", "rest"):
            if chosen[name] is not None:
                raise click.UsageError(f"{_option(name)} is for overlays with --relocation")
    if chosen["most_clients"] is not None and not chosen["subscribers"]:
        raise click.UsageError("--relocation-most-clients is for --relocation-subscribers")
    plain = RelocationConfig()
    weight = 100.0 if chosen["weight"] is None else chosen["weight"]
    traced = chosen["trace"] or plain.grape_threshold
    gain = plain.least_gain if chosen["least_gain"] is None else chosen["least_gain"] / 100
    return RelocationConfig(
        mode=mode,
        preference=Preference(Priority(chosen["priority"] or "load"), weight),
        publishers=publishers,
        pop_threshold=traced,
        grape_threshold=traced,
        least_gain=gain,
        rest_s=plain.rest_s if chosen["rest"] is None else chosen["rest"],
        subscribers=chosen["subscribers"],
        most_clients=chosen["most_clients"] or plain.most_clients,
    )


def _option(name: str) -> str:
    return f"--relocation-{name.replace('_', '-')}"


def _publisher(text: str) -> tuple[str, RelocationMode]:
    client, _, mode = text.rpartition("=")
    if not client or mode not in _MODES:
        raise click.UsageError(
            f"--relocation-of {text!r}: expected a client's id, '=' and one of {', '.join(_MODES)}"
        )
    return client, RelocationMode(mode)


relocation_options = packed("relocation", _config, *_OPTIONS)
"""All of them; the command gets ``relocation``, a `RelocationConfig`."""
