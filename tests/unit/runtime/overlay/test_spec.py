"""Which broker listens where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pubweave.model.ids import natural_order
from pubweave.model.topology import Topology, TopologyError
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.spec import exposed, make_spec


def chain(count: int) -> Topology:
    return Topology.from_links([(f"b{i}", f"b{i + 1}") for i in range(1, count)])


def test_ports_follow_the_numbers_in_the_ids() -> None:
    spec = make_spec(chain(12), base_port=7000)
    assert spec.brokers[:3] == ("b1", "b2", "b3")
    assert spec.addresses["b2"] == Address("127.0.0.1", 7001)
    assert spec.addresses["b10"] == Address("127.0.0.1", 7009)
    assert spec.addresses["b12"].port == 7011


def test_port_0_is_left_open_for_every_broker() -> None:
    assert {a.port for a in make_spec(chain(3), base_port=0).addresses.values()} == {0}


def test_a_written_address_goes_before_host_and_port() -> None:
    topology = replace(chain(3), broker_attributes={"b2": {"address": "10.0.0.2:9"}})
    spec = make_spec(topology, host="127.0.0.5", base_port=100)
    assert [str(a) for a in spec.addresses.values()] == [
        "127.0.0.5:100",
        "10.0.0.2:9",
        "127.0.0.5:102",
    ]
    assert spec.neighbors("b1") == {"b2": Address("10.0.0.2", 9)}
    assert exposed(spec.addresses.values()) == [Address("10.0.0.2", 9)]


def test_a_written_address_that_is_none_names_the_broker() -> None:
    topology = replace(chain(2), broker_attributes={"b2": {"address": "nowhere"}})
    with pytest.raises(OverlayError, match=r"broker 'b2': address: 'nowhere' is no address"):
        make_spec(topology)


def test_two_brokers_at_one_address_are_refused() -> None:
    topology = replace(chain(2), broker_attributes={"b2": {"address": "7000"}})
    with pytest.raises(OverlayError, match=r"'b1' and 'b2' would both listen at 127.0.0.1:7000"):
        make_spec(topology, base_port=7000)


def test_ports_beyond_the_last_are_refused() -> None:
    assert make_spec(chain(2), base_port=65534).addresses["b2"].port == 65535
    with pytest.raises(OverlayError, match=r"3 brokers do not fit on ports 65534 to 65535"):
        make_spec(chain(3), base_port=65534)


def test_what_is_no_tree_is_refused() -> None:
    ring = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b1", "b3")])
    with pytest.raises(TopologyError, match="not a tree"):
        make_spec(ring)


def test_natural_order_counts_and_still_tells_all_ids_apart() -> None:
    ids = ["b10", "b2", "b1", "a", "b02", "10", "9", "b1x2", "b1x10"]
    assert sorted(ids, key=natural_order) == [
        "9",
        "10",
        "a",
        "b1",
        "b1x2",
        "b1x10",
        "b02",
        "b2",
        "b10",
    ]
    assert len({natural_order(id_) for id_ in ids}) == len(ids)
