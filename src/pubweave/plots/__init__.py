"""Pictures: of topologies, of plans (matplotlib), and of a profile as one page.

`tree_layout` gives brokers their places (radial, or by stress majorization), `plan` draws one tree
per step and bows links around brokers (`LinkCurves`), `topology_text` draws a tree in plain
characters. `report` is a profile as a page, with `profile_summary` in words and `report_charts`.

Entry: `draw_plan` in `plan`, `settled_layout` in `tree_layout`, `profile_page` in `report`,
`summarize` and `draw_tree` in `topology_text`.
>>> from pubweave import Topology, plots
>>> plots.summarize(Topology.from_links([("b1", "b2"), ("b2", "b3")])).diameter_hops
2

Not here: the figures of the papers (`experiments`, in ``plots*`` of each paper; their common look
is `experiments.plotting`), the dashboard's picture (`dashboard.state`).
Invariant: no chance in a layout; the same topologies always look the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave.plots.plan import draw_plan as draw_plan
    from pubweave.plots.profile_summary import summary_lines as summary_lines
    from pubweave.plots.report import profile_page as profile_page
    from pubweave.plots.topology_text import draw_tree as draw_tree
    from pubweave.plots.topology_text import summarize as summarize

__getattr__, __all__ = lazily(
    __name__,
    {
        "pubweave.plots.plan": "draw_plan",
        "pubweave.plots.profile_summary": "summary_lines",
        "pubweave.plots.report": "profile_page",
        "pubweave.plots.topology_text": "draw_tree summarize",
    },
)
