"""Loops over MQTT bridges: probes find them, a filter recognises what comes back.

Entry: `LoopProbes` in `loop_probes`, `EchoFilter` in `echo_filter`; `loop_detector` counts loops
and warns, or ends the bridge.
  b1 -- probe --> left bridge --> mosquitto --> right bridge -- probe --> b2: right echoes left
While there are several bridges, each is sent probes. The session that brings in a probe without
its mark is watched: what it brings back is expected once for each bridge that it was sent to.
Not here: the marks (`core.mqtt.protocol`), how many bridges there are (`core.mqtt.cluster`), the
short wait for the overlay's own copy, which may be slower than the echo (`core.mqtt.publish`).
Invariant: where no probe comes in without its mark, nothing is compared.
ADR 21 (decision 16).
"""
