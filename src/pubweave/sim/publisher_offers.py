"""What a publisher whose broker is gone will offer to the next one (`core.client_keeping`)."""

from __future__ import annotations

from pubweave.model.messages import Advertise
from pubweave.model.publications import Publication
from pubweave.sim.nodes import SimClient


def offers_again(client: SimClient, publication: Publication) -> bool:
    """Whether a publication is still to be sent, or matches what the publisher advertises and a
    broker has heard of. What it has begun to advertise since comes after what it offers again."""
    session = client.core.session
    queued = [*session.unacked, *session.waiting, *session.pending]
    if any(type(message) is Publication and message.key == publication.key for message in queued):
        return True
    unheard = {message.id for message in queued if isinstance(message, Advertise)}
    return any(
        filter_.matches(publication)
        for id_, filter_ in client.core.advertisements.items()
        if id_ not in unheard
    )
