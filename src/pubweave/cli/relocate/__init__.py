"""The verb ``relocate``: where publishers and subscribers cost least, and moving them there.

`relocate` has the subcommands, `view` prints a selection.

Entry: `relocate` in `relocate`. Not here: the choice (`design.relocation`), tracing and moving
clients of a running overlay (`runtime.observe.live_relocation`), the migration itself
(`core.migration`). ADR 13, 15.
"""
