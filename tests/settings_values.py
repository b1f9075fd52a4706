"""A value for each setting that is not its default, for tests that walk the whole tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_origin

from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.text import (
    Keys,
    bare_kinds,
    bounds_of,
    choices_of,
    dotted,
    flat,
    item_kind,
    leaves,
)
from pubweave.runtime.settings.tree import Settings

DEFAULTS = flat(Settings())
_CHOSEN: dict[str, Any] = {
    "broker.strategy": "rendezvous",
    "broker.mqtt.qos_max": 1,
    "placement.rule": "similarity",
    "relocation.preference.weight": 40.0,
    "autopilot.quiet_hours": ("22:00-06:00", "12:00-13:00"),
    "autopilot.pins": ("b1-b2",),
}
_COMPANIONS = {
    ("broker", "security", key): ("ca", "cert", "key")
    for key in ("ca", "cert", "key", "crl", "passwords", "access")
}


def changed() -> dict[Keys, Any]:
    """Every setting with a value that is not its default; of a table by id, one of its values."""
    found: dict[Keys, Any] = {}
    for keys, kind in leaves():
        item = item_kind(kind)
        if item is None:
            found[keys] = _value(keys, kind)
        else:
            found[*keys, "b.9"] = _value((*keys, "b.9"), item)
    return found


def with_companions(keys: Keys) -> dict[Keys, Any]:
    """One setting, and those without which it cannot be."""
    values = changed()
    others = [(*keys[:-1], name) for name in _COMPANIONS.get(keys, ())]
    return {each: values[each] for each in (keys, *others)}


def _value(keys: Keys, kind: Any) -> Any:
    if dotted(keys) in _CHOSEN:
        return _CHOSEN[dotted(keys)]
    default, bare = DEFAULTS.get(keys), bare_kinds(kind)[0]
    if choices := choices_of(kind):
        other = next(choice for choice in choices if choice != getattr(default, "value", default))
        return other if get_origin(bare) is not None else bare(other)
    if get_origin(bare) is tuple:
        return (*(default or ()), get_args(bare)[0]("b7"))
    if bare is bool:
        return not default
    if bare is int:
        return (default or 0) + 1
    if bare is float:
        return _fraction(default, kind)
    return {str: "word", Path: Path("some/file"), Address: Address("10.9.8.7", 6543)}[bare]


def _fraction(default: float | None, kind: Any) -> float:
    if any(bound.le is not None for bound in bounds_of(kind)) or (default or 1.0) < 1.0:
        return 0.375
    return (default or 0) + 1.5
