"""The verb ``tco``: topic-connected overlays, built, kept under churn, and verified.

`tco` has ``build`` and ``verify``, `churn` plays rounds of joins, leaves and changes, `files`
reads and writes, `view` prints.

Entry: `tco` in `tco`. Not here: the algorithms (`design.tco`), routing in such an overlay
(`core.routing.topic_connected`). ADR 14.
"""
