"""The error of everything that starts, finds or secures an overlay."""

from __future__ import annotations


class OverlayError(ValueError):
    """An overlay that cannot be started or found, with the reason and the remedy in words."""
