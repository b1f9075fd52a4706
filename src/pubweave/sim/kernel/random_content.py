"""Random filters over a small content space, and publications that match them.

Small on purpose: with few topics and values, filters overlap, cover and miss each other often.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.sim.kernel.world import World

TOPICS = ["alpha", "alto", "beta", "gamma"]
WORDS = ["a", "ab", "abc", "b", "bc", "cab"]
HIGHEST = 12
TRIES = 10
PAYLOAD_BYTES = (0, 0, 0, 0, 0, 0, 16, 16, 100, 100, 1000)
"""What most payloads are about; one in `RARE` is anything up to 64 KiB."""
RARE = 50
MAX_PAYLOAD_BYTES = 1 << 16


def random_filter(world: World) -> Filter:
    """Mostly one topic with up to two further predicates; sometimes wider."""
    predicates: list[Predicate] = []
    dice = world.random()
    if dice < 0.8:
        predicates.append(Predicate(TOPIC_ATTRIBUTE, Operator.EQ, world.choice(TOPICS)))
    elif dice < 0.92:
        predicates.append(Predicate(TOPIC_ATTRIBUTE, Operator.PREFIX, "al"))
    for _ in range(world.integer(0, 2)):
        predicates.extend(_random_predicates(world))
    return Filter(tuple(predicates))


def _random_predicates(world: World) -> list[Predicate]:
    attribute = world.choice(["x", "y"])
    kind = world.integer(0, 6)
    low, high = sorted((world.integer(0, HIGHEST), world.integer(0, HIGHEST)))
    match kind:
        case 0 | 1 | 2:
            return [
                Predicate(attribute, Operator.GE, low),
                Predicate(attribute, Operator.LE, high),
            ]
        case 3:
            return [Predicate(attribute, Operator.EQ, low)]
        case 4:
            return [Predicate(attribute, Operator.NE, low)]
        case 5:
            operator = world.choice([Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS])
            return [Predicate("w", operator, world.choice(["a", "b", "ab"]))]
        case _:
            return [Predicate("flag", Operator.EQ, world.chance(0.5))]


def random_content(world: World, offered: Filter) -> tuple[str, dict[str, Any]] | None:
    """Topic and attributes that match ``offered``; None if none was found in a few tries.

    A filter is a conjunction, so each attribute is drawn by itself until all that is asked of it
    holds: as if whole publications were drawn until one matches, with fewer draws."""
    asked: dict[str, list[Predicate]] = {}
    for predicate in offered.predicates:
        asked.setdefault(predicate.attribute, []).append(predicate)
    drawn: dict[str, Any] = {}
    for name, draw in DRAWS.items():
        value = draw(world)
        if name in asked:
            for _ in range(TRIES):
                if all(predicate.holds(value) for predicate in asked[name]):
                    break
                value = draw(world)
            else:
                return None
        if value is not None:
            drawn[name] = value
    return drawn.pop(TOPIC_ATTRIBUTE), drawn


DRAWS: dict[str, Callable[[World], Any]] = {
    TOPIC_ATTRIBUTE: lambda world: world.choice(TOPICS),
    "x": lambda world: world.integer(0, HIGHEST) if world.chance(0.9) else None,
    "y": lambda world: world.integer(0, HIGHEST) if world.chance(0.9) else None,
    "w": lambda world: world.choice(WORDS) if world.chance(0.6) else None,
    "flag": lambda world: world.chance(0.5) if world.chance(0.6) else None,
}
"""What publications have, and how often; None: they have no such attribute."""


def random_payload(sizes: Random) -> bytes:
    """Mostly small or empty, sometimes of 64 KiB."""
    if sizes.randrange(RARE):
        return bytes(sizes.choice(PAYLOAD_BYTES))
    return bytes(min(sizes.randrange(2 * MAX_PAYLOAD_BYTES), MAX_PAYLOAD_BYTES))
