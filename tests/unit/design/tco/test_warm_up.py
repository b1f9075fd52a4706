"""After the warm-up no overlay has to wait for a compiler."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from pubweave.design import tco
from pubweave.design.warm_up import warm_up_tco
from pubweave.experiments.shadows.setting import ShadowsSetting, make_world
from pubweave.generate.workloads.churn_rounds import Popularity

CALL = re.compile(r"\b(?:_?kernels\w*)\.(\w+)\(")


def called_kernels() -> dict[str, Any]:
    """The compiled functions that the package's other modules call, by name."""
    folder = Path(tco.__path__[0])
    names = {name for path in folder.glob("*.py") for name in CALL.findall(path.read_text())}
    found = {}
    for path in folder.glob("_kernels/[a-z]*.py"):
        module = importlib.import_module(f"{tco.__name__}._kernels.{path.stem}")
        known = {name: getattr(module, name, None) for name in names}
        found.update({name: k for name, k in known.items() if hasattr(k, "signatures")})
    return found


def test_every_kernel_is_compiled_once_for_all() -> None:
    warm_up_tco()
    kernels = called_kernels()
    assert len(kernels) > 15
    assert [name for name, kernel in kernels.items() if not kernel.signatures] == []
    before = {name: kernel.signatures for name, kernel in kernels.items()}
    world = make_world(ShadowsSetting(Popularity.ZIPF, 1, nodes=80, topics=20, rounds=30))
    for variant in ("lean", "shadow, greedy backups", "naive"):
        world.play(variant, lambda: 0.0)
    assert {name: kernel.signatures for name, kernel in kernels.items()} == before
