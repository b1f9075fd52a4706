"""DuckDB's statements for the audit: every publication against the deliveries it was due.

The same two steps as the pipeline's: publications whose deliveries add up by number and digest are
done with, the others are settled client by client.
"""

from __future__ import annotations

_CERTAIN = """added_at + 2 <= published_at
               AND (removed_at IS NULL OR published_at + 2 <= removed_at)"""
_POSSIBLE = """added_at - 2 <= published_at
               AND (removed_at IS NULL OR published_at <= removed_at + 2)"""
_MATCHES = "(plain OR map_extract_value(attributes, 'price').number > above)"


def _pairs(publications: str, subscriptions: str) -> str:
    return f"""
        SELECT publisher, sequence, client, max(certainty) AS certainty,
               arg_max(broker, (certainty, added_at)) AS broker
        FROM (SELECT p.publisher, p.sequence, s.client, s.broker, s.added_at,
                     CASE WHEN {_CERTAIN} THEN 2 ELSE 1 END AS certainty
              FROM ({publications}) p JOIN ({subscriptions}) s ON s.topic = p.topic
              WHERE {_POSSIBLE} AND {_MATCHES})
        GROUP BY ALL"""


AUDIT_STATEMENTS: dict[str, str] = {
    "asked": """
        SELECT *, plain AND count(*) OVER (PARTITION BY client, topic) = 1
               AND count(*) FILTER (topic IS NULL) OVER (PARTITION BY client) = 0 AS steady
        FROM (SELECT *, filter = 'class = ''' || topic || '''' AS plain,
                     try_cast(regexp_extract(filter, 'price > ([0-9.]+)', 1) AS DOUBLE) AS above
              FROM subscriptions)""",
    "versions": """
        WITH s AS (SELECT a.*, first_at FROM asked a JOIN (
                       SELECT topic, min(published_at) AS first_at FROM t_publications GROUP BY ALL)
                   USING (topic) WHERE steady),
             m AS (SELECT topic, CASE WHEN moment + 2 <= first_at THEN '-infinity'::DOUBLE
                          ELSE moment END
                          AS from_at, change, digest FROM (
                       SELECT topic, first_at, added_at AS moment, 1 AS change,
                              hash(client) AS digest FROM s
                       UNION ALL SELECT topic, first_at, removed_at, -1, hash(client) FROM s
                       WHERE removed_at IS NOT NULL)
                   UNION ALL SELECT DISTINCT topic, '-infinity'::DOUBLE, 0, 0::UBIGINT FROM s),
             c AS (SELECT topic, from_at, sum(change) AS change, bit_xor(digest) AS digest FROM m
                   GROUP BY ALL)
        SELECT topic, from_at,
               coalesce(lead(from_at) OVER w, 'infinity'::DOUBLE) AS to_at,
               sum(change) OVER w AS due, bit_xor(digest) OVER w AS digest
        FROM c WINDOW w AS (PARTITION BY topic ORDER BY from_at)""",
    "explicit": f"""
        SELECT publisher, sequence, count(*) FILTER (certainty = 2) AS due,
               bit_xor(CASE WHEN certainty = 2 THEN hash(client) ELSE 0 END) AS digest,
               count(*) FILTER (certainty = 1) AS uncertain
        FROM ({_pairs("SELECT * FROM t_publications", "SELECT * FROM asked WHERE NOT steady")})
        GROUP BY ALL""",
    "fresh": """
        SELECT DISTINCT publisher, sequence FROM t_publications JOIN t_advertisement_changes a
        ON a.client = publisher AND a.change = 'added' AND abs(published_at - a.changed_at) < 2""",
    "sums": """
        SELECT f.publisher, f.sequence, f.published_at, a.publisher IS NOT NULL AS fresh,
               coalesce(v.due, 0) + coalesce(e.due, 0) AS due,
               a.publisher IS NULL AND coalesce(e.uncertain, 0) = 0
               AND NOT coalesce(published_at - from_at < 2 OR to_at - published_at < 2, false)
               AND coalesce(v.due, 0) + coalesce(e.due, 0) = f.deliveries
               AND xor(coalesce(v.digest, 0), coalesce(e.digest, 0)) = f.client_digest AS adds_up
        FROM facts f ASOF LEFT JOIN versions v
        ON v.topic = f.topic AND f.published_at >= v.from_at
        LEFT JOIN explicit e ON e.publisher = f.publisher AND e.sequence = f.sequence
        LEFT JOIN fresh a ON a.publisher = f.publisher AND a.sequence = f.sequence
        WHERE recorded > 0""",
    "pairs": f"""
        WITH q AS (SELECT * FROM sums WHERE NOT adds_up),
             wanted AS ({
        _pairs(
            "SELECT * FROM t_publications SEMI JOIN q USING (publisher, sequence)",
            "SELECT * FROM asked",
        )
    }),
             came AS (SELECT publisher, sequence, client, count(*) AS deliveries,
                             max(broker) AS delivered_by
                      FROM t_deliveries SEMI JOIN q USING (publisher, sequence) GROUP BY ALL),
             gappy AS (SELECT DISTINCT broker FROM telemetry_gaps
                       WHERE "table" = 'deliveries' AND missing > 0),
             p AS (SELECT publisher, sequence, client, coalesce(deliveries, 0) AS deliveries,
                          coalesce(broker, delivered_by) AS broker, published_at,
                          CASE WHEN certainty IS NULL THEN 'unexpected'
                          WHEN certainty = 1 THEN 'uncertain'
                          WHEN deliveries IS NULL AND (fresh OR published_at > t1 - 2)
                          THEN 'uncertain' ELSE 'due' END AS status
                   FROM wanted FULL JOIN came USING (publisher, sequence, client)
                   JOIN q USING (publisher, sequence) CROSS JOIN window_)
        SELECT *, EXISTS (SELECT 1 FROM incarnations i WHERE i.broker = p.broker
                          AND i.first_at <= published_at AND published_at + 2 <= i.last_at
                          AND i.broker NOT IN (SELECT broker FROM gappy)) AS is_covered
        FROM p""",
    "audit": """
        WITH s AS (SELECT count(*) AS publications,
                          coalesce(sum(due) FILTER (adds_up), 0) AS due FROM sums),
             r AS (SELECT count(*) FILTER (status = 'due') AS due,
                          count(*) FILTER (status = 'due' AND deliveries > 0) AS delivered,
                          count(*) FILTER (status = 'due' AND deliveries = 0 AND is_covered)
                          AS lost, count(*) FILTER (status = 'due' AND deliveries = 0
                          AND NOT is_covered) AS unproven,
                          coalesce(sum(greatest(deliveries - 1, 0)), 0) AS duplicated,
                          count(*) FILTER (status = 'unexpected') AS unexpected,
                          count(*) FILTER (status = 'uncertain') AS uncertain FROM pairs),
             o AS (SELECT coalesce(sum(deliveries) FILTER (last_delivered_at <= t1 - 2), 0)
                          AS orphaned,
                          coalesce(sum(deliveries) FILTER (last_delivered_at > t1 - 2), 0) AS early
                   FROM facts, window_ WHERE recorded = 0 AND deliveries > 0)
        SELECT s.publications, s.due + r.due AS due, s.due + r.delivered AS delivered, lost,
               unproven, duplicated, unexpected, uncertain + early AS uncertain, orphaned
        FROM s, r, o""",
    "audit_findings": """
        WITH f AS (SELECT *, unnest(list_filter([
                       CASE WHEN status = 'due' AND deliveries = 0 AND is_covered THEN 'lost' END,
                       CASE WHEN status = 'due' AND deliveries = 0 AND NOT is_covered
                       THEN 'unproven' END,
                       CASE WHEN deliveries > 1 THEN 'duplicated' END,
                       CASE WHEN status = 'unexpected' THEN 'unexpected' END],
                       lambda x: x IS NOT NULL)) AS finding FROM pairs)
        SELECT finding, f.publisher, f.sequence, client, f.broker, p.topic, p.published_at,
               deliveries
        FROM f JOIN (SELECT DISTINCT publisher, sequence, topic, published_at FROM t_publications) p
        USING (publisher, sequence)""",
}
