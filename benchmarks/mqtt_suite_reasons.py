"""What of mosquitto's suite is left out or changed for another broker, and why what fails fails."""

from __future__ import annotations

OUT_OF_SCOPE = ("08-*", "10-*", "14-*", "09-plugin*", "09-acl*", "09-pwfile*", "09-extended-auth*")
"""TLS certificates, listeners, dynamic security, plugins and files that only mosquitto reads."""

EDITS = (
    # MQTT 3.1 is not spoken here.
    ("*.py", (r"\ndo_test\(proto_ver=3\)", "")),
    # A goodbye with a reason before the end of a connection.
    ("01-connect-duplicate.py", (r"len\(data\) == 0:", 'len(data) == 0 or data == b"\\\\xe0":')),
    ("02-subpub-qos?-bad-*.py", (r"len\(p\) == 0:", "len(p) == 0 or p[0] == 0xe0:")),
    # There are 64 aliases here, not 10.
    ("12-prop-topic-alias-invalid.py", (r"do_test\(11\)", "do_test(65)")),
    # Settings that forbid QoS 2 and retained messages.
    ("13-malformed-publish-v5.py", (r"\n    # qos > maximum qos\n.*?\n\n", "\n")),
    ("13-malformed-publish-v5.py", (r"\n    # retain not supported\n.*?\n\n", "\n")),
)

_SETTING = "a setting of mosquitto's own"
_OLD = "MQTT 3.1"
_LEVELS = "mosquitto has at most 200 levels; here the length of a filter is bounded"
_WILL = "the standard says otherwise: a will does not outwait its session (3.1.2.5, 3.1.4)"
_NUMBER = "wants packet identifier 2; what expired never had one here"
_ITSELF = "fails with mosquitto, too"
_FORBIDDEN = "wants a topic that is configured as forbidden"

REASONS = {
    "01-connect-allow-anonymous.py": _SETTING,
    "01-connect-uname-no-password-denied.py": _SETTING,
    "01-connect-uname-or-anon.py": _SETTING,
    "01-connect-uname-password-denied-no-will.py": _SETTING,
    "01-connect-uname-password-denied.py": _SETTING,
    "01-connect-zero-length-id.py": _SETTING,
    "02-subpub-qos0-oversize-payload.py": _SETTING,
    "02-subpub-qos1-oversize-payload.py": _SETTING,
    "02-subpub-qos0-queued-bytes.py": _SETTING,
    "03-publish-qos1-retain-disabled.py": _SETTING,
    "04-retain-check-source.py": _SETTING,
    "04-retain-check-source-persist.py": _SETTING,
    "04-retain-check-source-persist-diff-port.py": _SETTING,
    "04-retain-upgrade-outgoing-qos.py": _SETTING,
    "07-will-oversize-payload.py": _SETTING,
    "01-connect-invalid-id-missing.py": _OLD,
    "06-bridge-no-local.py": _OLD,
    "02-subpub-qos0-long-topic.py": _LEVELS,
    "02-subscribe-long-topic.py": _LEVELS,
    "03-publish-long-topic.py": _LEVELS,
    "07-will-delay.py": _WILL,
    "07-will-delay-reconnect.py": _WILL,
    "07-will-delay-recover.py": _WILL,
    "07-will-takeover.py": _WILL,
    "03-publish-c2b-disconnect-qos2.py": "PUBCOMP 0x92 for what is done (3.7.2.1)",
    "02-subpub-qos1-message-expiry.py": _NUMBER,
    "03-publish-qos1-max-inflight-expire.py": _NUMBER,
    "11-message-expiry.py": _NUMBER,
    "12-prop-assigned-client-identifier.py": "compares the length of CONNACK",
    "02-shared-qos0-v5.py": "which member of a group gets it",
    "03-publish-dollar-v5.py": "mosquitto lets anybody publish to $SYS/broker/connection/",
    "12-prop-maximum-packet-size-publish-qos1.py": "mosquitto sends 21 bytes where 20 are allowed",
    "12-prop-maximum-packet-size-publish-qos2.py": "mosquitto sends 21 bytes where 20 are allowed",
    "06-bridge-b2br-late-connection-retain.py": _ITSELF,
    "07-will-delay-invalid-573191.py": _ITSELF,
    "test_subscribe_failure": _FORBIDDEN,
}
