"""A Jepsen of our own: real brokers, a nemesis, and a judge who knows only what clients saw.

    python -m soak.jepsen --minutes 30 --strategy tree --seed 1      # make soak MINUTES=30

Entry: `run` reads the command line, goes into a sandbox of namespaces and starts `trial` there.
  schedule (what strikes when, from the seed) -> nemesis -> overlay (broker processes), network,
  disks -> native_clients, mqtt_clients (processes) -> history files -> checker -> page
`settings` has the four overlays, `sandbox` the namespaces, `c_shims` what is preloaded.
`history` and `checker` (with `explain`, `timeline`) import nothing of pubweave: files of lines in,
a verdict out, also by themselves (``python -m soak.jepsen.checker DIR``).
Invariant: everything lives in namespaces of one process tree, so its end, however it comes about,
takes processes, networks and mounts along; traffic goes to addresses of this machine only.
"""
