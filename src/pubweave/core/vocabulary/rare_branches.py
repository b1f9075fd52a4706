"""Branches that few runs reach: whether a run has been there, told to whoever counts.

A branch that needs two rare things is as well tested as it is often reached. `sometimes` marks it:
the simulator counts (`sim.kernel.marks`), and nobody else hears. Protocols never read what they
have marked, so nothing depends on it. ADR 29.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Branch(enum.Enum):
    """Each marked branch of the core, and what happens there."""

    # sessions
    OVERTAKEN_HELLO = "a Hello comes after that of a newer connection"
    CROSSED_DIALS = "two brokers have dialed each other at once"
    RESUMED_IN_WINDOW = "a session goes on of whose window the far end got a part"
    SILENT_NEIGHBOR = "a neighbor is silent for too long while its connection stands"
    LINK_HELD_UP = "a congested session holds up a link"
    AWAY_WITH_FULL_QUEUE = "a client that is away holds others up and is let go"
    CLIENT_QUEUE_FULL = "more is queued for a client than may be"
    LATE_DEADLINE = "a deadline comes so late that this process cannot have run"
    EARLY_LOG_FULL = "more comes after a start than the early log keeps"
    EARLY_REPLAYED = "a client that comes back gets what came before it subscribed"
    # duplicates, by whom they are dropped
    BROKER_DUPLICATE = "a broker of a tree drops a duplicate"
    TOPIC_DUPLICATE = "a broker that routes by topic drops a duplicate"
    CLIENT_DUPLICATE = "a client drops a duplicate"
    MQTT_DUPLICATE = "an MQTT session drops a duplicate"
    # link synchronization
    FULL_GATE = "a full gate opens before the answer"
    GATE_KEPT_SHUT = "an answer comes while something else keeps the gate shut"
    ANSWER_IN_PART = "a neighbor has waited long enough and is answered in part"
    UNHEARD_GETS_ALL = "a neighbor that has not answered gets every publication"
    SILENT_GIVEN_UP = "a connected neighbor that never answers is not awaited any more"
    RESTART_WHILE_AWAITED = "a link's session begins anew while somebody awaits its answer"
    PUBLISHER_WAITS = "a publication waits at the publisher gate"
    RESTART_WHILE_PUBLISHER_WAITS = "a link begins anew while a publisher waits for its answer"
    PUBLISHER_RECONNECTS = "a publisher connects anew while its publications wait"
    # actions
    BACKPRESSURE_IN_SHIFT = "a session is congested while a shift holds links"
    HOLD_OVERFLOWS = "a shift would hold back too much"
    ABORTED_WHILE_HOLDING = "a shift is given up after the first marker"
    HELD_LINK_RESTARTS = "a link's session begins anew while it is held"
    NEW_LINK_RESTARTS = "the session of a link that is to be begins anew before the commit is heard"
    TABLES_BEFORE_COMMIT = "tables come over a link whose commit was not heard yet"
    # migrations
    MIGRATION_UNDONE = "a migration is given up when others were asked already"
    MIGRATION_DOUBTED = "a restarted broker does not know whether a client has moved past it"
    DOUBT_SETTLED = "and learns it while publications wait"
    MOVED_SAID_AGAIN = "`moved` is asked for again: an advertisement calls for more"
    SENT_ON_AGAIN = "a client that has moved comes back and is sent on again"
    EARLY_CLIENT = "a client arrives before its old broker's last word"
    # topic-connected overlays
    FADES_ALONE = "a topic ends here with publications that nobody has taken over"
    FADES_IN_PIECES = "a topic ends here although the others are not connected without it"
    GAP_SUSPECTED = "a neighbor lacks what this broker lacks"
    GAP_CONFIRMED = "nobody has it: it is counted as missed"
    LATE_PUBLICATION = "a publication comes behind a later one of its publisher"
    LOG_FULL = "a topic log drops what is not old"
    LINK_QUEUE_FULL = "a neighbor is cut off because it is too far behind"
    BARRIER_TIMED_OUT = "a subscription is acknowledged though its topic is not connected"
    RECORD_SUPERSEDED = "a broker hears a newer record of itself than it has made"
    REPAIR_WIDENED = "the shadows do not suffice, and all concerned repair"
    LEAVES_UNFINISHED = "a broker leaves though others do not do without it"
    # rings
    TAKEN_FOR_ABSENT = "a broker hears that it is away"
    REMAP_SUPERSEDED = "a remapping begins while another one is under way"
    REMAP_ABORTED = "a remapping is given up"
    REMAP_WITHOUT_LOST = "a broker of a new mapping is lost already"
    # self-organizing overlays
    EXCHANGE_BUSY = "an exchange is refused because a broker is busy"
    REPLY_TOO_LATE = "the reply to a request comes when nobody waits for it"
    # MQTT
    CLAIM_DEFERRED = "a session is claimed while it is on its way"
    CLAIMS_CROSS = "two gateways claim a session at once"
    HANDOVER_LATE = "a session's tail takes too long, and its client is to try again"
    HANDOVER_GIVEN_UP = "a session is not awaited any more"
    HANDOVER_VOID = "the old gateway does not know of a session that has arrived"
    QUEUE_OVERRUN = "an MQTT session ends because its queue is full"
    SESSION_EXPIRED = "an MQTT session expires"
    # journals
    SNAPSHOT_REFUSED = "the disk takes no snapshot, and the journal goes on"
    BATCH_REFUSED = "the disk takes no batch, which is written again"


def _unheard(branch: enum.Enum) -> None:
    """Nobody counts."""


_hear: Callable[[enum.Enum], None] = _unheard


def sometimes(branch: enum.Enum) -> None:
    """This branch was reached. Costs a call, in branches that are seldom taken."""
    _hear(branch)


@contextmanager
def heard_by(hear: Callable[[enum.Enum], None]) -> Iterator[None]:
    """Within this somebody hears of every branch that is reached in this process."""
    global _hear
    before, _hear = _hear, hear
    try:
        yield
    finally:
        _hear = before
