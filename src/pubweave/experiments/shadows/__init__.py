"""Shadows, topic-connected overlays under churn: Figures 2 to 8, and real subscriptions.

`setting` makes nodes, overlay and churn; `play` there (also used by ``pubweave tco churn``)
applies and verifies it round by round; `figures` says what a figure needs; `real` plays churn on
subscriptions of real people. The algorithms are not here but in `design.tco` (ADR 14).
"""
