"""Addresses as people write them."""

from __future__ import annotations

import pytest

from pubweave.runtime.net.addresses import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.2:7001", "10.0.0.2", 7001),
        ("7001", "127.0.0.1", 7001),
        (":7001", "127.0.0.1", 7001),
        (" broker.example:1 ", "broker.example", 1),
        ("[::1]:65535", "::1", 65535),
        ("0.0.0.0:0", "0.0.0.0", 0),
    ],
)
def test_an_address_is_read_as_it_is_written(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize("text", ["", "host", "host:", "host:-1", "host:7x", "host:²", "1:2:x"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no address: write host:port"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["host:65536", "70000"])
def test_a_port_beyond_the_last_is_refused_with_the_last(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no address: ports go up to 65535"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["127.0.0.1:7001", "[::1]:7001", "broker.example:80"])
def test_a_written_address_reads_back_the_same(text: str) -> None:
    assert str(Address.parse(text)) == text
