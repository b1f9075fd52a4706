"""What other packages add to pubweave, found by their entry points.

A package that is installed beside pubweave names its additions in its ``pyproject.toml``:

    [project.entry-points."pubweave.strategies"]
    flooding = "my_package.flooding:FLOODING"

There are three groups: ``pubweave.strategies``, ``pubweave.designs`` and ``pubweave.scenarios``.
Nothing is imported before it is asked for by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

T = TypeVar("T")


class PluginError(ValueError):
    """An addition of another package cannot be used."""


@cache
def plugins(group: str) -> Mapping[str, EntryPoint]:
    """The additions of a group by name. Read once per process; O(installed packages)."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group)):
        if point.name in found and found[point.name].value != point.value:
            raise PluginError(
                f"two installed packages add {point.name!r} to {group}: uninstall "
                f"{_package_of(point)} or {_package_of(found[point.name])}"
            )
        found[point.name] = point
    return found


def names(group: str, built_in: Mapping[str, Any]) -> list[str]:
    """All names of a group: those built in, then those that other packages add."""
    return [*built_in, *(name for name in plugins(group) if name not in built_in)]


def find(group: str, built_in: Mapping[str, T], name: str) -> T:
    """What has this name; a built-in name cannot be replaced. PluginError lists the names."""
    if name in built_in:
        return built_in[name]
    point = plugins(group).get(name)
    if point is None:
        kind = group.rpartition(".")[2]
        raise PluginError(f"no {name!r} in {kind}: choose {', '.join(names(group, built_in))}")
    try:
        loaded: T = point.load()
    except (ImportError, AttributeError) as error:
        raise PluginError(
            f"{point.name!r} of package {_package_of(point)} cannot be loaded from "
            f"{point.value!r}: {error}"
        ) from error
    return loaded


def _package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
