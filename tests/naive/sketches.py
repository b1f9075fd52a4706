"""How far sketches may be off."""

from __future__ import annotations


def rank_error(kll_k: int) -> float:
    """How far the rank of an answer may be from the asked one, with 99 % confidence.

    The published fit for KLL sketches (single-sided) with a factor for three quantiles at a time.
    """
    return float(2.296 / kll_k**0.9021)
