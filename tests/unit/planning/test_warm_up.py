"""After the warm-up no plan has to wait for a compiler."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pubweave import planning
from pubweave.planning.warm_up import warm_up

PLANS = """
import time
import numpy as np
from pubweave.generate.topologies.trees import change_links
from pubweave.generate.topologies.trees import ipitt_topologies
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.planning.solver import solve_problem

source = ipitt_topologies(20, 3)["degree6-balanced-1"]
target = change_links(source, 0.2, np.random.default_rng(3))
never = frozenset(sorted(ipitt_topologies(20, 4)["degree5-balanced-1"].links)[:4])
never = never - source.links - target.links
for options in ({}, {"max_degree": 9}, {"disjoint_brokers": True}, {"forbidden": never}):
    for method in ("auto", "fast"):
        until = time.perf_counter() + 5
        problem = PlanningProblem(source, target, **options)
        stop = lambda: time.perf_counter() > until
        assert solve_problem(problem, method=method, stop=stop, clock=time.perf_counter).plan
"""


def entries() -> dict[str, Any]:
    """The kernels that plain Python calls, by name. Those that only kernels call are private or
    lie in `_kernels`: where the caller comes from the cache, they have no signatures themselves."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(planning.__path__, "pubweave.planning."):
        if "._kernels" not in module.name and not module.ispkg:
            members = vars(importlib.import_module(module.name)).items()
            found |= {
                name: value
                for name, value in members
                if hasattr(value, "signatures") and not name.startswith("_")
            }
    return found


def test_the_warm_up_calls_every_kernel_that_a_plan_calls() -> None:
    warm_up()
    assert "greedy_plan" in entries()
    for name, kernel in entries().items():
        assert kernel.signatures, f"{name} was not compiled"


@pytest.mark.slow
def test_plans_compile_nothing_after_the_warm_up(tmp_path: Path) -> None:
    """From an empty cache, in processes of their own, under every option."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def compiled_by(*arguments: str) -> set[str]:
        subprocess.run([sys.executable, *arguments], env=environment, check=True)
        return {path.name for path in tmp_path.rglob("*.nbc")}

    warm = compiled_by("-m", "pubweave.planning.warm_up")
    assert len(warm) > 10
    assert compiled_by("-c", PLANS) == warm
