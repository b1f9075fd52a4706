"""The session directory: which gateway has which session, as far as announced."""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.mqtt.session.cluster_messages import digest_of
from pubweave.model.ids import BrokerId


class SessionDirectory:
    """Sessions at other gateways, with a digest for each gateway.

    >>> directory = SessionDirectory()
    >>> directory.put("mqtt:ann", "b2")
    >>> directory.holder_of("mqtt:ann"), directory.digest("b2") == digest_of(["mqtt:ann"])
    ('b2', True)
    >>> directory.discard("mqtt:ann"), directory.digest("b2")
    ('b2', 0)
    """

    def __init__(self) -> None:
        self._by_name: dict[str, BrokerId] = {}
        self._digests: dict[BrokerId, int] = {}

    def holder_of(self, name: str) -> BrokerId:
        """The gateway that has a session; empty if none has announced it."""
        return self._by_name.get(name, "")

    def digest(self, gateway: BrokerId) -> int:
        """As the gateway itself would compute it (`digest_of`). O(1)."""
        return self._digests.get(gateway, 0)

    def put(self, name: str, gateway: BrokerId) -> None:
        self.discard(name)
        self._by_name[name] = gateway
        self._digests[gateway] = self.digest(gateway) ^ digest_of((name,))

    def discard(self, name: str) -> BrokerId:
        """Remove a session; the gateway that had it, or empty."""
        gateway = self._by_name.pop(name, "")
        if gateway:
            self._digests[gateway] ^= digest_of((name,))
        return gateway

    def discard_at(self, gateway: BrokerId, names: Iterable[str]) -> None:
        """Remove sessions that ended at a gateway, unless they are elsewhere by now."""
        for name in names:
            if self.holder_of(name) == gateway:
                self.discard(name)

    def discard_gateway(self, gateway: BrokerId) -> None:
        """O(sessions)."""
        for name in [n for n, holder in self._by_name.items() if holder == gateway]:
            self.discard(name)
        self._digests.pop(gateway, None)
