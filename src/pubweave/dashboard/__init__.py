"""A live page over an overlay: its picture, its plan in motion, its time lines, its decisions.

Knows the model and nothing else of pubweave: where snapshots come from is a protocol (`source`).
"""
