"""The publications that a broker holds, wherever in it: what dies with its memory.

Its queues, gates, holds and logs are not known here by name: all that the broker's objects refer
to is looked at, so nothing that holds publications can be forgotten.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pubweave.core.broker import Broker
from pubweave.model.publications import Publication
from pubweave.sim.checkers.history import Key

_CONTAINERS = (list, tuple, set, frozenset, deque)
_LEAVES = (str, bytes, int, float, type(None), type)


def publications_in(broker: Broker) -> frozenset[Key]:
    """O(the broker's objects)."""
    found: set[Key] = set()
    seen: set[int] = set()
    todo: list[Any] = [broker]
    while todo:
        each = todo.pop()
        if isinstance(each, _LEAVES) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Publication):
            found.add(each.key)
        elif isinstance(each, dict):
            todo += each.keys()
            todo += each.values()
        elif isinstance(each, _CONTAINERS):
            todo += each
        if type(each).__module__.startswith("pubweave."):
            todo += getattr(each, "__dict__", {}).values()
            names = (n for c in type(each).__mro__ for n in getattr(c, "__slots__", ()))
            todo += (getattr(each, name, None) for name in names)
    return frozenset(found)
