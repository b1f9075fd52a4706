"""What all Spark jobs share: session, schemas, locations, cheap queries.

`session` starts Spark with every setting and its reason; `schemas` makes Spark's schemas from the
model's; `locations` opens local paths and Hadoop URIs; `settings` is what a profile is computed
with, its window included (`moving` keeps generated code the same between
profiles). `mergeable` has sums that merge by key and joins without a join, `bitsets` sets as 64-bit
words, `small_tables` skips Spark's readers and writers.

Entry: `spark_session` in `session`. Not here: what is computed (`transforms`, `deliveries`).
Invariant: only `session` starts Spark.
"""
