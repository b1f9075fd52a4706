"""What a broker refuses a client."""

from __future__ import annotations


class RefusedError(Exception):
    """A client asked for something a strategy does not accept; the client is told the reason."""
