"""Numbers that are others with every profile, in queries that stay the same.

Spark writes numbers into the code that it generates for a query, so a query with another number is
generated, compiled and translated anew: a tenth of a refresh. Texts it hands over beside the code.
In a session for little data, which does not fold constants, a number given as text leaves the code
as it was; in others it is folded and makes no difference.
"""

from __future__ import annotations


def moving(value: float) -> str:
    """A number that changes from profile to profile, as an expression.

    >>> moving(12.5), moving(7)
    ("double('12.5')", "bigint('7')")
    """
    return f"{'bigint' if isinstance(value, int) else 'double'}('{value!r}')"
