"""One browser for all tests of a file.

Not for the whole session: playwright's event loop runs as long as its browser does, and whatever
test comes next in this process could not run one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.look import opened_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened
