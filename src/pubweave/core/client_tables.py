"""What every strategy keeps of local clients: which names they may use, what they may publish."""

from __future__ import annotations

from pubweave.core.errors import RefusedError
from pubweave.core.matching import MatchIndex
from pubweave.core.session import Session
from pubweave.model.filters import Filter
from pubweave.model.ids import AdvertisementId, publisher_of
from pubweave.model.publications import Publication, make_publication


def check_name(hop: Session, id_: str) -> None:
    """Ids of a client begin with its name, so that no client can take another's."""
    if hop.is_client and publisher_of(id_) != hop.remote:
        raise RefusedError(f"ids of client {hop.remote!r} must start with '{hop.remote}:'")


def check_owner(hop: Session, known: Session, id_: str) -> None:
    """What came from ``known`` is a client's at ``hop`` only if it is of this very incarnation: one
    that was to move, and came back because neither broker of the move remembers it."""
    if not hop.is_client or known is hop:
        return
    if known.is_client or not id_.startswith(f"{hop.remote}:{hop.remote_epoch:x}."):
        raise RefusedError(f"{id_!r} belongs to another client")


class ClientAdvertisements:
    """The advertisements of local clients, and whether a publication is covered by them."""

    def __init__(self) -> None:
        # An index per client: every publication of a client is held against its own.
        self._allowed: dict[Session, MatchIndex[Session]] = {}
        self._ids: dict[Session, dict[AdvertisementId, None]] = {}

    def add(self, client: Session, id_: AdvertisementId, filter_: Filter) -> None:
        self._ids.setdefault(client, {})[id_] = None
        self._allowed.setdefault(client, MatchIndex()).add(id_, filter_, client)

    def remove(self, client: Session, id_: AdvertisementId) -> None:
        """Nothing happens if the client has no such advertisement."""
        ids = self._ids.get(client, {})
        if id_ in ids:
            del ids[id_]
            self._allowed[client].remove(id_)

    def forget(self, client: Session) -> list[AdvertisementId]:
        """A client is gone; what it had advertised."""
        self._allowed.pop(client, None)
        return list(self._ids.pop(client, {}))

    def may_publish(self, publication: Publication, client: Session) -> bool:
        allowed = self._allowed.get(client)
        return allowed is not None and bool(allowed.match(publication))

    def may_publish_topic(self, topic: str, client: Session) -> bool:
        """Whether everything on a topic is advertised, whatever its attributes."""
        allowed = self._allowed.get(client)
        if allowed is None or not allowed.is_topic_only(topic):
            return False
        # Without attributes only a filter on nothing but the topic matches.
        return bool(allowed.match(make_publication(client.remote, 0, topic, {}, b"", 0.0)))
