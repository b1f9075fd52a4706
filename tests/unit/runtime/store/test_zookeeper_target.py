"""Which ZooKeeper is meant: what people write, and what is wrong with it."""

from __future__ import annotations

import msgspec
import pytest

from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget, parse_target


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("127.0.0.1:2181", "127.0.0.1:2181", ""),
        ("zk1, zk2:2182", "zk1:2181,zk2:2182", ""),
        ("[::1]:2181/a", "[::1]:2181", "/a"),
        ("[::1]", "[::1]:2181", ""),
        ("zk1:1//teams/a/", "zk1:1", "/teams/a"),
    ],
)
def test_an_ensemble_is_read_as_written(text: str, hosts: str, root: str) -> None:
    target = parse_target(text)
    assert (target.hosts, target.root, target.auth) == (hosts, root, None)
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("text", "auth", "complaint"),
    [
        ("", None, "names no ZooKeeper servers"),
        ("zk1,,zk2", None, "names no ZooKeeper servers"),
        ("zk1:x", None, "'zk1:x' is no address"),
        ("zk1:99999", None, "ports go up to 65535"),
        ("zk1/a/../b", None, "cannot have 'a/../b'"),
        ("zk1", "secret", "user:password"),
        ("zk1", ":secret", "user:password"),
    ],
)
def test_what_cannot_be_is_said_in_words(text: str, auth: str | None, complaint: str) -> None:
    with pytest.raises(OverlayError, match=r"ZooKeeper|root path") as raised:
        parse_target(text, auth)
    assert complaint in str(raised.value)


def test_a_login_travels_but_is_never_shown() -> None:
    target = parse_target("zk1/a", "me:secret")
    assert "secret" not in f"{target} {target!r}"
    travelled = msgspec.json.decode(msgspec.json.encode(target), type=ZooKeeperTarget)
    assert travelled == target
    assert travelled.auth == "me:secret"
