"""SCRAM-SHA-256: who knows the password gets in, and nobody else."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.runtime.security.passwords import (
    HashedPassword,
    PasswordFileError,
    PasswordVerifier,
    read_passwords,
)
from pubweave.runtime.security.scram import ITERATIONS_MIN, ScramError, ScramExchange, ScramKeys
from tests.naive.scram_client import ScramClient

SALT = b"0123456789abcdef"
PENCIL = ScramKeys.of("pencil", ITERATIONS_MIN, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


def begun(client: ScramClient, keys: ScramKeys) -> tuple[ScramExchange, bytes]:
    exchange = ScramExchange(lambda user: keys)
    return exchange, exchange.first(client.first())


def test_the_exchange_of_the_standard() -> None:
    """RFC 7677, 3."""
    exchange = ScramExchange({"user": PENCIL}.__getitem__, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    client = ScramClient("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    answer = exchange.first(client.first())
    final = client.final(answer)
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert exchange.final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


@settings(max_examples=15, deadline=None)
@given(names, names, names)
def test_the_password_and_only_the_password_proves_a_user(
    user: str, right: str, tried: str
) -> None:
    keys = ScramKeys.of(right, 2, SALT)
    client = ScramClient(user, tried, "n0nce")
    exchange, answer = begun(client, keys)
    final = client.final(answer)
    if tried == right:
        assert exchange.final(final) == client.expected
        assert exchange.user == user
    else:
        with pytest.raises(ScramError):
            exchange.final(final)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_whatever_comes_is_refused_in_words(message: bytes, is_final: bool) -> None:
    client = ScramClient("user", "pencil", "n0nce")
    exchange, _ = begun(client, PENCIL)
    with pytest.raises(ScramError):
        (exchange.final if is_final else exchange.first)(message)


@pytest.mark.parametrize(
    "first", [b"p=tls-unique,,n=u,r=x", b"n,a=eve,n=u,r=x", b"n,,n=u=x,r=x", b"n,,m=1,n=u,r=x"]
)
def test_what_is_not_spoken_is_refused(first: bytes) -> None:
    with pytest.raises(ScramError):
        ScramExchange(lambda user: PENCIL).first(first)


def test_a_proof_counts_for_its_own_exchange_only() -> None:
    client = ScramClient("user", "pencil", "n0nce")
    _, answer = begun(client, PENCIL)
    other, _ = begun(client, PENCIL)
    with pytest.raises(ScramError, match="something else"):
        other.final(client.final(answer))


def test_a_line_of_a_file_is_read_back_and_checks_passwords_that_are_sent(
    tmp_path: Path,
) -> None:
    file = tmp_path / "passwords"
    hashed = HashedPassword.of("other")
    file.write_text(f"{PENCIL.line('ann')}\n{hashed.line('bob')}\n")
    users = read_passwords(file)
    assert users == {"ann": PENCIL, "bob": hashed}
    verifier = PasswordVerifier(users)
    assert verifier.verify("ann", "pencil")
    assert not verifier.verify("ann", "pen")
    file.write_text("ann:scram-sha-256:10:AA==:AA==:AA==\n")
    with pytest.raises(PasswordFileError, match="line 1"):
        read_passwords(file)


def test_an_unknown_name_is_not_told_from_a_known_one() -> None:
    one, other = PasswordVerifier({"ann": PENCIL}), PasswordVerifier({"ann": PENCIL})
    assert one.scram_keys("ann") == PENCIL
    assert one.scram_keys("eve") == other.scram_keys("eve")
    assert one.scram_keys("eve").salt != one.scram_keys("eva").salt
    assert not PasswordVerifier({"bob": HashedPassword.of("x")}).has_scram
