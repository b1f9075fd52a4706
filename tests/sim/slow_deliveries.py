"""The judge of deliveries again, by brute force: every publication against every client, looking
through the whole history each time. Cubic, and short enough to be believed."""

from __future__ import annotations

from pubweave.sim.checkers.history import (
    Acknowledged,
    Assured,
    AtRest,
    Attached,
    Delivered,
    Event,
    History,
    Left,
    Lost,
    Published,
    Subscribed,
    Withdrawing,
    Withdrawn,
)


def missing_deliveries(history: History) -> tuple[set[tuple[str, int]], int]:
    """(client, sequence) of what is due, did not come by the rest after it, and is not excused;
    and how many deliveries were due. One publisher; subscriptions do not outlive sessions."""
    missing, due = set(), 0
    for place, made in enumerate(history):
        if not isinstance(made, Published):
            continue
        before, after = history[:place], []
        for event in history[place:]:
            after.append(event)
            if isinstance(event, AtRest):
                break
        else:
            after = []
        key = made.publication.key
        for client in {event.client for event in history if isinstance(event, Subscribed)}:
            wishes = [
                e
                for e in before
                if isinstance(e, Subscribed)
                and e.client == client
                and e.filter.matches(made.publication)
                and not any(isinstance(o, Withdrawing) and o.id == e.id for o in before)
                and _is_confirmed(e.id, client, before)
            ]
            if any(isinstance(e, Left) and e.client == client for e in before):
                continue
            due += bool(wishes)
            stay = [
                w
                for w in wishes
                if not any(isinstance(e, Withdrawing) and e.id == w.id for e in after)
            ]
            settles = (
                any(
                    isinstance(e, Delivered) and (e.client, e.publication.key) == (client, key)
                    for e in after
                ),
                any(isinstance(e, Left) and e.client == client for e in after),
                any(
                    isinstance(e, Attached) and e.client == client and not e.is_resumed
                    for e in after
                ),
                any(isinstance(e, Lost) and key in e.keys for e in after),
                not any(
                    isinstance(e, Acknowledged) and e.through >= key[1] for e in (*before, *after)
                ),
            )
            if after and stay and not any(settles):
                missing.add((client, key[1]))
    return missing, due


def _is_confirmed(id_: str, client: str, before: list[Event]) -> bool:
    is_confirmed = False
    for event in before:
        if isinstance(event, Assured) and event.client == client and id_ in event.ids:
            is_confirmed = True
        elif isinstance(event, Attached) and event.client == client and not event.is_resumed:
            is_confirmed = False
    return is_confirmed


def wrong_deliveries(history: History) -> tuple[int, int, int]:
    """How many deliveries came twice, out of order, and unasked."""
    twice = disorder = unasked = 0
    for place, got in enumerate(history):
        if not isinstance(got, Delivered):
            continue
        earlier = [
            e.publication.sequence
            for e in history[:place]
            if isinstance(e, Delivered) and e.client == got.client
        ]
        made = next(
            i
            for i, e in enumerate(history)
            if isinstance(e, Published) and e.publication.key == got.publication.key
        )
        twice += got.publication.sequence in earlier
        disorder += got.publication.sequence < max(earlier, default=0)
        unasked += not any(
            isinstance(e, Subscribed)
            and e.client == got.client
            and e.filter.matches(got.publication)
            and not any(isinstance(o, Withdrawn) and o.id == e.id for o in history[:made])
            for e in history[:place]
        )
    return twice, disorder, unasked
