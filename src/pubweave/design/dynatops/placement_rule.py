"""Users where fewest topics of brokers begin and end: a utility that looks ahead.

DYNATOPS' similarity (section 4) counts how many of a user's topics a broker wants already. That
spares the topics which would begin now. But a topic that one user wants at a broker ends as soon as
this user changes its mind, and a topic that ten want does not. So a broker's topic with n users has
a *risk*, Phi(n): what it is expected to cost yet because it will end. A user that comes makes it
smaller: most where it is the second one. Placing a user where

    topics that begin and end now + the sum of Phi over all brokers and topics afterwards

is least takes users to topics that are about to end, as long as no topic must begin for it. Few
users then keep a topic alive, and few topics are left to chance.

Phi(n) = exp(1 - n): a topic with one user ends for sure some day (it costs the 1 that ending it
costs), and each further user makes that e times less likely. Other numbers were tried; it hardly
matters (`docs/papers/dynatops.md`).
"""

from __future__ import annotations

from math import exp

LAST_ONE = 2.0
"""What a topic that only the user itself wants counts for staying, beyond `worth(0)`: it would end
at the old broker and begin at the other one."""
ALIKE = 4
"""One in so many brokers of a cluster is taken to send users where we do: they have the same news.
Otherwise all would go where there was room when brokers last told of themselves."""
_SAFE = 40
"""With so many users nothing changes any more in the sums of float64."""


def risk(users: int) -> float:
    """Phi(n): what a broker's topic with so many users is expected to cost yet.

    >>> risk(0), risk(1), round(risk(2), 3)
    (0.0, 1.0, 0.368)
    """
    return exp(1 - users) if users else 0.0


def worth(others: int) -> float:
    """What it spares, of 1, if a user that wants a topic goes where so many others do.

    >>> [round(worth(others), 2) for others in range(5)]
    [-1.0, 1.63, 1.23, 1.09, 1.03]
    """
    begins = 0.0 if others else 1.0
    return 1.0 - begins + risk(others) - risk(others + 1)


WORTHS = tuple(worth(others) for others in range(_SAFE + 1))
"""By others at the broker; the last for all above."""
MOST_DIFFERENCE = max(WORTHS) - min(WORTHS)
"""How far two brokers can be apart in the eyes of a user, loads aside."""


def senders(brokers: int) -> int:
    """How many of a cluster's brokers are taken to do as we do.

    >>> senders(2), senders(100)
    (1, 25)
    """
    return max(1, brokers // ALIKE)


def worth_staying(others: int) -> float:
    """The same for a topic that the user has kept, at the broker where it is.

    >>> worth_staying(0), worth_staying(3) == worth(3)
    (1.0, True)
    """
    return WORTHS[min(others, _SAFE)] + (0.0 if others else LAST_ONE)
