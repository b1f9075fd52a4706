"""Public names that are imported on first use, so that ``import pubweave`` stays cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """``__getattr__`` and ``__all__`` of a package: ``homes`` has its names by module.

    For a module that is a public name itself, its name is written as a dot."""
    found: dict[str, tuple[str, bool]] = {}
    for module, names in homes.items():
        own = module.rpartition(".")[2]
        found |= {own if name == "." else name: (module, name == ".") for name in names.split()}

    def attribute(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, is_module = found[name]
        module = import_module(home)
        return module if is_module else getattr(module, name)

    return attribute, sorted(found)
