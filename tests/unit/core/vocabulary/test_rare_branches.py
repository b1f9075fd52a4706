"""Marks: heard while somebody counts, and by nobody else; each is set in one room or more."""

from __future__ import annotations

import re
from pathlib import Path

import pubweave
from pubweave.core.vocabulary.rare_branches import Branch, heard_by, sometimes
from pubweave.sim.kernel.marks import MARKS, RunBranch, counted

SOURCES = Path(pubweave.__file__).parent


def test_a_mark_is_heard_only_while_somebody_counts() -> None:
    sometimes(Branch.FULL_GATE)
    with counted() as reached:
        sometimes(Branch.FULL_GATE)
        sometimes(Branch.FULL_GATE)
        sometimes(RunBranch.TORN_SNAPSHOT)
    sometimes(Branch.FULL_GATE)
    assert reached == {"FULL_GATE": 2, "TORN_SNAPSHOT": 1}


def test_who_counts_within_another_count_hears_alone_and_hands_back() -> None:
    outer: list[object] = []
    with heard_by(outer.append):
        with counted() as inner:
            sometimes(Branch.LOG_FULL)
        sometimes(Branch.FULL_GATE)
    assert inner == {"LOG_FULL": 1}
    assert outer == [Branch.FULL_GATE]


def test_every_mark_is_set_somewhere_and_says_something_of_its_own() -> None:
    texts = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    used = set(re.findall(r"sometimes\(\s*(?:Branch|RunBranch)\.(\w+)", texts))
    used |= {name for name in MARKS if name.startswith("SECOND_IN_")}  # named by what is under way
    assert used == MARKS.keys()
    assert len(set(MARKS.values())) == len(MARKS) == len(Branch) + len(RunBranch)
