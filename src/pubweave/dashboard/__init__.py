"""The dashboard: a live web page over an overlay, its plan and its decisions.

    source -> poller -> state (parts with versions) -> app -> page/ (browser)

`snapshot` is the overlay at one instant, `source` the two protocols by which snapshots come and
commands go; `layout` and `plan_marks` make the picture, `documents` and `metrics` the JSON and the
Prometheus text; `auth` guards changes, `viewing` guards reading; `timelines` keeps the last points.

Entry: `make_app` in `app`. Not here: asking a real overlay (`runtime.observe.dashboard_source`),
the verb (`cli.autopilot.dashboard`).
Invariant: of pubweave it imports only the model; it shows levels, never edges, so a follower that
was slow or away misses nothing that still holds. ADR 12.
"""
