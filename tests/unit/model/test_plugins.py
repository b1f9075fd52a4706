"""Additions of other packages: found by name, loaded when asked for, clear when broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pubweave.model import plugins

GROUP = "pubweave.scenarios"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages of our own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.plugins.cache_clear()
    yield tmp_path
    plugins.plugins.cache_clear()
    sys.modules.pop("storms", None)


def install(site: Path, package: str, name: str, target: str) -> None:
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n")


def test_an_installed_package_adds_a_name(site: Path) -> None:
    (site / "storms.py").write_text("STORM = 'a storm'\n")
    install(site, "storms", "storm", "storms:STORM")
    assert plugins.names(GROUP, {"calm": "calm"}) == ["calm", "storm"]
    assert plugins.find(GROUP, {"calm": "calm"}, "storm") == "a storm"


def test_a_built_in_name_is_not_replaced(site: Path) -> None:
    install(site, "storms", "calm", "storms:STORM")
    assert plugins.find(GROUP, {"calm": "built in"}, "calm") == "built in"
    assert plugins.names(GROUP, {"calm": "built in"}) == ["calm"]


def test_an_unknown_name_lists_all_names(site: Path) -> None:
    install(site, "storms", "storm", "storms:STORM")
    with pytest.raises(plugins.PluginError, match="no 'rain' in scenarios: choose calm, storm"):
        plugins.find(GROUP, {"calm": 1}, "rain")


def test_a_broken_package_is_named(site: Path) -> None:
    install(site, "storms", "storm", "storms:STORM")
    with pytest.raises(plugins.PluginError, match="'storm' of package storms cannot be loaded"):
        plugins.find(GROUP, {}, "storm")


def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "storms", "storm", "storms:STORM")
    install(site, "gales", "storm", "gales:STORM")
    with pytest.raises(plugins.PluginError, match="two installed packages add 'storm'"):
        plugins.find(GROUP, {}, "storm")
