"""Values that all packages share: the lowest layer, which imports no other package.

Entry: `Publication` in `publications`, `Topology` in `topology`, `Plan` in `plans`. `ids` names
brokers, clients and links. `deployment` has the states of a plan and its actions and the
steps of a remapping, `decisions` the records of the control loop, `profile` the tables of the
workload profile. `telemetry` is the one schema of telemetry, `mqtt_packets` has MQTT packets as
values, `bloom` Bloom filters, `plugins` what other packages add.
Rooms: `filters`, `messages` (between brokers and clients), `records` (what brokers
report and write down), `files` (what people read and write).
Not here: protocols (`core`), bytes (`wire`), generated topologies and workloads (`generate`).
Invariant: a publication is named by (publisher, sequence), and a publisher never repeats a
sequence.
ADR 4 (telemetry), 5 (values), 11 (decisions).
"""
