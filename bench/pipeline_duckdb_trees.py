"""DuckDB's statements for what is said of publications: trees, interest, traces, cost, the audit.

In the order of their making, after those of `pipeline_duckdb_sql`. At most 63 brokers, and content
filters of the benchmark's own form (``price > n``): DuckDB has no parser for the others.
"""

from __future__ import annotations

_MANY = "approx_quantile({0}, [0.5, 0.95, 0.99])"
_STANDS = "removed_at IS NULL OR"

TREE_STATEMENTS: dict[str, str] = {
    "facts": """
        WITH d AS (SELECT publisher, sequence, bit_or(1::BIGINT << number) AS receivers,
                          count(*) AS deliveries, bit_xor(hash(client)) AS client_digest,
                          max(delivered_at) AS last_delivered_at
                   FROM t_deliveries JOIN brokers USING (broker) GROUP BY ALL),
             h AS (SELECT publisher, sequence, count(*) AS hops,
                          bit_xor(hash(from_broker, to_broker)) AS link_digest
                   FROM t_hops GROUP BY ALL),
             p AS (SELECT publisher, sequence, count(*) AS recorded, any_value(topic) AS topic,
                          any_value(broker) AS root, max(published_at) AS published_at,
                          max(1 / sample_ratio) AS weight FROM t_publications GROUP BY ALL)
        SELECT publisher, sequence, coalesce(recorded, 0) AS recorded, topic, root, published_at,
               weight, coalesce(receivers, 0) AS receivers, coalesce(deliveries, 0) AS deliveries,
               coalesce(client_digest, 0) AS client_digest, last_delivered_at,
               coalesce(hops, 0) AS hops,
               hash(topic, root, coalesce(hops, 0), coalesce(link_digest, 0),
                    coalesce(receivers, 0)) AS tree
        FROM p FULL JOIN d USING (publisher, sequence) FULL JOIN h USING (publisher, sequence)""",
    "tree_sets": """
        SELECT tree, any_value(topic) AS topic, any_value(root) AS root,
               any_value(receivers) AS receivers, count(*) AS publications, sum(weight) AS weight,
               arg_min(struct_pack(publisher, sequence), hash(publisher, sequence)) AS example
        FROM facts WHERE recorded > 0 GROUP BY tree""",
    "tree_receivers": """
        SELECT tree, broker FROM tree_sets JOIN brokers ON (receivers >> number) & 1 = 1""",
    "tree_links": """
        SELECT tree, arg_min(from_broker, (received_at, from_broker)) AS from_broker, to_broker
        FROM t_hops h JOIN tree_sets ON h.publisher = example.publisher
             AND h.sequence = example.sequence
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
                 SELECT tree, root AS broker FROM tree_sets UNION ALL
                 SELECT tree, broker FROM tree_receivers
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
               sum(weight * relays) AS relay_overhead, sum(weight * delay_ms) AS delay_ms,
               1.0 AS delay_weight, sum(weight * (relays + delay_ms)) AS notification_cost
        FROM delivery_trees""",
    "members": """
        WITH s AS (SELECT receivers | (1::BIGINT << number) AS members, sum(publications) AS n
                   FROM tree_sets JOIN brokers ON broker = root GROUP BY ALL)
        SELECT members, n, broker FROM s JOIN brokers ON (members >> number) & 1 = 1""",
    "common_interest": """
        SELECT a.broker AS broker_a, b.broker AS broker_b, sum(a.n) AS notifications
        FROM members a JOIN members b USING (members) WHERE a.broker < b.broker GROUP BY ALL""",
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
        WITH p AS (SELECT root AS broker, sum(publications) AS published FROM tree_sets
                   GROUP BY ALL),
             c AS (SELECT broker, sum(publications) AS consumed FROM tree_receivers
                   JOIN tree_sets USING (tree) GROUP BY ALL),
             i AS (SELECT broker, sum(n) AS notifications FROM members GROUP BY ALL),
             o AS (SELECT near.broker, count(*) AS neighbors_near,
                          sum(coalesce(notifications, 0)) AS overlap
                   FROM near LEFT JOIN common_interest c
                   ON c.broker_a = least(near.broker, other)
                   AND c.broker_b = greatest(near.broker, other) GROUP BY ALL)
        SELECT broker, coalesce(published, 0) AS published, coalesce(consumed, 0) AS consumed,
               coalesce(notifications, 0) AS notifications,
               coalesce(neighbors_near, 0) AS neighbors_near,
               CASE WHEN neighbors_near >= 2 THEN greatest(0, (overlap
               - coalesce(notifications, 0)) / (neighbors_near - 1)) END AS neighborhood_overlap
        FROM brokers LEFT JOIN p USING (broker) LEFT JOIN c USING (broker)
        LEFT JOIN i USING (broker) LEFT JOIN o USING (broker)""",
    "common_interest_triples": """
        WITH ways AS (SELECT f.broker, v.broker AS via, f.other AS far, f.hops
                      FROM near f JOIN near v ON v.other = f.other AND v.hops = 1
                      JOIN near n ON n.broker = f.broker AND n.other = v.broker
                      AND n.hops = f.hops - 1 WHERE f.hops >= 2),
             exact AS (SELECT i.broker, k.broker AS via, j.broker AS far, sum(i.n) AS notifications
                       FROM ways w JOIN members i ON i.broker = w.broker
                       JOIN members k ON k.broker = w.via AND k.members = i.members
                       JOIN members j ON j.broker = w.far AND j.members = i.members GROUP BY ALL)
        SELECT broker, via, far, hops, coalesce(e.notifications, 0) AS notifications,
               CASE WHEN neighborhood_overlap IS NOT NULL THEN least(neighborhood_overlap,
               coalesce(f.notifications, 0), coalesce(v.notifications, 0)) END AS estimate
        FROM ways LEFT JOIN exact e USING (broker, via, far)
        LEFT JOIN broker_interest USING (broker)
        LEFT JOIN common_interest f ON f.broker_a = least(broker, far)
            AND f.broker_b = greatest(broker, far)
        LEFT JOIN common_interest v ON v.broker_a = least(broker, via)
            AND v.broker_b = greatest(broker, via)""",
    "cached": """
        WITH l AS (SELECT hash(publisher, sequence) AS entry, root, receivers FROM facts
                   WHERE recorded > 0 ORDER BY published_at DESC, publisher DESC, sequence DESC
                   LIMIT 2000)
        SELECT entry, root AS broker FROM l UNION
        SELECT entry, broker FROM l JOIN brokers ON (receivers >> number) & 1 = 1""",
    "bloom_estimates": """
        WITH places AS (SELECT entry, h, hash(h, entry) % 8192 AS place
                        FROM (SELECT DISTINCT entry FROM cached), range(4) hashes(h)),
             filters AS (SELECT DISTINCT broker AS other, place FROM cached
                         JOIN places USING (entry)),
             affirmed AS (SELECT entry, other FROM places JOIN filters USING (place)
                          GROUP BY ALL HAVING count(*) = 4),
             own AS (SELECT broker, count(*) AS cached FROM cached GROUP BY ALL),
             counted AS (SELECT broker, other, count(*) AS n FROM cached
                         JOIN affirmed USING (entry) GROUP BY ALL),
             both_ AS (SELECT a.broker, b.broker AS other, count(*) AS n FROM cached a
                       JOIN cached b USING (entry) GROUP BY ALL)
        SELECT own.broker, o.broker AS other, own.cached, coalesce(b.n, 0) AS common,
               coalesce(c.n, 0) AS bloom_estimate
        FROM own JOIN own o ON own.broker != o.broker
        LEFT JOIN counted c ON c.broker = own.broker AND c.other = o.broker
        LEFT JOIN both_ b ON b.broker = own.broker AND b.other = o.broker""",
    "traced": """
        SELECT publisher, sequence,
               row_number() OVER (PARTITION BY publisher ORDER BY sequence) - 1 AS position
        FROM facts JOIN (SELECT publisher, max(sequence) AS last,
                                ceil(100 / min(sample_ratio)) AS span FROM t_publications
                         GROUP BY ALL) USING (publisher)
        WHERE recorded > 0 AND sequence > last - span""",
    "traced_deliveries": """
        SELECT publisher, sequence, position, broker, count(*) AS deliveries
        FROM t_deliveries JOIN traced USING (publisher, sequence) GROUP BY ALL""",
    "traces": """
        WITH w AS (SELECT publisher, min(sequence) AS first_sequence,
                          max(sequence) AS last_sequence, count(*) AS traced
                   FROM traced GROUP BY ALL),
             b AS (SELECT publisher, broker, position >> 6 AS word,
                          bit_or(1::UBIGINT << (position & 63)::UBIGINT) AS bits,
                          count(*) AS n, sum(deliveries) AS deliveries
                   FROM traced_deliveries GROUP BY ALL),
             m AS (SELECT publisher, broker, map_from_entries(list((word, bits))) AS words,
                          sum(n) AS distinct_publications, sum(deliveries) AS local_deliveries
                   FROM b GROUP BY ALL)
        SELECT publisher, broker, first_sequence, last_sequence, traced,
               [coalesce(words[i], 0) for i in range((traced + 63) // 64)] AS bit_vector,
               distinct_publications, local_deliveries
        FROM m JOIN w USING (publisher)""",
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
        SELECT publisher, from_broker AS broker, to_broker AS neighbor, count(*) AS publications,
               avg(n) AS subscribers_mean, sum(n * pow(0.75, age)
               * CASE WHEN age = total - 1 THEN 1 ELSE 0.25 END) AS subscribers_running
        FROM counted GROUP BY ALL""",
    "periods": """
        WITH m AS (SELECT *, changed_at - 2 AS from_at, changed_at + 2 AS to_at FROM t_link_changes
                   WHERE change IN ('added', 'removed')
                   AND changed_at > (SELECT min(published_at) FROM t_publications)),
             b AS (SELECT *, coalesce(from_at > max(to_at) OVER (ORDER BY from_at, broker, neighbor,
                          change ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS begins
                   FROM m)
        SELECT *, sum(begins::INT) OVER (ORDER BY from_at, broker, neighbor, change)
               AS transformation FROM b""",
    "affected": """
        WITH s AS (SELECT transformation, min(from_at) AS from_at, max(to_at) AS to_at FROM periods
                   GROUP BY ALL),
             moved AS (SELECT transformation, broker FROM periods UNION
                       SELECT transformation, neighbor FROM periods),
             members AS (SELECT tree, root AS broker FROM tree_sets UNION
                         SELECT tree, to_broker FROM tree_links UNION
                         SELECT tree, broker FROM tree_receivers),
             touched AS (SELECT DISTINCT transformation, tree FROM members
                         JOIN moved USING (broker))
        SELECT transformation, publisher, sequence FROM facts JOIN s ON published_at <= to_at
        AND coalesce(last_delivered_at, published_at) >= from_at
        JOIN touched USING (transformation, tree) WHERE recorded > 0""",
    "transformations": """
        SELECT transformation, min(from_at) AS started_at, max(to_at) AS ended_at,
               count(DISTINCT (least(broker, neighbor), greatest(broker, neighbor)))
               FILTER (change = 'added') AS links_added,
               count(DISTINCT (least(broker, neighbor), greatest(broker, neighbor)))
               FILTER (change = 'removed') AS links_removed, any_value(coalesce(n, 0))
               AS affected_publications
        FROM periods LEFT JOIN (SELECT transformation, count(*) AS n FROM affected GROUP BY ALL)
        USING (transformation) GROUP BY ALL""",
    "latency": f"""
        WITH a AS (SELECT DISTINCT publisher, sequence, true AS hit FROM affected)
        SELECT slot, affected, t0 + slot * 10 AS slot_started_at, deliveries, latency_ms_mean,
               q[1] AS latency_ms_p50, q[2] AS latency_ms_p95, q[3] AS latency_ms_p99,
               latency_ms_max
        FROM (SELECT greatest(floor((delivered_at - latency_ms / 1e3 - t0) / 10)::BIGINT, 0)
                     AS slot, coalesce(hit, false) AS affected, any_value(t0) AS t0,
                     count(*) AS deliveries, avg(latency_ms) AS latency_ms_mean,
                     max(latency_ms) AS latency_ms_max, {_MANY.format("latency_ms")} AS q
              FROM t_deliveries LEFT JOIN a USING (publisher, sequence) CROSS JOIN window_
              GROUP BY 1, 2)""",
}
