"""One tree of settings: of a broker, of an overlay on this machine, of the autopilot.

Entry: `Settings` in `tree`, a dataclass whose fields are the tables of a configuration file. The
leaves are the dataclasses of `core.config`, so that a setting is written down once. `read_settings`
in `sources` reads it: defaults < file < environment < ``--set`` < flags, every value with its
origin, every error at once. `check` finds what does not fit together, `text` writes TOML, JSON
between processes and JSON Schema, `reference` writes the page of all settings.
Not here: what options the command line has (`cli`), what the settings do (`core`, `runtime`).
Invariant: a broker's process needs only msgspec and the standard library to read its settings.
"""
