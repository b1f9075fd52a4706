"""How connections come in: accepting, limits, TLS, logins; native and MQTT.

Entry: `Gatekeeper` in `gatekeeper`, `MqttListener` in `mqtt_listener`; both use `Listener` in
`listener`.
  Listener -- Admission --> TLS handshake -- certified --> ConnectionOpened --> Access.check_hello
  Gatekeeper -- LoginReceived --> Access -- VerifyPassword --> a thread -- PasswordVerified -->
  Access
`mqtt_authentication` is MQTT 5's enhanced authentication by SCRAM-SHA-256.
Not here: limits and rights (`core.session`), stored passwords and SCRAM itself
(`runtime.security`), connections (`runtime.net`), the MQTT protocol (`core.mqtt`).
Invariant: `Admission` is asked before a TLS handshake is paid for; a password never enters the
core, because events are written down.
ADR 20, 21.
"""
