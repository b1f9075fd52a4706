"""Traffic read back from telemetry: who was where, wanted what, and said what."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubweave.model.filters.text import format_filter, parse_filter
from pubweave.model.ids import Link
from pubweave.model.records.recorded_traffic import RecordedClient
from pubweave.model.telemetry import TABLES
from pubweave.telemetry.parquet import write_records
from pubweave.telemetry.recorded_traffic import read_traffic

ALL = format_filter(parse_filter("class = 'T'"))
SOME = format_filter(parse_filter("class = 'T' and x > 5"))


def write(directory: Path, table: str, *rows: dict[str, object]) -> None:
    defaults: dict[str, object] = {"epoch": 1, "topic": "T", "size_bytes": 1, "sample_ratio": 1.0}
    defaults |= {"attributes": {}, "accepted_at": 0.0, "sequence": 1, "queueing_ms": 0.0}
    records = [
        tuple(
            ({**defaults, "record_number": number} | row).get(column.name)
            for column in TABLES[table].columns
        )
        for number, row in enumerate(rows)
    ]
    write_records(directory, "b1", 1, table, records, unique="x")


def change(at: float, client: str, id_: str, filter_: str, what: str, broker: str = "b1"):  # type: ignore[no-untyped-def]
    kinds = {"subscription": id_, "advertisement": id_}
    return {"changed_at": at, "broker": broker, "client": client, "filter": filter_} | {
        "change": what,
        **kinds,
    }


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    write(
        tmp_path,
        "subscription_changes",
        change(1.0, "s1", "s1:1", ALL, "added"),
        change(2.0, "s1", "s1:2", SOME, "added"),
        change(3.0, "s1", "s1:1", ALL, "removed"),
        change(3.0, "s2", "s2:1", ALL, "added"),
        change(4.0, "s3", "s3:1", ALL, "added"),
        # It moved: what its earlier broker says afterwards of the same subscription is old.
        change(5.0, "s3", "s3:1", ALL, "added", "b2"),
        change(6.0, "s3", "s3:1", ALL, "removed"),
    )
    write(tmp_path, "advertisement_changes", change(1.0, "p1", "p1:1", ALL, "added", "b3"))
    write(
        tmp_path,
        "client_changes",
        {"changed_at": 0.5, "broker": "b1", "client": "s2", "change": "attached"},
        {"changed_at": 9.0, "broker": "b1", "client": "s2", "change": "detached"},
    )
    write(
        tmp_path,
        "link_rtts",
        *(
            {"sampled_at": 1.0, "broker": broker, "neighbor": neighbor, "rtt_ms": rtt}
            for broker, neighbor, rtt in (("b1", "b2", 10.0), ("b2", "b1", 30.0))
        ),
    )
    write(
        tmp_path,
        "publications",
        *(
            {"published_at": at, "broker": "b3", "publisher": "p1", "attributes": {"x": at}}
            for at in (100.0, 10.0, 95.0, 98.5)
        ),
    )
    return tmp_path


def test_clients_are_as_they_were_at_the_end(recorded: Path) -> None:
    traffic = read_traffic(recorded)
    assert traffic.clients == (
        RecordedClient("p1", "b3", (), (parse_filter(ALL),)),
        RecordedClient("s1", "b1", (parse_filter(SOME),)),
        RecordedClient("s3", "b2", (parse_filter(ALL),)),
    )


def test_the_last_stretch_is_read_in_the_order_of_time(recorded: Path) -> None:
    traffic = read_traffic(recorded, window_s=30.0)
    assert [p.at_s for p in traffic.publications] == [0.0, 3.5, 5.0]
    assert traffic.publications[0].attributes == {"x": 95.0}
    assert (traffic.window_s, traffic.rate_per_s) == (5.0, 0.6)
    assert [p.at_s for p in read_traffic(recorded, publications_max=2).publications] == [0.0, 1.5]


def test_links_have_half_their_median_round_trip(recorded: Path) -> None:
    assert read_traffic(recorded).latency_ms == {Link("b1", "b2"): 10.0}


def test_nothing_recorded_is_no_traffic(tmp_path: Path) -> None:
    traffic = read_traffic(tmp_path)
    assert (traffic.clients, traffic.publications, traffic.rate_per_s) == ((), (), 0.0)
