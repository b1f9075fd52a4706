"""DuckDB's statements for what is said of records, traffic, subscriptions, links and brokers.

In the order of their making; see `pipeline_duckdb`. Telemetry tables are views named ``t_...``.
The settings are the defaults: slots of 10 s, a filter weight of 0.3, five candidates, three hops.
"""

from __future__ import annotations

from pubweave.model.telemetry import TABLES
from pubweave.pipeline.profiling.screening import TimeBounds, fault_text

_EVERY = " UNION ALL ".join(
    f"""SELECT '{table.name}' AS "table", {table.recorded_by} AS broker, epoch, record_number,
        {table.columns[0].name} AS instant, {fault_text(table.name, TimeBounds(-60.0))} AS fault
        FROM t_{table.name}"""
    for table in TABLES.values()
)
_PAIR = "least(broker, neighbor) AS broker_a, greatest(broker, neighbor) AS broker_b"
_FEW = "quantile_disc({0}, [0.5, 0.95, 0.99])"
_MANY = "approx_quantile({0}, [0.5, 0.95, 0.99])"


def _rates(key: str) -> str:
    return f"""
    WITH per AS (
        SELECT floor((published_at - t0) / 10)::BIGINT AS slot, {key}, count(*) AS publications,
               sum(1 / sample_ratio) AS weight FROM t_publications, window_ GROUP BY 1, 2),
    rated AS (
        SELECT slot, t0 + slot * 10 AS slot_started_at, {key}, publications, last_slot,
               weight / CASE WHEN slot >= last_slot AND last_s > 0 THEN last_s ELSE 10 END
               AS rate_per_s FROM per, window_)
    SELECT slot, slot_started_at, {key}, publications, rate_per_s,
           pow(0.7, slot) * sum(rate_per_s * pow(0.7, -slot) * CASE WHEN slot >= last_slot THEN 0
               WHEN slot = 0 THEN 1 ELSE 0.3 END) OVER (PARTITION BY {key} ORDER BY slot)
           / CASE WHEN slot >= last_slot THEN 0.7 ELSE 1 END AS filtered_rate_per_s
    FROM rated"""


def _last_rate(key: str) -> str:
    return f"""(
    SELECT {key}, arg_max(filtered_rate_per_s, slot)
           * pow(0.7, greatest(max(last_slot) - 1 - max(slot), 0)) AS filtered_rate_per_s
    FROM {key}_rates, window_ GROUP BY ALL)"""


