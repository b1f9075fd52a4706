"""Which door has which session, as far as the others have said."""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.mqtt.session.cluster_messages import digest_of
from pubweave.model.ids import BrokerId


class SessionDirectory:
    """Sessions at other doors, with a digest of each door's.

    >>> holders = Holders()
    >>> holders.put("mqtt:ann", "b2")
    >>> holders.of("mqtt:ann"), holders.digest("b2") == digest_of(["mqtt:ann"])
    ('b2', True)
    >>> holders.discard("mqtt:ann"), holders.digest("b2")
    ('b2', 0)
    """

    def __init__(self) -> None:
        self._by_name: dict[str, BrokerId] = {}
        self._digests: dict[BrokerId, int] = {}

    def of(self, name: str) -> BrokerId:
        """Empty: nobody has said that it has it."""
        return self._by_name.get(name, "")

    def digest(self, door: BrokerId) -> int:
        """As the door itself would make it (`digest_of`). O(1)."""
        return self._digests.get(door, 0)

    def put(self, name: str, door: BrokerId) -> None:
        self.discard(name)
        self._by_name[name] = door
        self._digests[door] = self.digest(door) ^ digest_of((name,))

    def discard(self, name: str) -> BrokerId:
        """Who had it; empty: nobody."""
        door = self._by_name.pop(name, "")
        if door:
            self._digests[door] ^= digest_of((name,))
        return door

    def forget_at(self, door: BrokerId, names: Iterable[str]) -> None:
        """Those that a door says it has no more, unless they are elsewhere by now."""
        for name in names:
            if self.of(name) == door:
                self.discard(name)

    def forget_door(self, door: BrokerId) -> None:
        """O(sessions)."""
        for name in [n for n, holder in self._by_name.items() if holder == door]:
            self.discard(name)
        self._digests.pop(door, None)
