"""Bytes that nobody should send, to the MQTT decoder: nothing but its own error may come out.

    python -m fuzz.fuzz_mqtt --seconds 600

With atheris (`pip install atheris`, in an environment of its own; it is no dependency) the
fuzzer is led by the code it reaches; without it, real packets are changed at random. Besides
errors it looks at two promises: pieces make no difference, and what was read can be written and
read again.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

try:
    import atheris
except ImportError:
    atheris = None

with atheris.instrument_imports(include=["pubweave"]) if atheris else contextlib.nullcontext():
    import mqtt5

    from pubweave.wire.mqtt.codec import V3, V5, MqttDecoder, MqttProtocolError, encode

MAX_PACKET_BYTES = 4096
HELLOS = {version: encode(mqtt5.ConnectPacket("me"), version) for version in (V3, V5)}


def decoder_for(kind: int) -> tuple[MqttDecoder, int]:
    """A server's decoder before or after CONNECT, or a client's; and whose packets it reads."""
    match kind % 6:
        case 0 | 1:
            return MqttDecoder(MAX_PACKET_BYTES), 0
        case 2 | 3:
            version = V3 if kind % 2 else V5
            decoder = MqttDecoder(MAX_PACKET_BYTES)
            decoder.feed(HELLOS[version])
            return decoder, version
        case rest:
            version = V3 if rest % 2 else V5
            return MqttDecoder(MAX_PACKET_BYTES, version=version), version


def read(kind: int, data: bytes, piece_bytes: int) -> tuple[list[Any], int, int]:
    """Packets, the reason of a refusal (0: none), and the version they are of."""
    decoder, _ = decoder_for(kind)
    packets: list[Any] = []
    try:
        for at in range(0, len(data), piece_bytes):
            packets += decoder.feed(data[at : at + piece_bytes])
    except MqttProtocolError as error:
        return packets + error.packets, error.reason_code, decoder.version
    return packets, 0, decoder.version


def check(data: bytes) -> int:
    """One input: a byte for the decoder, one for the pieces, the rest is fed. Packets read."""
    if len(data) < 3:
        return 0
    kind, piece_bytes, stream = data[0], data[1] % 64 + 1, data[2:]
    packets, reason, version = read(kind, stream, len(stream))
    assert (packets, reason, version) == read(kind, stream, piece_bytes), "pieces matter"
    assert reason == 0 or reason >= 0x80
    if version:
        written = b"".join(encode(packet, version) for packet in packets)
        again, reason, _ = read(kind, written, max(1, len(written)))
        assert (again, reason) == (packets, 0), "what was read cannot be written"
    return len(packets)


def seeds() -> list[bytes]:
    """Real packets, one after the other, for each of the decoders."""
    will = mqtt5.Will("w", payload=b"gone", will_delay_interval=3)
    full = mqtt5.ConnectPacket(
        "c", username="u", password=b"p", will=will, user_properties=[("a", "b")]
    )
    once = mqtt5.QoS.EXACTLY_ONCE
    client: list[Any] = [
        mqtt5.PublishPacket(
            "a/b", b"x" * 200, qos=once, packet_id=3, topic_alias=2, response_topic="r"
        ),
        mqtt5.PublishPacket("ü", b"", retain=True, content_type="t", user_properties=[("k", "v")]),
        mqtt5.SubscribePacket(4, [mqtt5.TopicFilter("$share/g/+/#")], subscription_id=300),
        mqtt5.UnsubscribePacket(5, ["a/+", "#"]),
        mqtt5.PubAckPacket(6, reason_str="r"),
        mqtt5.PubRecPacket(6),
        mqtt5.PubRelPacket(6),
        mqtt5.PubCompPacket(6),
        mqtt5.PingReqPacket(),
        mqtt5.DisconnectPacket(session_expiry_interval=9),
    ]
    server: list[Any] = [
        mqtt5.ConnAckPacket(assigned_client_id="x", server_keep_alive=9, max_packet_size=99),
        mqtt5.SubAckPacket(4, [mqtt5.SubAckReasonCode(1)], reason_str="r"),
        mqtt5.UnsubAckPacket(5, [mqtt5.UnsubAckReasonCode(17)]),
        mqtt5.PingRespPacket(),
    ]
    found = []
    for version, before, after, there in ((V5, 0, 2, 4), (V3, 1, 3, 5)):
        found.append(bytes([before, 5]) + encode(full, version) + encode(client[1], version))
        found += [bytes([after, 7]) + encode(packet, version) for packet in client]
        found += [bytes([there, 3]) + encode(packet, version) for packet in server]
    return [seed for seed in found if len(seed) > 2]


def fuzz_at_random(seconds: float, seed: int) -> int:
    """Without atheris: changed packets, several at once."""
    rng = random.Random(seed)
    known = seeds()
    ends_at = time.monotonic() + seconds
    inputs = packets = 0
    while time.monotonic() < ends_at:
        for _ in range(1000):
            data = bytearray(rng.choice(known))
            for _ in range(rng.randrange(4)):
                change(rng, data, known)
            packets += check(bytes(data))
            inputs += 1
    print(f"{inputs:,} inputs, {packets:,} packets among them, nothing but the protocol error")
    return inputs


def change(rng: random.Random, data: bytearray, known: list[bytes]) -> None:
    """One change in place."""
    at = rng.randrange(len(data))
    match rng.randrange(5):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xC0, 0xED, 0xFF))
        case 2:
            del data[max(at, 2) : at + rng.randrange(1, 4)]
        case 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 5))
        case _:
            data += rng.choice(known)[2:]


def fuzz_with_atheris(seconds: int, seed: int) -> None:
    """Ends the process: libFuzzer does not come back."""
    with tempfile.TemporaryDirectory(prefix="fuzz-mqtt-") as directory:
        for number, data in enumerate(seeds()):
            (Path(directory) / str(number)).write_bytes(data)
        options = [f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=600", "-verbosity=1"]
        atheris.Setup([sys.argv[0], *options, directory], check)
        atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if atheris is None:
        print("atheris is not installed: real packets are changed at random", file=sys.stderr)
        fuzz_at_random(given.seconds, given.seed)
    else:
        fuzz_with_atheris(given.seconds, given.seed)


if __name__ == "__main__":
    main()
