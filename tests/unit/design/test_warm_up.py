"""After the warm-up no design has to wait for a compiler."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from pubweave import design
from pubweave.design.warm_up import warm_up

INNER = {"row_starts"}
"""Called by kernels only: compiled with them, and not loaded where those come from the cache."""


def kernels() -> dict[str, Any]:
    """The compiled functions that other modules call, by name."""
    found = {}
    for module in pkgutil.walk_packages(design.__path__, design.__name__ + "."):
        if module.name.endswith("._kernels"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if hasattr(value, "signatures") and not name.startswith("_") and name not in INNER:
                    found[name] = value
    return found


def test_every_kernel_is_compiled_once() -> None:
    warm_up()
    found = kernels()
    assert len(found) > 5
    assert [name for name, kernel in found.items() if not kernel.signatures] == []
