"""Pictures of topologies and plans, and the look of every figure (matplotlib).

`tree_layout` gives brokers their places (radial, or by stress majorization), `link_curves` bows
links around brokers, `plan` draws one tree per step, `figures` is the style of all figures.

Entry: `draw_plan` in `plan`, `settled_layout` in `tree_layout`.
Not here: the figures of each paper (`experiments.*.plots*`), the report's charts
(`cli.data.report_charts`), the dashboard's picture (`dashboard.layout`).
Invariant: no chance in a layout; the same topologies always look the same.
"""
