"""Passwords: hashed in a file, verified out of the way, never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubweave.runtime.security import passwords
from pubweave.runtime.security.passwords import (
    HashedPassword,
    PasswordFileError,
    PasswordVerifier,
    read_passwords,
)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST_N", 16)


@pytest.mark.usefixtures("cheap")
def test_a_password_survives_the_file_and_no_other_matches(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text(f"# users\n\n{HashedPassword.of('geheim').line('al')}\n")
    found = read_passwords(path)["al"]
    assert found.matches("geheim")
    assert not found.matches("geheim ")
    assert "geheim" not in path.read_text()


@pytest.mark.parametrize(
    "line", ["secretive", "al:scrypt:1:2:3:x", "al:md5:1:8:1:YQ==:YQ==", "a b:"]
)
def test_a_line_that_is_none_is_named_by_number_and_not_shown(tmp_path: Path, line: str) -> None:
    path = tmp_path / "passwords"
    path.write_text(f"\n{line}\n")
    with pytest.raises(PasswordFileError, match="line 2") as caught:
        read_passwords(path)
    assert line not in str(caught.value)


@pytest.mark.usefixtures("cheap")
def test_what_was_verified_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    real = passwords._scrypt

    def counted(password: str, n: int, r: int, p: int, salt: bytes) -> bytes:
        computed.append(password)
        return real(password, n, r, p, salt)

    hashed = HashedPassword.of("right")
    monkeypatch.setattr(passwords, "_scrypt", counted)
    verifier = PasswordVerifier({"al": hashed})
    try:
        assert [verifier.submit("al", "right").result() for _ in range(3)] == [True] * 3
        assert len(computed) == 1
        assert not verifier.verify("al", "wrong")
        assert not verifier.verify("nobody", "right")
        assert len(computed) == 3, "an unknown user takes as long as a known one"
        assert not verifier.verify("al", "x" * 5000)
        assert verifier.verify("al", "right")
        assert len(computed) == 3
    finally:
        verifier.close()