RECORD_STATEMENTS: dict[str, str] = {
    "words": f"""
        SELECT "table", broker, epoch, record_number >> 6 AS word, count(*) AS n,
               bit_or(1::UBIGINT << (record_number & 63)::UBIGINT) AS bits,
               count(fault) AS faulty, min(record_number) AS first, max(record_number) AS last,
               min(instant) FILTER (fault IS NULL) AS first_at,
               max(instant) FILTER (fault IS NULL) AS last_at
        FROM ({_EVERY}) GROUP BY ALL""",
    "telemetry_gaps": """
        SELECT "table", broker, epoch, sum(bit_count(bits)) AS records,
               sum(n) - sum(bit_count(bits)) AS duplicates,
               max(last) - min(first) + 1 - sum(bit_count(bits)) AS missing,
               min(first_at) AS first_at, max(last_at) AS last_at
        FROM words GROUP BY ALL""",
    "window_": """
        SELECT t0, t1, floor((t1 - t0) / 10)::BIGINT AS last_slot,
               t1 - t0 - floor((t1 - t0) / 10) * 10 AS last_s, t1 - t0 AS duration_s
        FROM (SELECT min(first_at) AS t0, max(last_at) AS t1 FROM telemetry_gaps)""",
    "brokers": """
        SELECT broker, row_number() OVER (ORDER BY broker) - 1 AS number
        FROM (SELECT DISTINCT broker FROM telemetry_gaps)""",
    "incarnations": """
        SELECT broker, epoch, first_at, last_at,
               lead(first_at) OVER (PARTITION BY broker ORDER BY epoch) AS next_began_at
        FROM (SELECT broker, epoch, min(first_at) AS first_at, max(last_at) AS last_at
              FROM telemetry_gaps GROUP BY ALL)""",
    "quarantine": f"""
        SELECT "table", fault AS reason, broker, epoch, record_number, NULL::VARCHAR AS record
        FROM ({_EVERY}) WHERE fault IS NOT NULL AND (SELECT sum(faulty) FROM words) > 0""",
    "topic_rates": _rates("topic"),
    "publisher_rates": _rates("publisher"),
    "topics": f"""
        SELECT topic, publications, weight / duration_s AS rate_per_s, filtered_rate_per_s,
               publishers, size_bytes_mean
        FROM (SELECT topic, count(*) AS publications, sum(1 / sample_ratio) AS weight,
                     count(DISTINCT publisher) AS publishers, avg(size_bytes) AS size_bytes_mean
              FROM t_publications GROUP BY ALL) CROSS JOIN window_
        JOIN {_last_rate("topic")} USING (topic)""",
    "publishers": f"""
        SELECT publisher, broker, publications, weight / duration_s AS rate_per_s,
               filtered_rate_per_s, topics
        FROM (SELECT publisher, arg_max(broker, (accepted_at, sequence)) AS broker,
                     count(*) AS publications, sum(1 / sample_ratio) AS weight,
                     count(DISTINCT topic) AS topics
              FROM t_publications GROUP BY ALL) CROSS JOIN window_
        JOIN {_last_rate("publisher")} USING (publisher)""",
    "links": f"""
        WITH m AS (SELECT {_PAIR}, count(*) AS rtt_samples, {_FEW.format("rtt_ms")} AS q
                   FROM t_link_rtts GROUP BY ALL),
             c AS (SELECT {_PAIR}, arg_max(change, (changed_at, change)) = 'added' AS is_present
                   FROM t_link_changes WHERE change IN ('added', 'removed') GROUP BY ALL),
             h AS (SELECT least(from_broker, to_broker) AS broker_a,
                          greatest(from_broker, to_broker) AS broker_b, count(*) AS notifications
                   FROM t_hops GROUP BY ALL),
             l AS (SELECT broker_a, broker_b, arg_max(s, (watched_s, who)) AS s FROM (
                       SELECT {_PAIR}, broker AS who, sum(window_s) AS watched_s,
                              struct_pack(w := sum(window_s),
                                          messages := sum(messages_in + messages_out),
                                          bytes := sum(bytes_in + bytes_out)) AS s
                       FROM t_link_loads GROUP BY ALL) GROUP BY ALL)
        SELECT broker_a, broker_b, coalesce(is_present, true) AS is_present,
               coalesce(rtt_samples, 0) AS rtt_samples, q[1] AS rtt_ms_p50, q[2] AS rtt_ms_p95,
               q[3] AS rtt_ms_p99, q[1] / 2 AS cost_ms, coalesce(s.messages, 0) AS messages,
               coalesce(s.bytes, 0) AS bytes, coalesce(s.messages / s.w, 0) AS messages_per_s,
               coalesce(s.bytes / s.w, 0) AS bytes_per_s,
               coalesce(notifications, 0) AS notifications
        FROM c FULL JOIN m USING (broker_a, broker_b) FULL JOIN l USING (broker_a, broker_b)
        FULL JOIN h USING (broker_a, broker_b)""",
    "link_queues": """
        SELECT broker, neighbor, avg(queue_messages) AS queue_messages_mean,
               CASE WHEN sum(messages_out) > 0 THEN 1e3 * avg(queue_messages)
               / (sum(messages_out) / sum(window_s)) END AS output_queueing_ms
        FROM t_link_loads GROUP BY ALL""",
    "broker_costs": f"""
        SELECT broker, handled, input_queueing_ms, matching_ms,
               input_queueing_ms + coalesce(matching_ms, 0) AS processing_ms,
               q[1] AS queueing_ms_p50, q[2] AS queueing_ms_p95, q[3] AS queueing_ms_p99
        FROM (SELECT broker, count(*) AS handled, avg(queueing_ms) AS input_queueing_ms,
                     avg(matching_ms) AS matching_ms, {_MANY.format("queueing_ms")} AS q
              FROM (SELECT broker, queueing_ms, matching_ms FROM t_publications UNION ALL
                    SELECT to_broker, queueing_ms, matching_ms FROM t_hops) GROUP BY ALL)""",
    "broker_loads": """
        SELECT broker, sum(window_s) AS watched_s,
               sum(messages_in) / sum(window_s) AS messages_in_per_s,
               sum(messages_out) / sum(window_s) AS messages_out_per_s,
               sum(bytes_in) / sum(window_s) AS bytes_in_per_s,
               sum(bytes_out) / sum(window_s) AS bytes_out_per_s,
               sum(deliveries) / sum(window_s) AS deliveries_per_s,
               sum(cpu_s) / sum(window_s) FILTER (cpu_s IS NOT NULL) AS cpu_share,
               max(queue_messages) AS queue_messages_max,
               sum(duplicates_dropped) AS duplicates_dropped,
               sum(notifications_lost) AS notifications_lost, any_value(dropped) AS dropped_records,
               any_value(restarts) AS restarts
        FROM t_broker_loads JOIN (
            SELECT broker, sum(dropped) AS dropped, count(*) - 1 AS restarts
            FROM (SELECT broker, epoch, max(dropped_records) AS dropped FROM t_broker_loads
                  GROUP BY ALL) GROUP BY ALL) USING (broker) GROUP BY ALL""",
    "subscriptions": """
        SELECT client, subscription, s.broker, topic, filter, changed_at AS added_at,
               coalesce(next_at, next_began_at) AS removed_at
        FROM (SELECT *, lead(changed_at) OVER (PARTITION BY client, subscription, broker
                         ORDER BY changed_at, epoch, record_number) AS next_at
              FROM t_subscription_changes) s LEFT JOIN incarnations USING (broker, epoch)
        WHERE change = 'added'""",
    "client_topics": """
        SELECT client, topic, arg_max(broker, (added_at, broker)) AS broker FROM subscriptions
        WHERE removed_at IS NULL AND topic IS NOT NULL GROUP BY ALL""",
    "broker_topics": "SELECT broker, topic, count(*) AS clients FROM client_topics GROUP BY ALL",
    "broker_subscriptions": """
        WITH state AS (SELECT broker, count(DISTINCT client) AS clients,
                              count(*) AS subscriptions, count(DISTINCT topic) AS topics
                       FROM subscriptions WHERE removed_at IS NULL GROUP BY ALL),
             changes AS (SELECT broker, count(*) FILTER (change = 'added') AS added,
                                count(*) FILTER (change = 'removed') AS removed
                         FROM t_subscription_changes GROUP BY ALL),
             moments AS (SELECT broker, topic, moment, sum(change) AS change FROM (
                             SELECT broker, topic, added_at AS moment, 1 AS change
                             FROM subscriptions
                             UNION ALL SELECT broker, topic, removed_at, -1 FROM subscriptions
                             WHERE removed_at IS NOT NULL)
                         WHERE topic IS NOT NULL GROUP BY ALL),
             counted AS (SELECT broker, change, sum(change) OVER (PARTITION BY broker, topic
                                ORDER BY moment) AS after FROM moments),
             turns AS (SELECT broker, count(*) AS turns FROM counted
                       WHERE (after - change = 0) != (after = 0) GROUP BY ALL)
        SELECT broker, coalesce(clients, 0) AS clients, coalesce(subscriptions, 0) AS subscriptions,
               coalesce(topics, 0) AS topics, coalesce(added, 0) / duration_s AS added_per_s,
               coalesce(removed, 0) / duration_s AS removed_per_s,
               coalesce(turns, 0) / duration_s AS topic_changes_per_s
        FROM brokers LEFT JOIN state USING (broker) LEFT JOIN changes USING (broker)
        LEFT JOIN turns USING (broker) CROSS JOIN window_""",
    "subscription_rates": """
        SELECT slot, t0 + slot * 10 AS slot_started_at, broker, added, removed
        FROM (SELECT floor((changed_at - t0) / 10)::BIGINT AS slot, broker,
                     count(*) FILTER (change = 'added') AS added,
                     count(*) FILTER (change = 'removed') AS removed
              FROM t_subscription_changes, window_ GROUP BY 1, 2), window_""",
    "placement_candidates": """
        SELECT client, rank, broker, similarity, load, is_current FROM (
            SELECT *, row_number() OVER (PARTITION BY client
                       ORDER BY similarity DESC, load, broker) AS rank
            FROM (SELECT c.client, b.broker, count(*) / any_value(s.n) AS similarity,
                         any_value(l.load) AS load, bool_or(b.broker = c.broker) AS is_current
                  FROM client_topics c JOIN broker_topics b ON b.topic = c.topic
                       AND (b.broker != c.broker OR b.clients > 1)
                  JOIN (SELECT client, count(*) AS n FROM client_topics GROUP BY ALL) s
                       ON s.client = c.client
                  JOIN (SELECT broker, count(*) / sum(count(*)) OVER () AS load FROM subscriptions
                        WHERE removed_at IS NULL GROUP BY ALL) l ON l.broker = b.broker
                  GROUP BY c.client, b.broker)) WHERE rank <= 5""",
}
