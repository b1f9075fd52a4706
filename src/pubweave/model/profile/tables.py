"""Every table of a workload profile as data; the documentation and the schemas follow from it.

The order is that of the pipeline's questions: traffic, interest, traces, subscriptions, links and
brokers, delivery, cost, and what the telemetry itself was worth.
"""

from __future__ import annotations

from pubweave.model.profile.delivery_tables import DELIVERY_TABLES
from pubweave.model.profile.profile import ProfileTable
from pubweave.model.profile.traffic_tables import STATE_TABLES, TRAFFIC_TABLES

PROFILE_TABLES: dict[str, ProfileTable] = {
    table.name: table for table in (*TRAFFIC_TABLES, *STATE_TABLES, *DELIVERY_TABLES)
}
