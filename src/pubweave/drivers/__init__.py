"""The drivers of `runtime` in simulation: broker hosts, clients and MQTT doors on a virtual loop.

Entry: `DRIVEN` in `scenarios` has a `Scenario` by name, for ``pubweave simulate NAME --drivers``.
  seed -> DriverRun -> VirtualLoop -> BrokerHost, connect(), MQTT packets -> histories -> RunResult
`machine` is what a driver takes from its machine, `overlay` starts, stops and kills broker
processes, `faults` strikes, `run` has phases, rest and what must not be left over; `native` and
`mqtt` are workloads, `mqtt_client` is a small client of our own, `history` judges deliveries.
Not here: the loop (`sim.eventloop`), scenarios of cores without drivers (`sim.scenarios`), real
processes and sockets (the folder soak).
Invariant: what is due follows from what clients were told, never from the tables of brokers.
ADR 28.
"""
