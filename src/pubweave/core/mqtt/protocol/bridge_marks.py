"""Bridge marks: publications that leave the overlay over a bridge do not enter it again.

One mosquitto with bridges to two brokers makes a loop: it forwards what it gets from one to the
other as a new publication, with its user properties. So a publication sent to a bridge of version 5
has a user property that names the gateway, the publisher and the sequence; one that arrives with
the mark of a gateway of this overlay is in the overlay already. Other overlays have other gateways,
so what comes from them is new here.
"""

from __future__ import annotations

from pubweave.model.ids import BrokerId
from pubweave.model.mqtt_packets import Content
from pubweave.model.publications import Publication

PROPERTY = "pubweave-origin"
KNOWN_MAX = 10_000


class BridgeMarks:
    """The mark of this gateway for what it sends to bridges, and those of the others.

    >>> marks = BridgeMarks("b1", 26)
    >>> marks.own, marks.is_known(Content(user_properties=((PROPERTY, "b1.1a ann 7"),)))
    ('b1.1a', True)
    >>> marks.is_known(Content(user_properties=((PROPERTY, "b2.1a ann 7"),)))
    False
    """

    def __init__(self, broker: BrokerId, epoch: int) -> None:
        """``epoch`` tells a gateway from others of its name, in other overlays and earlier."""
        self.own = f"{broker}.{epoch:x}"
        self._known: dict[str, None] = {self.own: None}

    def learn(self, mark: str) -> None:
        """Another gateway has announced its mark; one from before a restart stays valid."""
        if mark and mark not in self._known:
            self._known[mark] = None
            if len(self._known) > KNOWN_MAX:
                del self._known[next(m for m in self._known if m != self.own)]

    def has(self, mark: str) -> bool:
        """Whether a mark is of a gateway of this overlay."""
        return mark in self._known

    def is_known(self, content: Content) -> bool:
        """Whether a publication has left this overlay before. O(user properties)."""
        users = content.user_properties
        return bool(users) and any(
            name == PROPERTY and value.partition(" ")[0] in self._known for name, value in users
        )


def marked(content: Content, publication: Publication, mark: str) -> Content:
    """The content of a packet with the mark of a publication."""
    origin = f"{mark} {publication.publisher} {publication.sequence}"
    return Content(
        content.payload_format,
        content.expiry_s,
        content.content_type,
        content.response_topic,
        content.correlation,
        (*content.user_properties, (PROPERTY, origin)),
    )
