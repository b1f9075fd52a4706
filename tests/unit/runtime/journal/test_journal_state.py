"""When other code can read the state of a broker: its classes have the same attributes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubweave.runtime.journal.disk import state_shape

SOURCE = """
class Session:
    limit: int = 3

    def __init__(self):
        self.queue = []

    def size(self):
        return len(self.queue)
"""


def shape(folder: Path, source: str) -> str:
    for name in ("core", "design", "model"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "core" / "session.py").write_text(source)
    return state_shape(folder)


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        ("return len(self.queue)", "return 7 + len(self.queue)"),
        (
            "def size(self):",
            "def twice(self):\n        return 2 * self.size()\n\n    def size(self):",
        ),
        ("limit: int = 3", "limit: int = 4"),
    ],
)
def test_what_methods_do_does_not_matter(tmp_path: Path, written: str, changed: str) -> None:
    assert shape(tmp_path, SOURCE) == shape(tmp_path, SOURCE.replace(written, changed))


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        ("self.queue = []", "self.queue = []\n        self.more = 0"),
        ("queue", "messages"),
        ("limit: int", "limit: float"),
        ("class Session:", "class Session(Base):"),
        ("class Session:", "class Link:"),
        ("limit: int = 3", "limit: int = 3\n    A = 1"),
    ],
)
def test_what_objects_have_does(tmp_path: Path, written: str, changed: str) -> None:
    assert shape(tmp_path, SOURCE) != shape(tmp_path, SOURCE.replace(written, changed))
