"""The public names: what `import pubweave` offers, that it stays cheap, and that examples run."""

from __future__ import annotations

import doctest
import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = ("autopilot", "demo", "design", "experiments", "pipeline", "planning", "plots")
ROOMS = ("pubweave", *(f"pubweave.{package}" for package in PACKAGES))
WITH_EXAMPLES = (
    "pubweave",
    "pubweave.autopilot",
    "pubweave.demo.world",
    "pubweave.design.methods",
    "pubweave.design.relocation.publisher",
    "pubweave.experiments",
    "pubweave.planning.solver",
    "pubweave.plots",
    "pubweave.sim",
)


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_there(room: str) -> None:
    module = import_module(room)
    for name in module.__all__:
        found = getattr(module, name)
        assert found is getattr(import_module(room), name)
        assert found.__doc__, f"{room}.{name} says nothing of itself"


@pytest.mark.parametrize("room", ROOMS)
def test_another_name_is_an_attribute_error(room: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        import_module(room).nothing  # noqa: B018


def test_importing_the_library_loads_nothing_heavy() -> None:
    code = (
        f"import sys, {', '.join(ROOMS)};"
        "heavy = {'numba', 'numpy', 'pyspark', 'matplotlib', 'pyarrow', 'asyncio', 'click'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_functions_win_over_modules_of_the_same_name() -> None:
    """Whatever was imported before."""
    import pubweave.pipeline.batch
    import pubweave.planning.solver

    assert callable(pubweave.planning.solve)
    assert callable(pubweave.pipeline.profile)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_of_public_names_run(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert result.attempted
    assert not result.failed
