"""Sessions with neighbors and clients: they outlive connections and bound what is under way.

Entry: `SessionTable` in `table`, `Session` in `session`; `states` has what leads where.
            opened()            hello matches
  DOWN ----------------> OPEN ----------------> ESTABLISHED
   ^                      |                         |
   +------ closed() ------+-------------------------+
`table`: handshake, resumption (a newer connection supersedes an older one), client expiry and
heartbeat (`keep_alive` pings neighbors, closes silent connections).
Back-pressure: `backpressure` withholds acknowledgements from sessions that feed a congested one.
`continuity`: gaps that subscribers see. `admission`: limits on connections. `access`: who may do
what. `tokens`: tokens nobody can guess.
Not here: what new sessions mean to tables (`core.dataplane`), MQTT keep-alive (`core.mqtt`).
Invariant: what a side ever put in a session is, in order: acknowledged (forgotten), ``unacked``,
``waiting``, ``pending``. ADR 2, 20.
"""
