"""The dashboard: a live web page over an overlay, its plan and its decisions.

    source -> poller -> state (parts with versions) -> app -> page/ (browser)

`snapshot` is the overlay at one instant, with the protocols by which snapshots come and commands
go; `state` asks for it (`Poller`), places brokers (`PictureFrame`) and keeps the last points
(`TimeLines`); `documents` and `metrics` are the JSON and the Prometheus text; `auth` guards reading
and changes.

Entry: `make_app` in `app`. Not here: asking a real overlay (`runtime.observe.dashboard_source`),
serving the page of one (`runtime.observe.dashboard_server`).
Invariant: of pubweave it imports only the model; it shows levels, never edges, so a follower that
was slow or away misses nothing that still holds. ADR 12.
"""
