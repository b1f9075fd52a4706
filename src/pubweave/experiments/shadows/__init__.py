"""Shadows, topic-connected overlays under churn: Figures 2 to 8, and real subscriptions.

`setting` makes nodes, overlay and churn; `rounds` (`play`, also used by `pubweave tco churn`)
applies and verifies it round by round; `figures` registers `shadows-fig2` to `shadows-fig8`,
`real` is `shadows-real`. The algorithms are in `design/tco`.
"""
