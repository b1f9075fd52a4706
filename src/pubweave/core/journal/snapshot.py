"""The whole state of a broker as bytes, and a broker made from them.

A snapshot is complete by construction: no module says what of it is worth keeping, so none can
forget to. A broker's objects are of three kinds:

- the *skeleton*: what the constructor makes (sessions table, routing, actions, their dictionaries
  and lists), with all the callbacks between them. It is made afresh by the constructor and then
  filled in place, because callbacks may have hold of any of it;
- *members*: other mutable objects of the core (sessions, tables, the part in an action), which are
  created empty, numbered, and filled;
- *values*: containers, messages, filters, everything compared by value.

The bytes say what shape everything has: each class by its name with its fields by theirs, so a
version that has other names or more fields can read them (`shape`).

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
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec
import numpy as np

from pubweave.core.broker import Broker, no_journal
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.journal import shape
from pubweave.core.matching.index import MatchIndex
from pubweave.core.metering.metering import Metering
from pubweave.model.filters.filter import Filter
from pubweave.model.records.status import JournalStatus

_ROOT = "pubweave."
_CORE = "pubweave.core."
_PACKAGES = (_CORE, "pubweave.model.", "pubweave.design.")
_OTHERS = {
    (__name__, "read_filter"),
    (__name__, "stored_class"),
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


_PLAIN = frozenset({str, int, float, bool, bytes, type(None), tuple, Filter, type, FunctionType})
"""What is no reference to an object of the core, and most frequent."""
_CONTAINERS = frozenset({dict, list, set, deque})
_NAMED = (type, FunctionType, BuiltinFunctionType)
"""Of these not the kind matters but which one it is."""
_encode = msgspec.msgpack.Encoder().encode
_decode_filter = msgspec.msgpack.Decoder(Filter).decode


def read_filter(data: bytes) -> Filter:
    """A filter as it travels; there are many, and this is the fastest way."""
    return _decode_filter(data)


def stored_class(name: str, fields: tuple[str, ...]) -> None:
    """Stands in a snapshot for the class of this name, which had these fields (`_Reader`)."""


class SnapshotError(ValueError):
    """Bytes that are no snapshot of this version's broker, or a broker of which none can be made;
    says why."""


def take_snapshot(broker: Broker) -> bytes:
    """The state of a broker. O(state); the broker is not changed. SnapshotError: something in it
    could not be read again."""
    is_metered = getattr(broker, _TELEMETRY[0]) is not None
    found: dict[str, Any] = {"": broker}
    skeleton = {}
    for path, parent, name, type_ in _places(broker.config, is_metered):
        if parent is not None:
            found[path] = _step(found[parent], name)
        if type(found[path]) is type_ is not tuple:
            skeleton[path] = found[path]
    return _Writer(skeleton).write()


def restore_broker(
    data: bytes,
    config: BrokerConfig,
    *,
    epoch: int,
    now: float,
    metering: Metering | None = None,
    journal_status: Callable[[float], JournalStatus | None] = no_journal,
) -> Broker:
    """The broker whose snapshot this is, as it was. O(state), and O(filters) for their index."""
    broker = Broker(config, epoch=epoch, now=now, metering=metering, journal_status=journal_status)
    try:
        _Reader(data, broker).fill()
    except shape.ShapeError as error:
        raise SnapshotError(
            f"{error}: start the version that wrote it and take the broker out of the overlay "
            f"before the upgrade, or remove the directory, with all that only this broker has"
        ) from error
    except (pickle.UnpicklingError, EOFError, ValueError, *_WRONG) as error:
        raise SnapshotError(f"not a snapshot of this version of pubweave: {error}") from error
    return broker


# --- the skeleton --------------------------------------------------------------------------


Place = tuple[str, str | None, str, type]
"""A path, the path that it goes on from (None: it is the broker itself) and by which name, and the
type of what is there in a fresh broker."""


_MOST_KNOWN = 64
_known_places: dict[tuple[str, bool], list[Place]] = {}


def _places(config: BrokerConfig, is_metered: bool) -> list[Place]:
    """Where the objects are that a fresh broker consists of, and tuples on the way to them."""
    # What brokers are made of has nothing to do with their names, secrets and users.
    config = replace(config, id="twin", secret=b"", access=None)
    key = repr(config), is_metered
    places = _known_places.get(key)
    if places is None:
        metering = Metering(config.id, 1.0, epoch=1) if is_metered else None
        places = _walk(Broker(config, epoch=1, now=0.0, metering=metering))[1]
        if len(_known_places) >= _MOST_KNOWN:
            _known_places.clear()
        _known_places[key] = places
    return places


def _paths(broker: Broker) -> dict[str, Any]:
    """The objects that a fresh broker consists of, by how they are reached."""
    return _walk(broker)[0]


def _walk(broker: Broker) -> tuple[dict[str, Any], list[Place]]:
    found: dict[str, Any] = {"": broker}
    places: list[Place] = [("", None, "", type(broker))]
    seen = {id(broker)}
    waiting: deque[tuple[str, Any]] = deque([("", broker)])
    while waiting:
        path, object_ = waiting.popleft()
        for name, value in _attributes(object_):
            if id(value) in seen:
                continue
            at = f"{path}.{name}" if path else name
            if _is_of_core(value):
                if not isinstance(value, MatchIndex | Metering):
                    waiting.append((at, value))
            elif type(value) is tuple:
                waiting.append((at, value))
                places.append((at, path, name, tuple))
                continue
            elif type(value) not in _CONTAINERS:
                continue
            seen.add(id(value))
            found[at] = value
            places.append((at, path, name, type(value)))
    return found, places


def _step(object_: Any, name: str) -> Any:
    """What an object has under a name, or a tuple at a place; None: nothing."""
    if isinstance(object_, tuple):
        return object_[int(name)] if int(name) < len(object_) else None
    return getattr(object_, name, None)


def _attributes(object_: Any) -> Iterable[tuple[str, Any]]:
    """All attributes of an object that have a value, in a fixed order; of a tuple its items."""
    if type(object_) is tuple:
        return [(str(place), value) for place, value in enumerate(object_)]
    own: Iterable[tuple[str, Any]] = getattr(object_, "__dict__", {}).items()
    slots = _slots_of(type(object_))  # type: ignore[arg-type]
    if not slots:
        return own
    return [*((name, getattr(object_, name)) for name in slots if hasattr(object_, name)), *own]


@cache
def _slots_of(type_: type) -> tuple[str, ...]:
    return tuple(name for class_ in type_.__mro__ for name in class_.__dict__.get("__slots__", ()))


def _is_of_core(value: Any) -> bool:
    """Whether this is an object of the core that is more than a value or a function."""
    return not isinstance(value, type) and _is_core_class(type(value))  # type: ignore[arg-type]


@cache
def _is_core_class(type_: type) -> bool:
    return type_.__module__.startswith(_CORE) and not issubclass(type_, msgspec.Struct | enum.Enum)


def _is_member_class(type_: Any) -> bool:
    """Whether its objects are told apart by identity: their contents can be filled in later."""
    return _is_core_class(type_) and type_.__hash__ in (object.__hash__, None)


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
        self._fields_taken: dict[type, Any] = {}

    def write(self) -> bytes:
        filled = [path for path, object_ in self._skeleton.items() if not _is_fixed(path, object_)]
        self.dump(filled)
        for path in filled:
            object_ = self._skeleton[path]
            class_ = type(object_) if _is_of_core(object_) else None
            self.dump((class_, _skeleton_state(object_)))
        written = 0
        while written < len(self._members):
            # Members that were found meanwhile are at the end of the same list.
            self.dump(_member_state(self._members[written]))
            written += 1
        self.dump(None)
        return self._file.getvalue()

    def reducer_override(self, value: Any) -> Any:
        """Looks at everything that is not a plain container, number or text."""
        type_: Any = type(value)
        if type_ is Filter:
            return read_filter, (_encode(value),)
        if (take := self._fields_taken.get(type_)) is not None:
            return type_, take(value)
        if isinstance(value, type) and value.__module__.startswith(_PACKAGES):
            name = f"{value.__module__.removeprefix(_ROOT)}.{value.__qualname__}"
            return stored_class, (name, shape.fields_of(value))
        if type_ not in self._seen_types:
            self._check(value)
            if type_ not in _NAMED:
                self._seen_types.add(type_)
        if (taken := _taker(type_)) is None:
            return NotImplemented
        self._fields_taken[type_] = taken
        return type_, taken(value)

    def _check(self, value: Any) -> None:
        if (
            isinstance(value, np.ndarray | np.dtype)
            or value is read_filter
            or value is stored_class
        ):
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
            is_member = self._is_member_type[type_] = _is_member_class(type_)
        path = self._path_of.get(id(value))
        if path is not None:
            return _SKELETON, path
        if not is_member:
            return None
        number = self._number_of.get(id(value))
        if number is None:
            number = self._number_of[id(value)] = len(self._members)
            self._members.append(value)
        return _MEMBER, number, type_


def _taker(type_: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """What takes the fields of a value, in order; None: it is told how to be written already."""
    if issubclass(type_, tuple):
        return tuple
    if not dataclasses.is_dataclass(type_):
        return None
    names = shape.fields_of(type_)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


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
    return dict(_attributes(object_))


# --- reading -------------------------------------------------------------------------------


class _Reader(pickle.Unpickler):
    """Fills a fresh skeleton and makes the members it refers to."""

    def __init__(self, data: bytes, broker: Broker) -> None:
        super().__init__(io.BytesIO(data))
        self._broker = broker
        self._skeleton = _paths(broker)
        self._members: dict[int, Any] = {}
        self._changed: dict[type, tuple[str, ...]] = {}
        """Classes whose fields were others when this was written, and which they were."""

    def fill(self) -> None:
        for path in self.load():
            _, state = self.load()
            if (object_ := self._at(path)) is not None:
                self._fill(object_, state, is_made=True)
        number = 0
        while (state := self.load()) is not None:
            self._fill(self._members[number], state)
            number += 1

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, stored_class.__name__):
            return self._stored_class
        if (module, name) in _OTHERS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a snapshot")

    def _stored_class(self, name: str, fields: tuple[str, ...]) -> Any:
        """A class, or what makes an object of it of the fields that it had."""
        module, _, class_name = f"{_ROOT}{shape.class_name(name)}".rpartition(".")
        if not module.startswith(_PACKAGES):
            raise pickle.UnpicklingError(f"{name} has no place in a snapshot")
        try:
            found = getattr(importlib.import_module(module), class_name)
        except (ImportError, AttributeError) as error:
            raise shape.ShapeError(
                f"the journal has a {name}, which this version does not know (say in "
                f"core/journal/shape.py where it is)"
            ) from error
        if not isinstance(found, type) or not (_is_core_class(found) or _may_occur(found)):
            raise pickle.UnpicklingError(f"{name} has no place in a snapshot")
        is_value = _may_occur(found) and not _is_member_class(found)
        if is_value and issubclass(found, enum.Enum):
            return found
        is_same = fields == shape.fields_of(found)
        if is_value:
            return _maker(found) if is_same else _Converter(found, fields)
        if not is_same or shape.is_changed(found):
            self._changed[found] = fields
        return found

    def persistent_load(self, pid: Any) -> Any:
        kind, what, *rest = pid
        if kind == _MEMBER:
            found = self._members.get(what)
            if found is None:
                found = self._members[what] = _blank(*rest)
            return found
        if kind == _SKELETON:
            return self._at(what)
        return _method(what, *rest)

    def _at(self, path: str) -> Any:
        """What the skeleton has there; None: it is not needed any more."""
        found = self._skeleton.get(path)
        if found is not None or path.startswith(_TELEMETRY):
            return found
        found = self._broker
        for stored in path.split("."):
            name = shape.attribute(type(found), stored, found)
            found = None if name is None else getattr(found, name, None)
            if found is None:
                return None
        self._skeleton[path] = found
        return found

    def _fill(self, object_: Any, state: Any, *, is_made: bool = False) -> None:
        """``is_made``: it was constructed, so what the state lacks is there."""
        if isinstance(object_, MatchIndex):
            for key, filter_, destination in state:
                object_.add(key, filter_, destination)
            return
        type_ = type(object_)
        if type_ in _CONTAINERS:
            object_.clear()
            (object_.extend if isinstance(object_, list | deque) else object_.update)(state)
            return
        if type_ in self._changed:
            state = _converted(type_, state, self._changed[type_], object_ if is_made else None)
        for name, value in state.items():
            object.__setattr__(object_, name, value)


def _converted(
    type_: type, state: dict[str, Any], fields: tuple[str, ...], made: Any
) -> dict[str, Any]:
    """What the fields are called now, with those that were not there yet."""
    found = {}
    for stored, value in state.items():
        name = shape.attribute(type_, stored, made)
        if name is not None:
            found[name] = value
    if made is None:
        had = {shape.renamed(type_, each) for each in fields}
        for name in shape.fields_of(type_):
            if name not in had:
                found[name] = shape.default(type_, name)
    return found


class _Converter:
    """Makes values whose class had other fields when they were written."""

    def __init__(self, class_: type, fields: tuple[str, ...]) -> None:
        self._class = class_
        self._fields = fields
        self._make = _maker(class_)

    def __call__(self, *values: Any) -> Any:
        state = dict(zip(self._fields, values, strict=True))
        known = _converted(self._class, state, self._fields, None)
        return self._make(*(known[name] for name in shape.fields_of(self._class)))


def _is_made_of_its_fields(class_: Any) -> bool:
    """Whether the constructor of a dataclass takes them in order and does nothing else."""
    return not hasattr(class_, "__post_init__") and all(
        field.init and not field.kw_only for field in dataclasses.fields(class_)
    )


def _maker(class_: type[Any]) -> Callable[..., Any]:
    """Makes a value of its fields in order, without running code of a dataclass."""
    if not dataclasses.is_dataclass(class_) or _is_made_of_its_fields(class_):
        return class_
    names = shape.fields_of(class_)

    def make(*values: Any) -> Any:
        made: Any = object.__new__(class_)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(made, name, value)
        return made

    return make


def _method(object_: Any, name: str) -> MethodType:
    method = getattr(type(object_), name)
    if not isinstance(method, FunctionType) or not _is_of_core(object_):
        raise pickle.UnpicklingError(f"{name} is no method of the core")
    return MethodType(method, object_)


def _blank(class_: Any) -> Any:
    if not _is_member_class(class_):
        raise pickle.UnpicklingError(f"{class_} is no member of a broker")
    made = class_.__new__(class_)
    if isinstance(made, MatchIndex):
        made.__init__()  # type: ignore[misc]
    return made
