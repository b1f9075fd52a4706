"""Verbs that start and use an overlay: ``up``, ``broker``, ``config``, ``status`` and more.

`up` starts an overlay of broker processes, `broker` one broker on its own host, `config` shows and
checks what they are told; `status` asks brokers (`status_view` prints it); `pub` and `sub` are
clients.

Entry: the click command of each verb's module.
Not here: starting and watching processes (`runtime.overlay`), the client library
(`runtime.client`).
"""
