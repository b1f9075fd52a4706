"""Bit sets as 64-bit words: exact, mergeable by OR, and inside Spark's generated code.

Spark's own ``bitmap_*`` functions take 4 kB per set, whatever it holds; sets of publications per
publisher and broker, of record numbers per broker, or of brokers per publication are small and
many. A word costs 8 bytes, and ``bit_or`` over words is a plain aggregate.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

WORD_BITS = 64


def word_of(number: str | Column) -> Column:
    """Which word a number's bit is in."""
    return F.shiftright(_column(number), 6)


def bit_in_word(number: str | Column) -> Column:
    """The word with only this number's bit."""
    place = _column(number).bitwiseAND(F.lit(WORD_BITS - 1)).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("long"), place)


def has_bit(word: str | Column, place: str | Column) -> Column:
    """Whether a bit (0 to 63) is set in a word."""
    shifted = F.call_function("shiftright", _column(word), _column(place).cast("int"))
    return shifted.bitwiseAND(F.lit(1).cast("long")) == 1


def _column(value: str | Column) -> Column:
    return F.col(value) if isinstance(value, str) else value
