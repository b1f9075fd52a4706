"""The ports of an overlay, kept for its brokers while none of them listens there.

Each address is bound here but never listened at. Linux lets a broker bind the same port beside
that (both sides set SO_REUSEADDR) and refuses everybody once it listens; meanwhile no outgoing
connection and no other program is given the port by chance, not even while a broker restarts.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from pubweave.model.ids import BrokerId
from pubweave.runtime.net.addresses import Address, bound_sockets
from pubweave.runtime.net.errors import OverlayError


class ReservedPorts:
    """Reserves one address for each broker; ``addresses`` has the ports really got."""

    def __init__(self, wanted: Mapping[BrokerId, Address]) -> None:
        self.addresses: dict[BrokerId, Address] = {}
        self._sockets: list[socket.socket] = []
        try:
            for broker, address in wanted.items():
                self.addresses[broker] = self._reserve(broker, address)
        except BaseException:
            self.close()
            raise

    def _reserve(self, broker: BrokerId, address: Address) -> Address:
        port = address.port
        try:
            found = socket.getaddrinfo(
                address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for reserved in bound_sockets(found, port):
                self._sockets.append(reserved)
                port = reserved.getsockname()[1]
        except OSError as error:
            raise OverlayError(
                f"broker {broker!r} cannot listen at {address}: {error.strerror or error}; "
                "choose another --port (0: any free ones) or another address"
            ) from error
        return Address(address.host, port)

    def close(self) -> None:
        """Give the ports back."""
        for reserved in self._sockets:
            reserved.close()
        self._sockets.clear()

    def __enter__(self) -> ReservedPorts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
