"""Amounts as people read them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "step")
    '1 step'
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def bytes_in_words(count: float) -> str:
    """A size as people read it.

    >>> bytes_in_words(1536)
    '1.5 kB'
    """
    for unit in ("B", "kB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"


def seconds_in_words(seconds: float) -> str:
    """A duration as people read it.

    >>> seconds_in_words(3725)
    '1:02:05'
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
