"""The same profile by DuckDB, the rival: one SQL statement per table, written as Parquet.

The statements are written for DuckDB, not translated: lists where it is good at them, a recursive
query for paths, `quantile_cont` for percentiles. Left out is what DuckDB has no function for: theta
sketches, and the Bloom filters that go with them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pubweave.pipeline.settings import ProfileSettings

TELEMETRY = (
    "publications",
    "deliveries",
    "hops",
    "subscription_changes",
    "link_changes",
    "link_rtts",
    "link_loads",
    "broker_loads",
)

_NUMBERED = " UNION ALL ".join(
    f"SELECT '{table}' AS tab, {by} AS broker, epoch, record_number, {at} AS instant FROM {table}"
    for table, by, at in (
        ("publications", "broker", "published_at"),
        ("deliveries", "broker", "delivered_at"),
        ("hops", "to_broker", "received_at"),
        ("subscription_changes", "broker", "changed_at"),
        ("link_rtts", "broker", "sampled_at"),
        ("link_loads", "broker", "sampled_at"),
        ("broker_loads", "broker", "sampled_at"),
    )
)
_PAIR = "least(broker, neighbor) AS broker_a, greatest(broker, neighbor) AS broker_b"
_QUANTILES = "quantile_disc({0}, [0.5, 0.95, 0.99])"

STATEMENTS: dict[str, str] = {
    "telemetry_gaps": f"""
        SELECT tab, broker, epoch, sum(bit_count(bits)) AS records,
               sum(n) - sum(bit_count(bits)) AS duplicates,
               max(last) - min(first) + 1 - sum(bit_count(bits)) AS missing,
               min(first_at) AS first_at, max(last_at) AS last_at
        FROM (SELECT tab, broker, epoch, record_number >> 6 AS word, count(*) AS n,
                     bit_or(1::UBIGINT << (record_number & 63)::UBIGINT) AS bits,
                     min(record_number) AS first, max(record_number) AS last,
                     min(instant) AS first_at, max(instant) AS last_at
              FROM ({_NUMBERED}) GROUP BY ALL)
        GROUP BY ALL""",
    "window_": "SELECT min(first_at) AS t0, max(last_at) AS t1 FROM telemetry_gaps",
    "brokers": """
        SELECT broker, row_number() OVER (ORDER BY broker) - 1 AS number
        FROM (SELECT DISTINCT broker FROM telemetry_gaps)""",
    "facts": """
        WITH d AS (SELECT publisher, sequence, bit_or(1::BIGINT << number) AS receivers,
                          count(*) AS deliveries, bit_xor(hash(client)) AS client_digest,
                          max(delivered_at) AS last_delivered_at
                   FROM deliveries JOIN brokers USING (broker) GROUP BY ALL),
             h AS (SELECT publisher, sequence, count(*) AS hops,
                          bit_xor(hash(from_broker, to_broker)) AS link_digest
                   FROM hops GROUP BY ALL)
        SELECT p.publisher, p.sequence, p.topic, p.broker AS root, p.published_at,
               1 / p.sample_ratio AS weight, coalesce(receivers, 0) AS receivers,
               coalesce(deliveries, 0) AS deliveries, coalesce(client_digest, 0) AS client_digest,
               last_delivered_at, coalesce(hops, 0) AS hops,
               coalesce(link_digest, 0) AS link_digest,
               hash(p.topic, p.broker, coalesce(hops, 0), coalesce(link_digest, 0),
                    coalesce(receivers, 0)) AS tree
        FROM publications p LEFT JOIN d USING (publisher, sequence)
        LEFT JOIN h USING (publisher, sequence)""",
    **{
        f"{key}_rates": f"""
        SELECT slot, {key}, n AS publications, rate AS rate_per_s,
               pow(0.7, slot) * sum(rate * CASE WHEN slot >= last_slot THEN 0
                   WHEN slot = 0 THEN 1 ELSE 0.3 END * pow(0.7, -slot))
                   OVER (PARTITION BY {key} ORDER BY slot) AS filtered_rate_per_s
        FROM (SELECT floor((published_at - t0) / 10)::BIGINT AS slot, {key}, count(*) AS n,
                     sum(1 / sample_ratio) / 10 AS rate,
                     any_value(floor((t1 - t0) / 10)) AS last_slot
              FROM publications, window_ GROUP BY 1, 2)"""
        for key in ("topic", "publisher")
    },
    "topics": """
        SELECT topic, n AS publications, weight / (t1 - t0) AS rate_per_s, filtered_rate_per_s,
               publishers, size_bytes_mean
        FROM (SELECT topic, count(*) AS n, sum(1 / sample_ratio) AS weight,
                     count(DISTINCT publisher) AS publishers, avg(size_bytes) AS size_bytes_mean
              FROM publications GROUP BY ALL) CROSS JOIN window_
        JOIN (SELECT topic, arg_max(filtered_rate_per_s, slot) AS filtered_rate_per_s
              FROM topic_rates GROUP BY ALL) USING (topic)""",
    "publishers": """
        SELECT publisher, broker, n AS publications, weight / (t1 - t0) AS rate_per_s,
               filtered_rate_per_s, topics
        FROM (SELECT publisher, arg_max(broker, accepted_at) AS broker, count(*) AS n,
                     sum(1 / sample_ratio) AS weight, count(DISTINCT topic) AS topics
              FROM publications GROUP BY ALL) CROSS JOIN window_
        JOIN (SELECT publisher, arg_max(filtered_rate_per_s, slot) AS filtered_rate_per_s
              FROM publisher_rates GROUP BY ALL) USING (publisher)""",
    "links": f"""
        WITH m AS (SELECT {_PAIR}, count(*) AS rtt_samples, {_QUANTILES.format("rtt_ms")} AS q
                   FROM link_rtts GROUP BY ALL),
             c AS (SELECT {_PAIR}, arg_max(change, changed_at) = 'added' AS is_present
                   FROM link_changes WHERE change IN ('added', 'removed') GROUP BY ALL),
             h AS (SELECT least(from_broker, to_broker) AS broker_a,
                          greatest(from_broker, to_broker) AS broker_b, count(*) AS notifications
                   FROM hops GROUP BY ALL),
             l AS (SELECT broker_a, broker_b, arg_max(s, watched_s) AS s FROM (
                       SELECT {_PAIR}, broker AS who, sum(window_s) AS watched_s,
                              struct_pack(w := sum(window_s),
                                          messages := sum(messages_in + messages_out),
                                          bytes := sum(bytes_in + bytes_out)) AS s
                       FROM link_loads GROUP BY ALL) GROUP BY ALL)
        SELECT broker_a, broker_b, is_present, rtt_samples, q[1] AS p50, q[2] AS p95, q[3] AS p99,
               q[1] / 2 AS cost_ms, s.messages AS messages, s.bytes AS bytes,
               s.messages / s.w AS messages_per_s, s.bytes / s.w AS bytes_per_s, notifications
        FROM c FULL JOIN m USING (broker_a, broker_b) FULL JOIN l USING (broker_a, broker_b)
        FULL JOIN h USING (broker_a, broker_b)""",
    "link_queues": """
        SELECT broker, neighbor, avg(queue_messages) AS queue_messages_mean,
               1e3 * avg(queue_messages) / (sum(messages_out) / sum(window_s)) AS output_queueing_ms
        FROM link_loads GROUP BY ALL""",
    "broker_costs": f"""
        SELECT broker, count(*) AS handled, avg(queueing_ms) AS input_queueing_ms,
               avg(matching_ms) AS matching_ms,
               avg(queueing_ms) + coalesce(avg(matching_ms), 0) AS processing_ms,
               {_QUANTILES.format("queueing_ms").replace("quantile_disc", "approx_quantile")} AS q
        FROM (SELECT broker, queueing_ms, matching_ms FROM publications UNION ALL
              SELECT to_broker, queueing_ms, matching_ms FROM hops) GROUP BY ALL""",
    "broker_loads_": """
        SELECT broker, sum(window_s) AS watched_s, sum(messages_in) / sum(window_s) AS in_per_s,
               sum(messages_out) / sum(window_s) AS out_per_s,
               sum(bytes_in) / sum(window_s) AS bytes_in_per_s,
               sum(bytes_out) / sum(window_s) AS bytes_out_per_s,
               sum(deliveries) / sum(window_s) AS deliveries_per_s,
               sum(cpu_s) / sum(window_s) AS cpu_share, max(queue_messages) AS queue_max,
               sum(duplicates_dropped) AS duplicates, sum(notifications_lost) AS lost
        FROM broker_loads GROUP BY ALL""",
    "subscriptions": """
        SELECT client, subscription, broker, topic, filter, changed_at AS added_at, removed_at
        FROM (SELECT *, lead(changed_at) OVER (PARTITION BY client, subscription, broker
                         ORDER BY changed_at, epoch, record_number) AS removed_at
              FROM subscription_changes) WHERE change = 'added'""",
    "client_topics": """
        SELECT client, topic, arg_max(broker, added_at) AS broker FROM subscriptions
        WHERE removed_at IS NULL AND topic IS NOT NULL GROUP BY ALL""",
    "broker_topics": "SELECT broker, topic, count(*) AS clients FROM client_topics GROUP BY ALL",
    "broker_subscriptions": """
        SELECT broker, count(DISTINCT client) AS clients, count(*) AS subscriptions,
               count(DISTINCT topic) AS topics
        FROM subscriptions WHERE removed_at IS NULL GROUP BY ALL""",
    "subscription_rates": """
        SELECT floor((changed_at - t0) / 10) AS slot, broker,
               count(*) FILTER (change = 'added') AS a,
               count(*) FILTER (change = 'removed') AS r
        FROM subscription_changes, window_ GROUP BY 1, 2""",
    "placement_candidates": """
        SELECT client, broker, similarity, load, is_current, rank FROM (
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
    "tree_sets": """
        SELECT tree, any_value(topic) AS topic, any_value(root) AS root,
               any_value(receivers) AS receivers, count(*) AS publications, sum(weight) AS weight,
               min(struct_pack(publisher, sequence)) AS example
        FROM facts GROUP BY tree""",
    "tree_receivers": """
        SELECT tree, broker FROM tree_sets JOIN brokers ON (receivers >> number) & 1 = 1""",
    "tree_links": """
        SELECT tree, to_broker, arg_min(from_broker, received_at) AS from_broker
        FROM hops JOIN tree_sets ON hops.publisher = example.publisher
             AND hops.sequence = example.sequence
        WHERE to_broker != root GROUP BY ALL""",
    "tree_paths": """
        WITH RECURSIVE priced AS (
            SELECT t.tree, t.from_broker, t.to_broker, coalesce(l.cost_ms, 0) AS cost_ms
            FROM tree_links t LEFT JOIN links l
            ON l.broker_a = least(t.from_broker, t.to_broker)
            AND l.broker_b = greatest(t.from_broker, t.to_broker)),
        reached AS (
            SELECT tree, root AS broker, 0::DOUBLE AS delay_ms, []::VARCHAR[] AS path FROM tree_sets
            UNION ALL
            SELECT p.tree, p.to_broker, r.delay_ms + p.cost_ms, list_append(r.path, p.to_broker)
            FROM reached r JOIN priced p ON p.tree = r.tree AND p.from_broker = r.broker)
        SELECT * FROM reached""",
    "delivery_trees": """
        WITH members AS (SELECT DISTINCT tree, broker FROM (
                 SELECT tree, root AS broker FROM tree_sets UNION ALL SELECT * FROM tree_receivers
                 UNION ALL SELECT tree, to_broker FROM tree_links)),
             p AS (SELECT tree, count(*) AS brokers,
                          sum(coalesce(processing_ms, 0)) AS processing_ms
                   FROM members LEFT JOIN broker_costs USING (broker) GROUP BY ALL),
             c AS (SELECT tree, count(*) AS links, sum(coalesce(cost_ms, 0)) AS communication_ms
                   FROM tree_links t LEFT JOIN links l
                   ON l.broker_a = least(t.from_broker, t.to_broker)
                   AND l.broker_b = greatest(t.from_broker, t.to_broker) GROUP BY ALL),
             r AS (SELECT tree, count(*) AS receivers, sum(coalesce(delay_ms, 0)) AS delay_ms,
                          count(*) FILTER (broker = root) AS receiving_root
                   FROM tree_receivers JOIN tree_sets USING (tree)
                   LEFT JOIN tree_paths USING (tree, broker) GROUP BY ALL)
        SELECT tree, topic, root AS broker, publications, weight, brokers,
               coalesce(links, 0) AS links, coalesce(r.receivers, 0) AS receivers,
               brokers - 1 - coalesce(r.receivers, 0) + coalesce(receiving_root, 0) AS relays,
               processing_ms, coalesce(communication_ms, 0) AS communication_ms,
               processing_ms + coalesce(communication_ms, 0) AS cost_ms,
               coalesce(delay_ms, 0) AS delay_ms
        FROM tree_sets JOIN p USING (tree) LEFT JOIN c USING (tree) LEFT JOIN r USING (tree)""",
    "topic_costs": """
        SELECT topic, sum(weight) AS weight, sum(weight * relays) AS relay_overhead,
               sum(weight * delay_ms) AS delay_ms, sum(weight * cost_ms) AS cost_ms
        FROM delivery_trees GROUP BY ALL""",
    "overlay_cost": """
        SELECT sum(weight) AS weight, sum(weight * processing_ms) AS processing_ms,
               sum(weight * communication_ms) AS communication_ms, sum(weight * cost_ms) AS cost_ms,
               sum(weight * relays) AS relay_overhead, sum(weight * delay_ms) AS delay_ms
        FROM delivery_trees""",
    "interest_members": """
        WITH s AS (SELECT receivers | (1::BIGINT << number) AS members, sum(publications) AS n
                   FROM tree_sets JOIN brokers ON broker = root GROUP BY ALL)
        SELECT members, n, broker FROM s JOIN brokers ON (members >> number) & 1 = 1""",
    "common_interest": """
        SELECT a.broker AS broker_a, b.broker AS broker_b, sum(a.n) AS notifications
        FROM interest_members a JOIN interest_members b USING (members)
        WHERE a.broker < b.broker GROUP BY ALL""",
    "near": """
        WITH RECURSIVE step AS (
            SELECT broker_a AS broker, broker_b AS other FROM links WHERE is_present
            UNION ALL SELECT broker_b, broker_a FROM links WHERE is_present),
        walk AS (
            SELECT broker, other, 1 AS hops FROM step
            UNION SELECT w.broker, s.other, w.hops + 1 FROM walk w JOIN step s ON s.broker = w.other
            WHERE w.hops < 3 AND w.broker != s.other)
        SELECT broker, other, min(hops) AS hops FROM walk GROUP BY ALL""",
    "broker_interest": """
        WITH i AS (SELECT broker, sum(n) AS notifications FROM interest_members GROUP BY ALL),
             o AS (SELECT near.broker, count(*) AS near_count,
                          sum(coalesce(notifications, 0)) AS overlap
                   FROM near LEFT JOIN common_interest c
                   ON c.broker_a = least(near.broker, other)
                   AND c.broker_b = greatest(near.broker, other)
                   GROUP BY ALL)
        SELECT broker, notifications, near_count,
               CASE WHEN near_count >= 2
               THEN greatest(0, (overlap - notifications) / (near_count - 1)) END AS phi
        FROM i LEFT JOIN o USING (broker)""",
    "common_interest_triples": """
        WITH ways AS (SELECT f.broker, v.broker AS via, f.other AS far, f.hops
                      FROM near f JOIN near v ON v.other = f.other AND v.hops = 1
                      JOIN near n ON n.broker = f.broker AND n.other = v.broker
                      AND n.hops = f.hops - 1 WHERE f.hops >= 2)
        SELECT w.broker, w.via, w.far, any_value(w.hops) AS hops, sum(i.n) AS notifications
        FROM ways w JOIN interest_members i ON i.broker = w.broker
        JOIN interest_members k ON k.broker = w.via AND k.members = i.members
        JOIN interest_members j ON j.broker = w.far AND j.members = i.members GROUP BY ALL""",
    "traced": """
        SELECT publisher, sequence,
               row_number() OVER (PARTITION BY publisher ORDER BY sequence) - 1 AS position
        FROM publications JOIN (SELECT publisher, max(sequence) AS last FROM publications
                                GROUP BY ALL) USING (publisher) WHERE sequence > last - 100""",
    "traced_deliveries": """
        SELECT publisher, sequence, position, broker, count(*) AS deliveries
        FROM deliveries JOIN traced USING (publisher, sequence) GROUP BY ALL""",
    "traces": """
        SELECT publisher, broker, bit_or(1::HUGEINT << position::INT) AS bit_vector,
               count(*) AS distinct_publications, sum(deliveries) AS local_deliveries
        FROM traced_deliveries GROUP BY ALL""",
    "downstream_counts": """
        WITH t AS (SELECT publisher, sequence, tree FROM facts
                   JOIN traced USING (publisher, sequence)),
             behind AS (SELECT publisher, sequence, to_broker, sum(deliveries) AS n FROM (
                        SELECT publisher, sequence, unnest(path) AS to_broker, deliveries
                        FROM traced_deliveries JOIN t USING (publisher, sequence)
                        JOIN tree_paths USING (tree, broker)) GROUP BY ALL),
             counted AS (SELECT t.publisher, t.sequence, l.from_broker, l.to_broker,
                                coalesce(n, 0) AS n,
                                row_number() OVER (
                                    PARTITION BY t.publisher, l.from_broker, l.to_broker
                                    ORDER BY t.sequence DESC) - 1 AS age,
                                count(*) OVER (PARTITION BY t.publisher, l.from_broker, l.to_broker)
                                    AS total
                         FROM t JOIN tree_links l USING (tree)
                         LEFT JOIN behind b ON b.publisher = t.publisher
                         AND b.sequence = t.sequence AND b.to_broker = l.to_broker)
        SELECT publisher, from_broker, to_broker, count(*) AS publications, avg(n) AS mean,
               sum(n * pow(0.75, age) * CASE WHEN age = total - 1 THEN 1 ELSE 0.25 END) AS running
        FROM counted GROUP BY ALL""",
    "latency": f"""
        SELECT floor((delivered_at - latency_ms / 1e3 - t0) / 10)::BIGINT AS slot, count(*) AS n,
               avg(latency_ms) AS mean, max(latency_ms) AS worst,
               {_QUANTILES.format("latency_ms").replace("quantile_disc", "approx_quantile")} AS q
        FROM deliveries, window_ GROUP BY 1""",
    "audit_subscriptions": """
        SELECT *, filter = 'class = ''' || topic || '''' AS plain,
               try_cast(regexp_extract(filter, 'price > ([0-9]+)', 1) AS DOUBLE) AS above
        FROM subscriptions""",
    "audit_sums": """
        WITH steady AS (SELECT topic, count(*) AS due, bit_xor(hash(client)) AS digest
                        FROM audit_subscriptions WHERE plain GROUP BY ALL),
             explicit AS (SELECT p.publisher, p.sequence, count(*) AS due,
                                 bit_xor(hash(s.client)) AS digest
                          FROM publications p JOIN audit_subscriptions s ON s.topic = p.topic
                          AND NOT s.plain
                          AND map_extract_value(p.attributes, 'price').number > s.above
                          GROUP BY ALL)
        SELECT f.publisher, f.sequence,
               coalesce(s.due, 0) + coalesce(e.due, 0) AS due,
               coalesce(s.due, 0) + coalesce(e.due, 0) = f.deliveries
               AND xor(coalesce(s.digest, 0), coalesce(e.digest, 0)) = f.client_digest AS adds_up
        FROM facts f LEFT JOIN steady s ON s.topic = f.topic
        LEFT JOIN explicit e ON e.publisher = f.publisher AND e.sequence = f.sequence""",
    "audit": """
        SELECT count(*) AS publications, sum(due) AS due, count(*) FILTER (NOT adds_up) AS wrong
        FROM audit_sums""",
}


