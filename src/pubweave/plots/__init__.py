"""Pictures of topologies and plans (matplotlib).

`tree_layout` gives brokers their places (radial, or by stress majorization), `plan` draws one tree
per step and bows links around brokers (`LinkCurves`).

Entry: `draw_plan` in `plan`, `settled_layout` in `tree_layout`.
Not here: the figures of the papers (`experiments`, in ``plots*`` of each paper; their common look
is `experiments.plotting`), the report's charts (`cli.data.report_charts`), the dashboard's picture
(`dashboard.state`).
Invariant: no chance in a layout; the same topologies always look the same.
"""
