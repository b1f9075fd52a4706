"""Where a broker listens: ``host:port`` as people write it."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

DEFAULT_HOST = "127.0.0.1"
PORT_MAX = 65535


class Address(NamedTuple):
    """A host and a TCP port.

    >>> Address.parse("7001")
    Address(host='127.0.0.1', port=7001)
    >>> str(Address.parse("[::1]:7001"))
    '[::1]:7001'
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port``, ``[v6]:port`` or ``port`` (loopback)."""
        host, _, port = text.strip().rpartition(":")
        if not port.isdecimal():
            raise ValueError(f"{text!r} is no address: write host:port, for example 127.0.0.1:7001")
        if int(port) > PORT_MAX:
            raise ValueError(f"{text!r} is no address: ports go up to {PORT_MAX}")
        host = host.removeprefix("[").removesuffix("]")
        return cls(host or DEFAULT_HOST, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bound_sockets(places: Iterable[Any], port: int) -> Iterator[socket.socket]:
    """A socket bound at each of the places that ``getaddrinfo`` found, all at one port: that of the
    first, if any would do. OSError where one cannot be had."""
    for family, kind, protocol, _, place in dict.fromkeys(places):
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((place[0], port, *place[2:]))
        except OSError:
            bound.close()
            raise
        port = bound.getsockname()[1]
        yield bound


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host, as far as its name tells."""
    return host == "localhost" or host == "::1" or host.startswith("127.")
