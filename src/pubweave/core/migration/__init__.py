"""Migration: a client moves to another broker, along the path of the tree, under traffic.

Entry: `MigrationCoordinator` in `coordinator`. `departure` finds the path and asks everybody on it.
`participant` is a broker's part on the path, `source` has those of its two ends, `states` their
stages, `registry` all parts of a broker. `tables` changes the client's routing entries;
`uncertainty` keeps the order of publications when a broker on the path was restarted; `services`:
what all these may use of the broker.
  source > ... > destination   reserve       nothing has changed yet
  source < ... < destination   reserved      the client is asked, the source decides
  source > ... > destination   update        tables change for what the client publishes
  source < ... < destination   moved         and for what it gets; the client is redirected
  source > ... > destination   complete      the client's session goes on there
Not here: who should move (`core.relocation`), the client's end (`core.client`), `core.mqtt`.
Invariant: the source decides alone, in one event; from then on only forward. ADR 13.
"""
