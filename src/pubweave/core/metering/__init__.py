"""What a broker measures of its own work: counters, load samples, telemetry records.

Entry: `Counters` in `counters`, in every broker; `BrokerMeter` in `recorder`, only in brokers that
record telemetry, puts records into `Metering` in `metering`.
Not here: the schema (`model.telemetry`), Parquet files (`runtime.broker`, `telemetry`), the status
document (`core.queries`), what is traced for relocation (`core.relocation`).
Invariant: telemetry never holds more than a bounded number of records and never holds up routing;
when nobody takes records, the newest are dropped and counted. Whether a publication is sampled
depends on its name alone, so all brokers record the same ones.
ADR 4.
"""
