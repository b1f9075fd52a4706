"""Kinds of numbers in settings: what a value from outside may be, checked where it is read."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
"""0 turns off what it bounds."""
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
CountOrZero = Annotated[int, Meta(ge=0)]
"""0 turns off what it bounds."""
