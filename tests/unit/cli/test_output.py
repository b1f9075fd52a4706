"""The forms in which verbs report."""

from __future__ import annotations

import json

import pytest
from rich.text import Text

from pubweave.cli.output import LiveView, progress_bar
from pubweave.model.amounts import bytes_in_words, seconds_in_words


@pytest.mark.parametrize(
    ("as_json", "quiet", "printed"),
    [
        (True, False, '{"up":5}\n'),
        (True, True, '{"up":5}\n'),
        (False, False, "5 up\n"),
        (False, True, ""),
    ],
)
def test_a_report_takes_the_form_that_was_asked_for(
    as_json: bool, quiet: bool, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with LiveView(as_json=as_json, quiet=quiet) as view:
        assert not view.is_live
        view.show({"up": 5}, "5 up", lambda: Text("never drawn"))
    assert capsys.readouterr().out == printed


def test_progress_is_not_shown_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("working", 3) as advance:
        advance.to(2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 kB"), (3 << 20, "3.0 MB"), (5 << 40, "5120.0 GB")],
)
def test_sizes_in_words(count: int, words: str) -> None:
    assert bytes_in_words(count) == words


@pytest.mark.parametrize(("seconds", "words"), [(0.9, "0:00"), (61, "1:01"), (3725, "1:02:05")])
def test_durations_in_words(seconds: float, words: str) -> None:
    assert seconds_in_words(seconds) == words


def test_json_is_what_programs_can_read(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView(as_json=True) as view:
        for number in range(2):
            view.show({"n": number, "text": "a\nb"}, "", lambda: Text(""))
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["n"] for line in lines] == [0, 1]
