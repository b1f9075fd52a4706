"""What brokers and clients say to each other is what the transcripts say."""

from __future__ import annotations

import pytest

from tests.transcripts.write import FOLDER, TRANSCRIPTS

LINES_MAX = 80


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_protocol_goes_as_its_transcript_says(name: str) -> None:
    text = TRANSCRIPTS[name]()
    assert text == (FOLDER / f"{name}.txt").read_text(), (
        "if that is meant, read what has changed and run `python -m tests.transcripts.write`"
    )
    assert text.count("\n") <= LINES_MAX, "it is there to be read"
