"""The judge of `soak.jepsen` finds every fault that is planted in a history, and no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.rivals import ROOT
from soak.jepsen.checker import RULES_FILE, Rules, judge
from soak.jepsen.history import SUFFIX, HistoryReader, Line, read_in_order

CONFIRMED = Rules(awaits_confirmation=True)
JOURNAL = Rules(awaits_confirmation=True, has_journal=True)
WANTED = {"topic": "t"}


class Story:
    """A history that is written down in order, a tenth of a second per line."""

    def __init__(self, kind: str = "native", qos: int = 1, subscribers: int = 1) -> None:
        self.lines: list[Line] = []
        self.qos = qos
        self.say("client", "p", kind, "b1")
        for number in range(subscribers):
            self.say("client", f"s{number}", kind, "b2")
            self.say("sub", f"s{number}", "x", WANTED, qos)
            self.say("subok", f"s{number}", "x")

    @property
    def now(self) -> float:
        return 100.0 + len(self.lines) / 10.0

    def say(self, kind: str, *fields: Any) -> None:
        self.lines.append([self.now, kind, *fields])

    def publish(self, n: int, *, ack: bool = True, qos: int | None = None) -> None:
        self.say("pub", "p", n, "t", 7, self.qos if qos is None else qos)
        if ack:
            self.say("ack", "p", n, n)

    def deliver(self, n: int, client: str = "s0", *, topic: str = "t", value: int = 7) -> None:
        self.say("got", client, "x", "p", n, topic, value, self.now, self.qos, 0)

    def told(self, rules: Rules = CONFIRMED) -> dict[str, int]:
        return dict(judge(self.lines, rules)["violations"])

    def counts(self, rules: Rules = CONFIRMED) -> dict[str, int]:
        return dict(judge(self.lines, rules)["counts"])


def faultless(**how: Any) -> Story:
    story = Story(**how)
    for n in (1, 2, 3):
        story.publish(n)
        story.deliver(n)
    return story


def test_a_history_without_faults_holds() -> None:
    story = faultless()
    assert story.told() == {}
    assert story.counts()["due"] == 3


def test_a_loss_is_silent() -> None:
    story = faultless()
    story.publish(4)
    story.publish(5)
    story.deliver(5)
    assert story.told() == {"silent loss": 1}
    assert story.counts()["missing"] == 1


def test_what_was_never_acknowledged_may_come_or_not() -> None:
    story = faultless()
    story.publish(4, ack=False)
    story.publish(5, ack=False)
    story.deliver(5)
    assert story.told() == {}


def test_a_duplicate_is_found() -> None:
    story = faultless()
    story.deliver(2)
    assert story.told() == {"doubled": 1}


@pytest.mark.parametrize(("qos", "found"), [(0, {"doubled": 1}), (1, {}), (2, {"doubled": 1})])
def test_only_quality_1_may_repeat(qos: int, found: dict[str, int]) -> None:
    story = faultless(kind="mqtt", qos=qos)
    story.deliver(2)
    assert story.told() == found


def test_quality_2_may_repeat_what_was_under_way_when_the_session_was_lost() -> None:
    story = faultless(kind="mqtt", qos=2)
    story.publish(4, ack=False)
    story.say("session", "p", False)
    story.say("ack", "p", 4, 4)
    story.deliver(4)
    story.deliver(4)
    assert story.told(Rules(settle_s=0.0)) == {}


def test_reordering_is_found() -> None:
    story = Story()
    for n in (1, 2):
        story.publish(n)
    story.deliver(2)
    story.deliver(1)
    assert story.told() == {"out of order": 1}


def test_a_repeated_delivery_is_not_a_reordering() -> None:
    story = faultless(kind="mqtt")
    story.deliver(1)
    assert story.told() == {}


@pytest.mark.parametrize("wrong", [{"topic": "u"}, {"value": 8}])
def test_what_was_published_otherwise_is_unwanted(wrong: dict[str, Any]) -> None:
    story = faultless()
    story.publish(4, ack=False)
    story.deliver(4, **wrong)
    assert story.told() == {"unwanted": 1}


def test_what_nobody_published_is_unwanted() -> None:
    story = faultless()
    story.deliver(9)
    assert story.told() == {"unwanted": 1}


def test_what_a_filter_excludes_is_unwanted() -> None:
    story = Story()
    story.say("sub", "s0", "y", {"topic": "t", "low": 8, "high": 9}, 1)
    story.publish(1, ack=False)
    story.say("got", "s0", "y", "p", 1, "t", 7, story.now, 1, 0)
    assert story.told() == {"unwanted": 1}


def test_what_was_published_after_an_unsubscription_is_late() -> None:
    story = faultless()
    story.publish(4, ack=False)
    story.say("unsub", "s0", "x")
    story.publish(5, ack=False)
    story.say("unsubok", "s0", "x")
    story.publish(6, ack=False)
    story.deliver(4)
    story.deliver(5)
    assert story.told() == {}, "both were published before it was acknowledged"
    story.deliver(6)
    assert story.told() == {"after unsubscribe": 1}


def test_what_was_withdrawn_is_not_due() -> None:
    story = Story()
    story.publish(1)
    story.say("unsub", "s0", "x")
    story.publish(2)
    assert story.told() == {}
    assert story.counts()["excused: withdrawn meanwhile"] == 1


def test_a_told_loss_is_not_silent_but_one_more_is() -> None:
    story = Story()
    story.publish(1)
    story.publish(2)
    story.say("told", "s0", 1, "p", "t")
    assert story.told() == {"silent loss": 1}
    story.say("told", "s0", 1, "", "")
    assert story.told() == {}


@pytest.mark.parametrize(
    ("client", "publisher", "topic"), [("s1", "p", "t"), ("s0", "q", "t"), ("s0", "p", "u")]
)
def test_what_others_are_told_explains_nothing(client: str, publisher: str, topic: str) -> None:
    story = Story()
    story.publish(1)
    story.say("told", client, 9, publisher, topic)
    assert story.told() == {"silent loss": 1}


def test_what_is_told_before_a_publication_does_not_explain_its_loss() -> None:
    story = Story()
    story.say("told", "s0", 9, "p", "t")
    story.say("counted", "b1", 9, 9, 9)
    story.publish(1)
    assert story.told() == {"silent loss": 1}


def test_what_is_counted_much_later_does_not_explain_a_loss() -> None:
    story = Story()
    story.publish(1)
    story.lines.append([story.now + 1000.0, "counted", "b1", 9, 9, 9])
    assert story.told() == {"silent loss": 1}


def test_a_counted_notification_explains_one_delivery() -> None:
    story = Story(subscribers=3)
    story.publish(1)
    story.say("counted", "b1", 1, 0, 1)
    assert story.told() == {"silent loss": 1}
    story.say("counted", "b1", 0, 0, 1)
    assert story.told() == {}


def test_a_counted_publication_explains_all_that_are_missing_of_it() -> None:
    story = Story(subscribers=3)
    story.publish(1)
    story.publish(2)
    story.say("counted", "b1", 0, 1, 0)
    assert story.told() == {"silent loss": 3}, "the bound is exceeded by one publication"
    story.say("counted", "b1", 0, 1, 0)
    assert story.told() == {}


def test_with_journals_a_count_explains_nothing() -> None:
    story = Story()
    story.publish(1)
    story.say("counted", "b1", 9, 9, 9)
    assert story.told(JOURNAL) == {"lost although journaled": 1}
    story.say("told", "s0", 1, "p", "t")
    assert story.told(JOURNAL) == {}


def test_a_lost_mqtt_session_is_told_and_what_comes_after_is_due_again() -> None:
    rules = Rules(settle_s=0.0)
    story = Story(kind="mqtt")
    story.publish(1)
    story.say("session", "s0", False)
    story.say("sub", "s0", "y", WANTED, 1)
    story.say("subok", "s0", "y")
    assert story.told(rules) == {}
    assert story.counts(rules)["excused: session told lost"] == 1
    story.publish(2)
    assert story.told(rules) == {"silent loss": 1}


def test_a_lost_session_does_not_excuse_what_was_missing_long_before() -> None:
    story = Story(kind="mqtt")
    story.publish(1)
    story.lines.append([story.now + 1000.0, "session", "s0", False])
    assert story.told(Rules(settle_s=0.0)) == {"silent loss": 1}


def test_without_confirmations_a_subscription_stands_after_some_time_without_faults() -> None:
    rules = Rules(settle_s=0.35)
    story = Story()
    story.publish(1)
    story.say("fault", 1, "stop", ["b1"], 1.0)
    for n in (2, 3, 4):
        story.publish(n)
    assert story.told(rules) == {}, "there was no peace for long enough"
    story.say("over", 1)
    for n in (5, 6, 7):
        story.publish(n)
    assert story.told(rules) == {"silent loss": 1}, "the last one, half a second after it"


def test_a_confirmation_that_is_taken_back_excuses_until_the_next() -> None:
    story = Story()
    story.say("unsure", "s0", "x")
    story.publish(1)
    assert story.told() == {}
    story.say("subok", "s0", "x")
    story.publish(2)
    assert story.told() == {"silent loss": 1}


# --- wills and retained -------------------------------------------------------------------------


def with_a_will() -> Story:
    story = Story(kind="mqtt")
    story.say("client", "w", "mqtt", "b1")
    story.say("will", "w", 1, "t")
    return story


def wait(story: Story) -> None:
    story.lines.append([story.now + 50.0, "note", "later"])


def test_a_will_is_due_when_its_client_is_cut_off() -> None:
    rules = Rules(settle_s=0.0)
    story = with_a_will()
    story.say("pub", "p", 1, "t", 7, 0)
    story.say("cut", "w", 1)
    wait(story)
    assert story.told(rules) == {"silent loss": 1}
    story.lines.insert(-1, [story.now, "got", "s0", "x", "w", 1, "t", 0, story.now, 1, 0])
    assert story.told(rules) == {}


def test_a_will_must_not_come_when_its_client_left_in_order() -> None:
    story = with_a_will()
    story.say("bye", "w", 1)
    story.say("got", "s0", "x", "w", 1, "t", 0, story.now, 1, 0)
    assert story.told() == {"unwanted will": 1}


def test_a_will_may_come_when_the_connection_was_lost_before() -> None:
    story = with_a_will()
    story.say("down", "w")
    story.say("bye", "w", 1)
    story.say("got", "s0", "x", "w", 1, "t", 0, story.now, 1, 0)
    assert story.told() == {}


def retained(shown: int) -> Story:
    story = Story(kind="mqtt")
    story.say("fault", 1, "stop", ["b1"], 1.0)
    story.say("over", 1)
    for n in (1, 2):
        story.say("pub", "p", n, "r/1", 7, 1)
        story.say("ack", "p", n, n)
    asked = story.now + 10.0
    story.lines.append([asked + 1.0, "retained", "s0", "r/1", shown, asked])
    return story


def test_an_old_retained_message_is_found() -> None:
    assert retained(2).told() == {}
    assert retained(1).told() == {"stale retained": 1}
    assert retained(0).told() == {"stale retained": 1}


# --- files --------------------------------------------------------------------------------------


def write(directory: Path, lines: list[Line]) -> None:
    """Alternating in two files."""
    for place in (0, 1):
        text = "".join(json.dumps(line) + "\n" for line in lines[place::2])
        (directory / f"h{place}{SUFFIX}").write_text(text)


def test_histories_of_several_files_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    lines = faultless().lines
    write(tmp_path, lines)
    assert list(read_in_order(tmp_path)) == lines
    assert list(HistoryReader(tmp_path).lines(1e9)) == lines


def test_a_growing_history_is_read_once_and_in_order(tmp_path: Path) -> None:
    lines = faultless().lines
    reader = HistoryReader(tmp_path)
    write(tmp_path, lines[:7])
    early = list(reader.lines(lines[4][0]))
    write(tmp_path, lines)
    assert early == lines[:5]
    assert early + list(reader.lines(1e9)) == lines


def test_half_a_line_waits(tmp_path: Path) -> None:
    (tmp_path / f"h{SUFFIX}").write_text('[1.0, "note", "a"]\n[2.0, "no')
    assert list(read_in_order(tmp_path)) == [[1.0, "note", "a"]]


def test_the_judge_stands_alone_and_ends_with_1_on_violations(tmp_path: Path) -> None:
    """It runs without pubweave: what it judges must not judge itself."""
    story = faultless()
    story.publish(4)
    write(tmp_path, story.lines)
    (tmp_path / RULES_FILE).write_text(json.dumps({"awaits_confirmation": True}))
    alone = (
        "import sys, runpy; sys.modules['pubweave'] = None; sys.argv[1:] = sys.argv[1:]; "
        "runpy.run_module('soak.jepsen.checker', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", alone, str(tmp_path), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["violations"] == {"silent loss": 1}


@pytest.mark.parametrize(("kind", "found"), [("stop", {"unwanted will": 1}), ("isolate", {})])
def test_a_goodbye_that_a_sleeping_broker_reads_later_counts_and_one_that_is_cut_off_does_not(
    kind: str, found: dict[str, int]
) -> None:
    story = with_a_will()
    story.say("fault", 1, kind, ["b1"], 1.0)
    story.say("bye", "w", 1)
    story.say("over", 1)
    story.say("got", "s0", "x", "w", 1, "t", 0, story.now, 1, 0)
    assert story.told() == found
