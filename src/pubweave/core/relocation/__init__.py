"""Relocation: POP and GRAPE choose better brokers for publishers, then for subscribers.

Entry: `Relocator` in `relocator`; every broker of a tree has one.
  tag > routed ... > TraceResult > pop_selection ------------------+
  tag > routed ... > TraceInformation... > grape_selection --------+-> migrate(publisher, broker)
                                           +- stays > subscriber_rounds > migrate(subscriber, ...)
`pop_tracing` and `grape_tracing` note what was delivered, `probes` asks clients for round trips,
`subscriber_choice` places the subscribers of one broker; `Decisions` keeps the last for status.
Not here: the move itself (`core.migration`), the rules and metrics (`design.relocation`), users of
a rendezvous overlay (`core.routing.rendezvous`).
Invariant: every broker answers traces; it begins them only for publishers to be relocated.
Publishers and subscribers take turns: no trace session begins before a round is back. ADR 15.
"""
