"""What brokers report and write down, as values: status, access rules, journal records.

Entry: `BrokerStatus` in `status` (the answer to ``Query("status")``), `AccessRules` in `access`,
`EventRecord` and `MessagesRecord` in `journal_records`, `RecordedTraffic` in `recorded_traffic`.
Not here: decisions of the control loop (`model.decisions`), telemetry (`model.telemetry`), a ring's
status (`RendezvousStatus` in `model.messages.rendezvous`), files of access rules (`model.files`),
bytes of journal records (`wire`), who makes a status (`core.queries`).
Invariant: rights are only given; what no rule allows is refused.
ADR 19 (journal records), 20 (access rules).
"""
