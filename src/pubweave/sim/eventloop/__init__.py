"""An asyncio event loop in virtual time: real drivers run on it as in many processes.

Entry: `VirtualLoop` in `loop`; `SimProcess` in `process` is paused and killed, `TcpNetwork` in
`network` cuts and delays.
  callback -> its context names a process -> a turn of that process -> TcpTransport -> TcpEnd
  TcpEnd -- packets, late and in pieces --> the far TcpEnd -> readable -> a turn over there
`transport` is what asyncio's own does, `endpoint` what a kernel does, also while its process does
not run; `sockets` listens and accepts, `threads` does blocking work after a virtual while.
Not here: drivers and what they promise (`drivers`), cores alone (`sim.kernel.nodes`), TLS.
Invariant: no clock, selector or thread of this machine; the same seed gives the same order.
ADR 28.
"""