def run_duckdb(
    source: Path, output: Path, settings: ProfileSettings, threads: int, memory: str
) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds per table, and figures to compare with Spark's."""
    import duckdb

    assert settings.slot_s == 10.0
    output.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect(str(output / "work.duckdb"))
    connection.execute(f"SET threads = {threads}; SET memory_limit = '{memory}'")
    connection.execute(f"SET temp_directory = '{output / 'spill'}'")
    for table in TELEMETRY:
        connection.execute(
            f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{source / table}/*.parquet')"
        )
    seconds = {}
    for name, statement in STATEMENTS.items():
        started = time.monotonic()
        connection.execute(f"CREATE TABLE {name} AS {statement}")
        connection.execute(f"COPY {name} TO '{output / name}.parquet' (COMPRESSION zstd)")
        seconds[name] = time.monotonic() - started
    [cost] = connection.execute("SELECT cost_ms, relay_overhead FROM overlay_cost").fetchall()
    [due] = connection.execute("SELECT due, wrong FROM audit").fetchall()
    [pairs] = connection.execute("SELECT sum(notifications) FROM common_interest").fetchall()
    [trees] = connection.execute("SELECT count(*) FROM delivery_trees").fetchall()
    connection.close()
    figures = {
        "cost_ms": cost[0],
        "relay_overhead": cost[1],
        "due": due[0],
        "wrong": due[1],
        "common_interest": pairs[0],
        "trees": trees[0],
    }
    return seconds, figures
