"""The shape of stored state: which fields a class has, and what became of them since.

A snapshot names every class and field that is in it. Whoever renames, moves, removes or adds one
that older journals have otherwise says so here, with one line; `tests/unit/core/journal/test_shape`
recovers an old journal and names the class and the field that is missing.
"""

from __future__ import annotations

import dataclasses
import dis
import inspect
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import msgspec

CLASSES: dict[str, str] = {}
"""Where stored classes are now: ``{"core.session.session.Session": "core.session.link.Link"}``."""
FIELDS: dict[str, str | None] = {"MqttSessionTable._unnotified": None}
"""What stored fields are called now, by the class of today: ``{"Link.remote": "peer"}``. None: they
are not needed any more."""
DEFAULTS: dict[str, Callable[[], Any]] = {}
"""What fields are that older journals lack: ``{"Link.colour": lambda: "green"}``. What a
constructor or a declaration gives needs no line."""


class ShapeError(ValueError):
    """A journal has what this version does not know, or lacks what it needs; names it."""


@cache
def fields_of(class_: type) -> tuple[str, ...]:
    """What objects of a class have, by its declaration: slots, fields, or what ``__init__`` sets.

    >>> class Link:
    ...     def __init__(self) -> None:
    ...         self.remote = ""
    >>> fields_of(Link)
    ('remote',)
    """
    if issubclass(class_, msgspec.Struct):
        return class_.__struct_fields__
    if dataclasses.is_dataclass(class_):
        return tuple(field.name for field in dataclasses.fields(class_))
    if issubclass(class_, tuple):
        return tuple(getattr(class_, "_fields", ()))
    found: dict[str, None] = {}
    for base in class_.__mro__:
        found |= dict.fromkeys(base.__dict__.get("__slots__", ()))
        init = base.__dict__.get("__init__")
        if isinstance(init, FunctionType):
            stores = (each for each in dis.get_instructions(init) if each.opname == "STORE_ATTR")
            found |= dict.fromkeys(each.argval for each in stores)
    return tuple(found)


@cache
def _mentioned(class_: type) -> frozenset[str]:
    """All names that a class may give to what its objects have."""
    found = set(fields_of(class_))
    for base in class_.__mro__:
        found.update(inspect.get_annotations(base))
        for made in base.__dict__.values():
            if isinstance(made, FunctionType):
                found.update(made.__code__.co_names)
    return frozenset(found)


def class_name(stored: str) -> str:
    """Where a stored class is now."""
    return CLASSES.get(stored, stored)


def is_changed(class_: type) -> bool:
    """Whether fields of a class were called otherwise once."""
    names = {base.__name__ for base in class_.__mro__}
    return any(name.partition(".")[0] in names for name in FIELDS)


def renamed(class_: type, stored: str) -> str | None:
    """What a stored field is called now; None: it is not needed any more."""
    for base in class_.__mro__:
        if (name := f"{base.__name__}.{stored}") in FIELDS:
            return FIELDS[name]
    return stored


def attribute(class_: type, stored: str, owner: Any = None) -> str | None:
    """The same. ShapeError: this version does not know it. ``owner`` is an object that was
    constructed: what it has is known."""
    name = renamed(class_, stored)
    if name is None or name in _mentioned(class_) or hasattr(owner, name):
        return name
    raise ShapeError(
        f"the journal has a field {stored!r} of {class_.__name__}, which this version does not "
        f"know (say in core/journal/shape.py what became of it)"
    )


def default(class_: type, name: str) -> Any:
    """What a field is that an older journal lacks. ShapeError: nobody says."""
    for base in class_.__mro__:
        if (made := DEFAULTS.get(f"{base.__name__}.{name}")) is not None:
            return made()
    for field in dataclasses.fields(class_) if dataclasses.is_dataclass(class_) else ():
        if field.name == name and field.default is not dataclasses.MISSING:
            return field.default
        if field.name == name and field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
    for info in msgspec.structs.fields(class_) if issubclass(class_, msgspec.Struct) else ():
        if info.name == name and not info.required:
            return info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
    raise ShapeError(
        f"the journal lacks the field {name!r} of {class_.__name__} (give it a default in "
        f"core/journal/shape.py)"
    )
