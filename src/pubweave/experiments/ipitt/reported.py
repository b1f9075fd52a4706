"""What IPITT's evaluation reports about planning, to stand beside what we measure.

Numbers only as the paper's text and Table I give them (its figures carry no data); each statement
names its section. Ours are in `planning`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table1Row:
    """A row of Table I: 60 brokers, 20% of the links changed."""

    name: str
    method: str
    memory_mb: float
    actions: int | None
    variables: int | None
    constraints: int | None


TABLE_1 = (
    Table1Row("IPITT_N", "ip-naive", 11_352, 205_320, 1_355_820, 3_810_515),
    Table1Row("IPITT_A", "ip-all-paths", 2_750, 35_904, 392_928, 919_799),
    Table1Row("IPITT_E", "ip-each-path", 405, 1_860, 154_620, 211_973),
    Table1Row("BFS", "bfs", 230, None, None, None),
)


@dataclass(frozen=True)
class TimeClaim:
    """A planning time in the text: at most (or exactly) so many seconds at a point of Figure 5."""

    method: str
    brokers: int
    ratio: float
    seconds: float
    at_most: bool
    section: str = "VI-C"


TIME_CLAIMS = (
    TimeClaim("ip-each-path", 70, 0.20, 45, at_most=True),
    TimeClaim("ip-each-path", 150, 0.20, 400, at_most=True),
    TimeClaim("ip-all-paths", 60, 0.20, 600, at_most=True),
    TimeClaim("ip-each-path", 60, 0.30, 117, at_most=False),
    TimeClaim("bfs", 60, 0.30, 546, at_most=False),
)

FIGURE_5_WORDS = (
    "each-path has the lowest planning time at every overlay size (5a)",
    "naive finds plans up to 50 brokers and none above 60 (5a)",
    "all-paths needs under 10 minutes up to 60 brokers and finds none above 80 (5a)",
    "BFS finds plans up to 90 brokers; each-path alone reaches 100 and 150 (5a)",
    "each-path: under 45 s up to 70 brokers, under 400 s at 150 (5a)",
    "against BFS each-path plans 61 times faster up to 50 brokers, 10 times from 60 on (5a)",
    "each-path has up to 45% fewer actions than BFS from 40 brokers on (5b)",
    "each-path has up to 5% more actions than naive, up to 12% more than all-paths (5b)",
    "steps above the optimum: each-path up to 32%, all-paths up to 11% (5c)",
    "BFS does not parallelise: its steps are its actions (5c)",
    "at 60 brokers naive and all-paths find no plan from 25% on (5d)",
    "at 30%: BFS 546 s, each-path 117 s (5d)",
    "at 5% and 10% BFS and each-path have as many actions; above, up to 42% fewer (5e)",
)
