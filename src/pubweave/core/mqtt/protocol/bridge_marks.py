"""Publications that leave the overlay over a bridge are marked, so that they do not come in again.

One mosquitto with bridges to two brokers makes a ring: what it gets from one, it gives to the other
as a new publication. But it passes user properties on. So what goes to a bridge of version 5 has
one that names the door, the publisher and the sequence; a publication that comes with a door's of
this overlay is in the overlay already. Other overlays have other doors, and what comes from them is
new here.
"""

from __future__ import annotations

from pubweave.model.ids import BrokerId
from pubweave.model.mqtt_packets import Content
from pubweave.model.publications import Publication

PROPERTY = "pubweave-origin"
KNOWN_MAX = 10_000


class BridgeMarks:
    """How this door marks what it sends to bridges, and how the others of its overlay do.

    >>> marks = Marks("b1", 26)
    >>> marks.own, marks.is_known(Content(user_properties=((PROPERTY, "b1.1a ann 7"),)))
    ('b1.1a', True)
    >>> marks.is_known(Content(user_properties=((PROPERTY, "b2.1a ann 7"),)))
    False
    """

    def __init__(self, broker: BrokerId, epoch: int) -> None:
        """``epoch`` tells a door from others of that name, in other overlays and before."""
        self.own = f"{broker}.{epoch:x}"
        self._known: dict[str, None] = {self.own: None}

    def learn(self, mark: str) -> None:
        """Another door has said how it marks; what it said before a restart holds as well."""
        if mark and mark not in self._known:
            self._known[mark] = None
            if len(self._known) > KNOWN_MAX:
                del self._known[next(m for m in self._known if m != self.own)]

    def has(self, mark: str) -> bool:
        """Whether a door of this overlay marks so."""
        return mark in self._known

    def is_known(self, content: Content) -> bool:
        """Whether a publication has left this overlay before. O(user properties)."""
        users = content.user_properties
        return bool(users) and any(
            name == PROPERTY and value.partition(" ")[0] in self._known for name, value in users
        )


def marked(content: Content, publication: Publication, mark: str) -> Content:
    """What a bridge is told of a publication."""
    origin = f"{mark} {publication.publisher} {publication.sequence}"
    return Content(
        content.payload_format,
        content.expiry_s,
        content.content_type,
        content.response_topic,
        content.correlation,
        (*content.user_properties, (PROPERTY, origin)),
    )
