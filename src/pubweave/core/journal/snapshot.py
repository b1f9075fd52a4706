"""The whole state of a broker as bytes, and a broker made from them.

A snapshot is complete by construction: no module says what of it is worth keeping, so none can
forget to. A broker's objects are of three kinds:

- the *skeleton*: what the constructor makes (sessions table, routing, actions, their dictionaries
  and lists), with all the callbacks between them. It is made afresh by the constructor and then
  filled in place, because callbacks may have hold of any of it;
- *members*: other mutable objects of the core (sessions, tables, the part in an action), which are
  created empty, numbered, and filled;
- *values*: containers, messages, filters, everything compared by value.

Members are written one after the other, not one inside the other: sessions refer to sessions to
any depth. A matching index is written as its filters and built anew. Telemetry begins afresh.

The bytes are pickles in which only plain values of `core`, `model` and `design`, and arrays, can
occur (`_may_occur`), which is looked at in both directions; members are named by class and filled
without running any code of theirs. Whoever can write a broker's snapshot can be that broker, not
more.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import io
import pickle
from collections import deque
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec
import numpy as np

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.matching.index import MatchIndex
from pubweave.core.metering.metering import Metering
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter

_CORE = "pubweave.core."
_PACKAGES = (_CORE, "pubweave.model.", "pubweave.design.")
_OTHERS = {
    (__name__, "read_filter"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "bytearray"),
    ("collections", "deque"),
    ("collections", "Counter"),
    ("collections", "OrderedDict"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
}
"""What else a snapshot may name: containers and arrays."""
_TELEMETRY = ("_meter", "meter")
"""Attributes that say whether a broker records: that is up to whoever starts it."""
_MEMBER, _SKELETON, _METHOD = 0, 1, 2
_WRONG = (AttributeError, ImportError, LookupError, TypeError)
"""What comes of bytes that name what there is not."""


_PLAIN = frozenset({str, int, float, bool, bytes, type(None), tuple, Filter})
"""What is no reference to an object of the core, and most frequent."""
_CONTAINERS = frozenset({dict, list, set, deque})
_NAMED = (type, FunctionType, BuiltinFunctionType)
"""Of these not the kind matters but which one it is."""
_encode = msgspec.msgpack.Encoder().encode
_decode_filter = msgspec.msgpack.Decoder(Filter).decode


def read_filter(data: bytes) -> Filter:
    """A filter as it travels; there are many, and this is the fastest way."""
    return _decode_filter(data)


class SnapshotError(ValueError):
    """Bytes that are no snapshot of this version's broker, or a broker of which none can be made;
    says why."""


def take_snapshot(broker: Broker, now: float) -> bytes:
    """The state of a broker. O(state); the broker is not changed. SnapshotError: something in it
    could not be read again.

    ``now`` is any instant; the skeleton it is compared with is made with it."""
    is_metered = _at(broker, _TELEMETRY[0]) is not None
    metering = Metering(broker.config.id, 1.0, epoch=1) if is_metered else None
    twin = _paths(Broker(broker.config, epoch=1, now=now, metering=metering))
    found = {path: _at(broker, path) for path in twin}
    return _Writer(
        {path: own for path, own in found.items() if type(own) is type(twin[path])}
    ).write()


def restore_broker(
    data: bytes, config: BrokerConfig, *, epoch: int, now: float, metering: Metering | None = None
) -> Broker:
    """The broker whose snapshot this is, as it was. O(state), and O(filters) for their index."""
    broker = Broker(config, epoch=epoch, now=now, metering=metering)
    try:
        _Reader(data, _paths(broker)).fill()
    except (pickle.UnpicklingError, EOFError, ValueError, *_WRONG) as error:
        raise SnapshotError(f"not a snapshot of this version of pubweave: {error}") from error
    return broker


# --- the skeleton --------------------------------------------------------------------------


def _paths(broker: Broker) -> dict[str, Any]:
    """The objects that a fresh broker consists of, by how they are reached."""
    found: dict[str, Any] = {"": broker}
    seen = {id(broker)}
    waiting = deque([("", broker)])
    while waiting:
        path, object_ = waiting.popleft()
        for name, value in _attributes(object_):
            if id(value) in seen:
                continue
            at = f"{path}.{name}" if path else name
            if _is_of_core(value):
                if not isinstance(value, MatchIndex | Metering):
                    waiting.append((at, value))
            elif type(value) not in _CONTAINERS:
                continue
            seen.add(id(value))
            found[at] = value
    return found


def _at(broker: Broker, path: str) -> Any:
    found: Any = broker
    for name in path.split(".") if path else ():
        found = getattr(found, name, None)
    return found


def _attributes(object_: Any) -> Iterator[tuple[str, Any]]:
    """All attributes of an object that have a value, in a fixed order."""
    for class_ in type(object_).__mro__:
        for name in class_.__dict__.get("__slots__", ()):
            if hasattr(object_, name):
                yield name, getattr(object_, name)
    yield from getattr(object_, "__dict__", {}).items()


def _is_of_core(value: Any) -> bool:
    """Whether this is an object of the core that is more than a value or a function."""
    type_ = type(value)
    return (
        type_.__module__.startswith(_CORE)
        and not issubclass(type_, msgspec.Struct | enum.Enum)
        and not isinstance(value, type)
    )


def _is_member(value: Any) -> bool:
    """Whether it is told from others by identity: its contents can be filled in later."""
    type_: Any = type(value)
    return _is_of_core(value) and type_.__hash__ in (object.__hash__, None)


def _is_fixed(path: str, value: Any) -> bool:
    """Whether whoever starts the broker has the last word: settings and telemetry records."""
    return path == "config" or path.startswith("config.") or isinstance(value, Metering)


def _may_occur(found: Any) -> bool:
    """Whether this is a class of plain values of ours."""
    return (
        isinstance(found, type)
        and found.__module__.startswith(_PACKAGES)
        and (
            issubclass(found, msgspec.Struct | enum.Enum | tuple) or dataclasses.is_dataclass(found)
        )
    )


# --- writing -------------------------------------------------------------------------------


class _Writer(pickle.Pickler):
    """Writes states one after the other; what they refer to follows in its turn."""

    def __init__(self, skeleton: dict[str, Any]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=5)
        self._skeleton = skeleton
        self._path_of = {id(object_): path for path, object_ in skeleton.items()}
        self._number_of: dict[int, int] = {}
        self._members: list[Any] = []
        self._seen_types: set[type] = set()
        self._is_member_type: dict[type, bool] = {}

    def write(self) -> bytes:
        filled = [path for path, object_ in self._skeleton.items() if not _is_fixed(path, object_)]
        self.dump(filled)
        for path in filled:
            self.dump(_skeleton_state(self._skeleton[path]))
        written = 0
        while written < len(self._members):
            # Members that were found meanwhile are at the end of the same list.
            self.dump(_member_state(self._members[written]))
            written += 1
        self.dump(None)
        return self._file.getvalue()

    def reducer_override(self, value: Any) -> Any:
        """Looks at everything that is not a plain container, number or text."""
        type_ = type(value)
        if type_ is Filter:
            return read_filter, (_encode(value),)
        if type_ not in self._seen_types:
            self._check(value)
            if type_ not in _NAMED:
                self._seen_types.add(type_)
        return NotImplemented

    def _check(self, value: Any) -> None:
        if isinstance(value, np.ndarray | np.dtype) or value is read_filter:
            return
        named = value if hasattr(value, "__qualname__") else type(value)
        if not _may_occur(named) and (named.__module__, named.__qualname__) not in _OTHERS:
            raise SnapshotError(f"{value!r} has no place in a snapshot")

    def persistent_id(self, value: Any) -> Any:
        type_ = type(value)
        if type_ in _PLAIN:
            return None
        if type_ in _CONTAINERS:
            path = self._path_of.get(id(value))
            return None if path is None else (_SKELETON, path)
        if type_ is MethodType:
            return _METHOD, value.__self__, value.__name__
        is_member = self._is_member_type.get(type_)
        if is_member is None:
            is_member = self._is_member_type[type_] = _is_member(value)
        path = self._path_of.get(id(value))
        if path is not None:
            return _SKELETON, path
        if not is_member:
            return None
        number = self._number_of.get(id(value))
        if number is None:
            number = self._number_of[id(value)] = len(self._members)
            self._members.append(value)
        return _MEMBER, number, type_.__module__, type_.__qualname__


def _skeleton_state(object_: Any) -> Any:
    if isinstance(object_, MatchIndex):
        return list(object_.entries())
    if type(object_) in _CONTAINERS:
        # As a tuple: a container is written as a reference to itself.
        return tuple(object_.items() if isinstance(object_, dict) else object_)
    return {
        name: value
        for name, value in _attributes(object_)
        if not callable(value) and name not in _TELEMETRY
    }


def _member_state(object_: Any) -> Any:
    if isinstance(object_, MatchIndex):
        return list(object_.entries())
    state = dict(_attributes(object_))
    if isinstance(object_, Session):
        # Remembered answers of an index that will be built anew.
        state["routes"], state["routes_version"] = {}, -1
    return state


# --- reading -------------------------------------------------------------------------------


class _Reader(pickle.Unpickler):
    """Fills a fresh skeleton and makes the members it refers to."""

    def __init__(self, data: bytes, skeleton: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._skeleton = skeleton
        self._members: dict[int, Any] = {}

    def fill(self) -> None:
        for path in self.load():
            state = self.load()
            if path in self._skeleton or not path.startswith(_TELEMETRY):
                _fill(self._skeleton[path], state)
        number = 0
        while (state := self.load()) is not None:
            _fill(self._members[number], state)
            number += 1

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _OTHERS:
            return super().find_class(module, name)
        if module.startswith(_PACKAGES):
            found = super().find_class(module, name)
            if _may_occur(found):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a snapshot")

    def persistent_load(self, pid: Any) -> Any:
        kind, what, *rest = pid
        if kind == _MEMBER:
            found = self._members.get(what)
            if found is None:
                found = self._members[what] = _blank(*rest)
            return found
        if kind == _SKELETON:
            is_telemetry = what.startswith(_TELEMETRY)
            return self._skeleton.get(what) if is_telemetry else self._skeleton[what]
        return _method(what, *rest)


def _method(object_: Any, name: str) -> MethodType:
    method = getattr(type(object_), name)
    if not isinstance(method, FunctionType) or not _is_of_core(object_):
        raise pickle.UnpicklingError(f"{name} is no method of the core")
    return MethodType(method, object_)


def _blank(module: str, name: str) -> Any:
    if not module.startswith(_CORE):
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a snapshot")
    class_ = getattr(importlib.import_module(module), name)
    made = class_.__new__(class_)
    if not _is_member(made):
        raise pickle.UnpicklingError(f"{module}.{name} is no member of a broker")
    if isinstance(made, MatchIndex):
        made.__init__()  # type: ignore[misc]
    return made


def _fill(object_: Any, state: Any) -> None:
    if isinstance(object_, MatchIndex):
        for key, filter_, destination in state:
            object_.add(key, filter_, destination)
        return
    if type(object_) in _CONTAINERS:
        object_.clear()
        (object_.extend if isinstance(object_, list | deque) else object_.update)(state)
        return
    for name, value in state.items():
        object.__setattr__(object_, name, value)
