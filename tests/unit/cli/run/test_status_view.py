"""What is told of an overlay, from snapshots made by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.console import Console

from pubweave.cli.run.status_view import (
    broker_table,
    link_table,
    migration_line,
    organize_line,
    relocation_line,
)
from pubweave.model.ids import Link
from pubweave.model.records.status import (
    BrokerStatus,
    CounterStatus,
    MigrationStatus,
    MqttStatus,
    OrganizeStatus,
    RateStatus,
    RelocationStatus,
    SessionStatus,
)
from pubweave.runtime.client.observer import OverlayStatuses
from pubweave.runtime.observe.pulse import PulseMeter, broker_document, link_document


def session(remote: str, state: str = "established", rtt_ms: float | None = None) -> SessionStatus:
    return SessionStatus(remote, state, 1, 10, 0, rtt_ms, False)


def status(
    broker: str, uptime_s: float, deliveries: int, links: tuple[SessionStatus, ...] = ()
) -> BrokerStatus:
    return BrokerStatus(
        broker=broker,
        strategy="tree",
        uptime_s=uptime_s,
        subscriptions=1,
        advertisements=2,
        forwarded=3,
        links=links,
        client_count=2,
        clients=(session("$observer-1"), session("s1")),
        queue_bytes=100,
        counters=CounterStatus(deliveries=deliveries, publications_accepted=2 * deliveries),
        rates=RateStatus(),
    )


def snapshot(at: float, *statuses: BrokerStatus) -> OverlayStatuses:
    found = {s.broker: s for s in statuses}
    return OverlayStatuses(at, {b: found.get(b) for b in ("b1", "b2")}, (Link("b1", "b2"),))


def test_rates_are_what_was_counted_between_two_looks() -> None:
    meter = PulseMeter()
    assert meter.take(snapshot(10.0, status("b1", 1, 5))).deliveries_per_s == 0
    pulse = meter.take(snapshot(12.0, status("b1", 3, 25)))
    assert (pulse.elapsed_s, pulse.deliveries_per_s, pulse.publications_per_s) == (2.0, 10.0, 20.0)
    assert (pulse.brokers_up, pulse.brokers, pulse.clients) == (1, 2, 1)


def test_a_restart_takes_nothing_from_the_totals() -> None:
    meter = PulseMeter()
    meter.take(snapshot(0.0, status("b1", 100, 50)))
    meter.take(snapshot(1.0))
    pulse = meter.take(snapshot(2.0, status("b1", 0.5, 3)))
    assert pulse.totals.deliveries == 53
    assert pulse.deliveries_per_s == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("far", "state"),
    [
        ((session("b1", rtt_ms=2.0),), "up"),
        ((session("b1", "open", 2.0),), "down"),
        ((), "down"),
    ],
)
def test_a_link_is_up_only_if_both_ends_say_so(far: tuple[SessionStatus, ...], state: str) -> None:
    seen = snapshot(0.0, status("b1", 1, 0, (session("b2", rtt_ms=0.5),)), status("b2", 1, 0, far))
    told = link_document(seen, Link("b1", "b2"))
    assert told["state"] == state
    assert told["rtt_ms"] == (2.0 if far else 0.5)


def test_a_self_organizing_overlay_says_what_it_did() -> None:
    told = OrganizeStatus(
        "ci", 4, 5.0, known_brokers=3, proposed=9, busy=2, declined=4, agreed=3, done=2, failed=1,
        messages_out=50, bytes_out=4096, broadcasts_dropped=0,
    )  # fmt: skip
    one, other = (replace(status(b, 1, 0), organizing=told) for b in ("b1", "b2"))
    line = organize_line(snapshot(0.0, one, other))
    assert line.startswith("self-organizing (ci, eta 4, every 5 s): a broker knows 3.0 others")
    assert "18 links asked for, 8 declined, 4 refused as busy" in line
    assert "6 exchanges agreed, 4 done, 2 failed" in line
    assert broker_document(one)["organizing"]["done"] == 2
    assert organize_line(snapshot(0.0, status("b1", 1, 0))) == ""
    assert "organizing" not in broker_document(status("b1", 1, 0))


def test_what_an_mqtt_door_counted_is_in_the_document() -> None:
    told = MqttStatus(
        connections=2, sessions=3, waiting=4, dropped=5, qos0_dropped=6, retained=7, redirected=0
    )
    one = broker_document(replace(status("b1", 1, 0), mqtt=told))
    assert (one["mqtt"]["dropped"], one["mqtt"]["qos0_dropped"]) == (5, 6)
    assert "mqtt" not in broker_document(status("b1", 1, 0))


def test_tables_show_brokers_that_are_down_and_count_those_left_out() -> None:
    console = Console(width=160, record=True, file=None, quiet=True)
    seen = snapshot(0.0, status("b1", 61, 0))
    with console.capture() as captured:
        console.quiet = False
        console.print(broker_table(seen, {"b1": "127.0.0.1:7"}, {"b1": 42}))
        console.print(broker_table(seen, {}, {}, shown=1))
        console.print(link_table(seen))
    text = captured.get()
    assert "b1  127.0.0.1:7  42" in text
    assert "1:01" in text
    assert "down" in text
    assert "... 1 more" in text
    assert "b1-b2" in text


def test_an_overlay_whose_publishers_move_says_so() -> None:
    told = RelocationStatus(
        "grape", "load75", decided=4, deciding_s=1.0, moves=2, given_up=1, without_pings=0,
        messages_out=1500, bytes_out=4096, memory_bytes=2048,
    )  # fmt: skip
    one, other = (replace(status(b, 1, 0), relocation=told) for b in ("b1", "b2"))
    line = relocation_line(snapshot(0.0, one, other))
    assert line.startswith("relocation (grape, load75): 8 decisions, 4 moves begun, 2 traces")
    assert "3,000 messages for it, 4.0 kB held" in line
    assert broker_document(one)["relocation"]["moves"] == 2
    quiet = RelocationStatus("off", "load100", 0, 0.0, 0, 0, 0, 0, 0, 0)
    assert relocation_line(snapshot(0.0, replace(one, relocation=quiet))) == ""
    assert relocation_line(snapshot(0.0, status("b1", 1, 0))) == ""


def test_migrations_are_told_with_what_clients_waited() -> None:
    still = snapshot(1.0, replace(status("b1", 1, 5), migrations=MigrationStatus()))
    assert migration_line(still) == ""
    one = MigrationStatus(begun=3, done=2, refused=1, hops=4, paused_ms=60, longest_paused_ms=50)
    two = MigrationStatus(begun=2, done=1, busy=1, hops=2, paused_ms=30, longest_paused_ms=30)
    both = snapshot(
        1.0,
        replace(status("b1", 1, 5), migrations=one),
        replace(status("b2", 1, 5), migrations=two),
    )
    assert migration_line(both) == (
        "migrations: 3 of 5 done, 1 refused, 1 given up; clients waited 30 ms on average over 2.0 "
        "hops (15 ms a hop), 50 ms at most"
    )
    refused = replace(status("b1", 1, 5), migrations=MigrationStatus(begun=1, refused=1))
    assert migration_line(snapshot(1.0, refused)) == (
        "migrations: 0 of 1 done, 1 refused, 0 given up"
    )
