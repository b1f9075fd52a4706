"""Random filters over a small content space, and publications that match them.

Small on purpose: with few topics and values, filters overlap, cover and miss each other often.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.publications import TOPIC_ATTRIBUTE, make_publication
from pubweave.sim.kernel.world import World

TOPICS = ["alpha", "alto", "beta", "gamma"]
WORDS = ["a", "ab", "abc", "b", "bc", "cab"]
HIGHEST = 12
TRIES = 40
PAYLOAD_BYTES = (0, 0, 0, 0, 0, 0, 16, 16, 100, 100, 1000)
"""What most payloads are about; one in `RARE` is anything up to 64 KiB."""
RARE = 50
MAX_PAYLOAD_BYTES = 1 << 16


def random_filter(world: World) -> Filter:
    """Mostly one topic with up to two further predicates; sometimes wider."""
    predicates: list[Predicate] = []
    dice = float(world.rng.random())
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
    """Topic and attributes that match ``offered``; None if none was found in a few tries."""
    for _ in range(TRIES):
        topic = world.choice(TOPICS)
        attributes: dict[str, Any] = {}
        for name in ("x", "y"):
            if world.chance(0.9):
                attributes[name] = world.integer(0, HIGHEST)
        if world.chance(0.6):
            attributes["w"] = world.choice(WORDS)
        if world.chance(0.6):
            attributes["flag"] = world.chance(0.5)
        if offered.matches(make_publication("", 0, topic, attributes, b"", 0.0)):
            return topic, attributes
    return None


def random_payload(rng: np.random.Generator) -> bytes:
    """Mostly small or empty, sometimes of 64 KiB."""
    if rng.integers(RARE):
        return bytes(rng.choice(PAYLOAD_BYTES))
    return bytes(min(int(rng.integers(2 * MAX_PAYLOAD_BYTES)), MAX_PAYLOAD_BYTES))
