"""The verb ``tco``: topic-connected overlays, built, kept under churn, and verified.

`tco` has ``build`` and ``verify``, `churn` has rounds of joins, leaves and changes, `view`
prints.

Entry: `tco` in `tco`. Not here: the algorithms (`design.tco`), routing in such an overlay
(`core.routing.topic_connected`). ADR 14.
"""
