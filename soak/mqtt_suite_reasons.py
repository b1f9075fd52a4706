"""What of mosquitto's suite is left out or changed for another broker, and why what fails fails."""

from __future__ import annotations

OUT_OF_SCOPE = ("08-*", "10-*", "14-*", "09-plugin*", "09-acl*", "09-pwfile*", "09-extended-auth*")
"""TLS certificates, listeners, dynamic security, plugins and files that only mosquitto reads."""

EDITS = (
    # A goodbye with a reason before the end of a connection.
    ("01-connect-duplicate.py", (r"len\(data\) == 0:", 'len(data) == 0 or data == b"\\\\xe0":')),
    ("02-subpub-qos?-bad-*.py", (r"len\(p\) == 0:", "len(p) == 0 or p[0] == 0xe0:")),
    # The length of the packet is that of mosquitto's client id.
    ("01-connect-zero-length-id.py", (r"= connack_packet\[:-39\]", "= connack_packet")),
    (
        "12-prop-assigned-client-identifier.py",
        (
            r"connack_recvd = sock\.recv\(.*?\[0:12\]:",
            'if mosq_test.expect_packet(sock, "connack", connack_packet):',
        ),
    ),
    # The client takes 20 bytes, and this is one of 21 [MQTT-3.1.2-24].
    ("12-prop-maximum-packet-size-publish-qos?.py", (r'payload="7890"', 'payload="789"')),
    # 0x95 is no reason of a PUBACK (3.4.2.1).
    ("02-subpub-qos1-oversize-payload.py", ("RC_PACKET_TOO_LARGE", "RC_QUOTA_EXCEEDED")),
    # There are 64 aliases here, not 10.
    ("12-prop-topic-alias-invalid.py", (r"do_test\(11\)", "do_test(65)")),
)

_WILL = "the standard says otherwise: a will does not outwait its session (3.1.2.5, 3.1.4)"
_ITSELF = "fails with mosquitto, too"
_FORBIDDEN = "wants a topic that is configured as forbidden"

REASONS = {
    "07-will-delay.py": _WILL,
    "07-will-delay-reconnect.py": _WILL,
    "07-will-delay-recover.py": _WILL,
    "07-will-takeover.py": _WILL,
    "02-shared-qos0-v5.py": "which member of a group gets it is the server's choice (4.8.2)",
    "06-bridge-b2br-late-connection-retain.py": _ITSELF,
    # Of the four that Debian adds, each about a fault that mosquitto had.
    "01-bad-initial-packets.py": _ITSELF,
    "01-connect-575314.py": "wants a client id of 65,000 letters; 200 are the limit here",
    "03-publish-qos2-dup.py": "wants the connection to end when a publication comes a third time",
    "06-bridge-remap-receive-wildcard.py": "is about mosquitto's own bridge",
    "07-will-delay-invalid-573191.py": _ITSELF,
    "test_subscribe_failure": _FORBIDDEN,
}
