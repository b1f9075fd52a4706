"""Filters: conjunctions of predicates on topic and attributes, and how two filters relate.

Entry: `Filter` in `filter` (`matches` is the reference rule), `intersects` and `covers` in
`relations`, `parse_filter` and `format_filter` in `text`.
  text -> lexer -> text -> Filter -> relations (constraints): intersects, covers
`constraints` has the sets of values that one attribute may have.
Not here: the matching index (`core.matching`), MQTT topic filters (`core.mqtt.protocol`).
Invariant: `intersects` never gives a false no, `covers` never a false yes. What is written is read
back as the same filter, types included.
"""
