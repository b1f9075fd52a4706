"""Shared subscriptions over all gateways: which member of a group gets a publication.

Every gateway knows all members of a group and makes the same choice without messages, by rendezvous
hashing: the member with the largest hash of member and publication. So a member that joins or
leaves changes only its own share. Members with a connected client take precedence.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from pubweave.core.mqtt.session.subscriptions import MqttSubscription
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication

_BITS = (1 << 64) - 1
Group = tuple[str, str]
"""A group's name and the pattern that it shares."""


class GroupMember(msgspec.Struct, frozen=True, array_like=True):
    """A session that shares a subscription."""

    group: str
    pattern: str
    session: str
    is_connected: bool


class SharedGroups:
    """The members of all groups, as far as this gateway knows them.

    >>> groups = SharedGroups()
    >>> groups.replace("b1", (GroupMember("g", "jobs", "mqtt:a", True),))
    >>> groups.chosen(("g", "jobs"), Publication("p", 1, "jobs", {}, b"", 0.0))
    'mqtt:a'
    """

    def __init__(self) -> None:
        self._by_gateway: dict[BrokerId, tuple[GroupMember, ...]] = {}
        self._groups: dict[Group, dict[str, int]] = {}
        """The candidates of a group, each with its hash."""

    def replace(self, gateway: BrokerId, members: tuple[GroupMember, ...]) -> None:
        """Replace all members at a gateway. O(members)."""
        if members:
            self._by_gateway[gateway] = members
        elif self._by_gateway.pop(gateway, None) is None:
            return
        self._groups.clear()

    def members_at(self, gateway: BrokerId) -> tuple[GroupMember, ...]:
        return self._by_gateway.get(gateway, ())

    def chosen(self, group: Group, publication: Publication) -> str | None:
        """The session that gets a publication; None: the group has no members. O(members)."""
        names = self._groups.get(group)
        if names is None:
            names = self._groups[group] = self._candidates(group)
        if not names:
            return None
        key = _number(f"{publication.publisher}\0{publication.sequence}")
        return max(names, key=lambda name: (_mixed(key ^ names[name]), name))

    def chosen_for(
        self, session: str, publication: Publication, found: tuple[MqttSubscription, ...]
    ) -> tuple[MqttSubscription, ...]:
        """Of the subscriptions that match, those by which this session gets a publication."""
        return tuple(
            s
            for s in found
            if not s.group or self.chosen((s.group, s.pattern), publication) == session
        )

    def _candidates(self, group: Group) -> dict[str, int]:
        members = [
            member
            for gateway in self._by_gateway.values()
            for member in gateway
            if (member.group, member.pattern) == group
        ]
        connected = [member for member in members if member.is_connected]
        return {member.session: _number(member.session) for member in connected or members}


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _mixed(number: int) -> int:
    """Spreads the bits of a number over all others."""
    number = (number ^ number >> 31) * 0x9E3779B97F4A7C15 & _BITS
    return number ^ number >> 29
