"""The verb ``relocate``: where publishers and subscribers cost least, and moving them there.

`relocate` has the subcommands, `live` traces and moves clients of a running overlay, `view` prints
a selection.

Entry: `relocate` in `relocate`. Not here: the choice (`design.relocation`), the migration itself
(`core.migration`). ADR 13, 15.
"""
