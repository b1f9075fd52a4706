"""The token file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubweave.dashboard.auth import TokenError, read_token


def token_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_is_the_files_only_line(tmp_path: Path) -> None:
    assert read_token(token_file(tmp_path, "0123456789abcdef\n")) == "0123456789abcdef"


@pytest.mark.parametrize("text", ["", "short", "0123456789 abcdef", "0123456789\nabcdef", "ä" * 20])
def test_a_token_that_is_none_is_refused_with_the_way_to_make_one(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(TokenError, match="at least 16 characters"):
        read_token(token_file(tmp_path, text))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_that_others_can_read_is_none(tmp_path: Path, mode: int) -> None:
    with pytest.raises(TokenError, match="chmod 600"):
        read_token(token_file(tmp_path, "0123456789abcdef", mode))


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match=r"nowhere: No such file"):
        read_token(tmp_path / "nowhere")
