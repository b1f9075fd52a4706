"""What clients of a door publish: what of it goes on to the overlay, and what is refused."""

from __future__ import annotations

from pubweave.core.access import Access
from pubweave.core.mqtt_acceptance import check_publication, why_too_large
from pubweave.core.mqtt_config import MqttConfig
from pubweave.core.mqtt_connection import MqttConnection
from pubweave.core.mqtt_marks import Marks
from pubweave.core.mqtt_native import NativeLoop
from pubweave.core.mqtt_session import MqttSession
from pubweave.core.mqtt_topics import is_bridge_state, is_reserved
from pubweave.model.mqtt_packets import Publish, Reason


class MqttPublishing:
    """Takes publications of clients in."""

    def __init__(self, config: MqttConfig, access: Access, loop: NativeLoop, marks: Marks) -> None:
        self.echoes = 0
        """Publications that a bridge brought back."""
        self.too_large = 0
        """Publications that were refused because of their size."""
        self._config = config
        self._access = access
        self._loop = loop
        self._marks = marks

    def take(
        self, connection: MqttConnection, session: MqttSession, packet: Publish, now: float
    ) -> None:
        """Hand a publication on, or refuse it. MqttError: the client may not even try."""
        topic = connection.topic_of(packet, self._config.topic_alias_max)
        check_publication(packet, topic, self._config)
        too_large = why_too_large(packet, self._config)
        has_readers = not is_reserved(topic)
        if not has_readers and not is_bridge_state(topic):
            text = f"{topic!r} is not for clients to publish on"
            session.refuse(packet, Reason.NOT_AUTHORIZED, text)
        elif too_large:
            self.too_large += 1
            # 0x95 is no answer to a publication (MQTT 5.0, 3.4.2.1).
            session.refuse(packet, Reason.QUOTA_EXCEEDED, too_large)
        else:
            self._hand_on(session, packet, topic, now, has_readers=has_readers)

    def _hand_on(
        self,
        session: MqttSession,
        packet: Publish,
        topic: str,
        now: float,
        *,
        has_readers: bool,
    ) -> None:
        is_echo = self._marks.is_known(packet.content)
        self.echoes += is_echo
        rights = self._access.publish_rights(session.user)
        is_for_nobody = is_echo or not has_readers
        session.publish(packet, topic, rights, now, is_for_nobody=is_for_nobody)
        if session.end is not None:
            self._loop.touch(session.end)
