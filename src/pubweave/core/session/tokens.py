"""Tokens that nobody can guess, without a source of chance in the core.

The driver gives a broker a secret when it makes it. What the broker derives from that is the same
when its events are replayed, for the secret is part of its state and so of its snapshots.
"""

from __future__ import annotations

import hashlib
import hmac

TAG_LENGTH = 32
"""In hexadecimal digits: 128 bits."""


class Tokens:
    """What one broker derives from its secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def tag(self, *words: str) -> str:
        """What only who knows the secret can put behind these words."""
        return tag_of(self._secret, *words)


def tag_of(key: bytes, *words: str) -> str:
    """A key's tag of some words.

    >>> len(tag_of(b"key", "a", "b"))
    32
    >>> tag_of(b"key", "a", "b") == tag_of(b"key", "ab")
    False
    """
    message = b"".join(len(data).to_bytes(4, "big") + data for data in map(str.encode, words))
    return hmac.new(key, message, hashlib.sha256).hexdigest()[:TAG_LENGTH]


def is_same(given: str, expected: str) -> bool:
    """Whether two tokens are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(given.encode(), expected.encode())
