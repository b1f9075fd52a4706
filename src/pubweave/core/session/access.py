"""Who is at the far end of each connection, and what that allows.

A name is proven by a certificate (the driver says whose) or by a password. Verifying a password
takes long on purpose, so the driver does it elsewhere: `LoginReceived` comes in, `VerifyPassword`
goes out, what the client says meanwhile waits here, `PasswordVerified` comes back. The password
itself is never seen here. Then `check_hello` decides whether this far end may be who its Hello
says, and `check_entry` and `may_publish` what it may do.

Rules may change while clients are inside (`core/rule_change`); what is remembered of them ends
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.matching.index import MatchIndex
from pubweave.core.session.admission import Refusal
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.effects import Effect, VerifyPassword
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.core.vocabulary.events import ConnectionId, LoginReceived, PasswordVerified
from pubweave.core.vocabulary.reserved_topics import asks_for_wild
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.relations import covers
from pubweave.model.filters.text import format_filter
from pubweave.model.messages.session import (
    Advertise,
    Hello,
    Message,
    Ping,
    Query,
    Role,
    Subscribe,
    Synced,
    TableMessage,
)
from pubweave.model.publications import Publication, make_publication
from pubweave.model.records.access import (
    ANONYMOUS,
    AccessRules,
    Certified,
    UserRules,
    owns_client,
)
from pubweave.model.records.status import AccessStatus

EARLY_MESSAGES_MAX = 16
"""What may wait behind a Login; an honest client says no more than Hello."""
RIGHTS_SHOWN = 5
OPERATOR_MARK = "$"
"""Ids of clients that only look at a broker begin so; they are for operators."""
_EVERYTHING = UserRules((Filter(),), (Filter(),), operate=True)
GATEWAY_USER = "\0door"
"""The broker's own gateway for MQTT clients; no user can have such a name."""
GATEWAY_CLIENT = "mqtt-door:"
"""Ids of gateways' own clients begin so."""


class Access:
    """The proven names of connections and the rules that hold for them."""

    def __init__(self, config: BrokerConfig) -> None:
        self.refused: dict[str, int] = {}
        """By `Refusal`, how often."""
        self.config = config
        self._certified: dict[ConnectionId, Certified] = {}
        self._users: dict[ConnectionId, str] = {}
        self._waiting: dict[ConnectionId, list[Message]] = {}
        self._verdicts: dict[ConnectionId, str | None] = {}
        self._refusals: dict[ConnectionId, int] = {}
        self._entries: dict[Session, set[str]] = {}
        """The advertisements and subscriptions that clients were granted, by their ids."""
        self._publish_rights: dict[str, MatchIndex[str]] = {}
        """By user, under the rules."""
        self.rules = config.access
        """What users may do; None: everything. They may change (`replace_rules`), and a journal
        brings back those that held then."""

    def replace_rules(self, rules: AccessRules | None) -> None:
        """From here on these hold; `core/rule_change` sees to those who are inside."""
        self.rules = rules
        self._publish_rights.clear()

    @property
    def needs_names(self) -> bool:
        """Whether a far end has to prove who it is."""
        return self.config.certified or self.rules is not None

    def status(self) -> AccessStatus:
        config = self.config
        sessions = config.limits
        return AccessStatus(
            tls=config.certified,
            rules=self.rules is not None,
            anonymous=not self.needs_names if self.rules is None else self.rules.anonymous,
            limits={
                **{field.name: getattr(config.entry, field.name) for field in fields(config.entry)},
                "clients": config.max_clients,
                "connections_without_hello": config.max_unknown_connections,
                "hello_s": config.hello_limit_s,
                "window_bytes": sessions.window_bytes,
                "congested_bytes": sessions.congested_bytes,
            },
            refused=dict(self.refused),
        )

    def count(self, refusal: Refusal) -> None:
        """Somebody was turned away."""
        self.refused[refusal.value] = self.refused.get(refusal.value, 0) + 1

    # --- connections -----------------------------------------------------------------------

    def opened(self, connection: ConnectionId, certified: str) -> None:
        owner = Certified.parse(certified)
        if owner is not None:
            self._certified[connection] = owner

    def closed(self, connection: ConnectionId) -> None:
        self._certified.pop(connection, None)
        self._users.pop(connection, None)
        self._waiting.pop(connection, None)
        self._verdicts.pop(connection, None)
        self._refusals.pop(connection, None)

    def note(self, event: LoginReceived | PasswordVerified, effects: list[Effect]) -> None:
        """A login began, or the driver has compared its password; `admit` is to be asked then."""
        connection = event.connection
        if isinstance(event, PasswordVerified):
            if connection in self._waiting:
                self._verdicts[connection] = event.user
        elif self.rules is not None and connection not in self._waiting:
            # Where no rule asks for a name, a login proves nothing and is passed over.
            self._waiting[connection] = []
            if len(self._waiting) <= self.config.entry.logins_at_once:
                effects.append(VerifyPassword(connection, event.user))

    def admit(self, connection: ConnectionId, messages: Sequence[Message]) -> Sequence[Message]:
        """What of a connection's first messages may be handled now.

        RemoteProtocolError for a wrong password, or more than may wait."""
        waiting = self._waiting.get(connection)
        if waiting is None:
            return messages
        most = self.config.entry.logins_at_once
        if len(self._waiting) > most:
            self._waiting.pop(connection)
            raise self._denied(Refusal.LOGINS, f"{most} logins wait, the limit: try again later")
        waiting.extend(messages)
        if len(waiting) > EARLY_MESSAGES_MAX:
            raise RemoteProtocolError("says too much before its login is verified")
        return self._logged_in(connection) if connection in self._verdicts else ()

    def _logged_in(self, connection: ConnectionId) -> list[Message]:
        user = self._verdicts.pop(connection)
        waiting = self._waiting.pop(connection)
        if user is None:
            raise self._denied(Refusal.PASSWORD, "wrong user or password")
        self._users[connection] = user
        return waiting

    # --- who -------------------------------------------------------------------------------

    def check_hello(self, connection: ConnectionId, hello: Hello) -> None:
        """RemoteProtocolError unless the far end may be who it says."""
        certified = self._certified.get(connection)
        if hello.role is Role.BROKER:
            self._check_broker(certified, hello)
        elif self.needs_names:
            self._users[connection] = self._user(connection, certified, hello)

    def _check_broker(self, certified: Certified | None, hello: Hello) -> None:
        if certified is None:
            if self.config.certified:
                reason = f"a link needs the certificate of broker {hello.id!r}, and there is none"
                raise self._denied(Refusal.CERTIFICATE, reason)
        elif certified != Certified(Role.BROKER, hello.id):
            reason = f"the certificate is that of {certified}, not of broker {hello.id!r}"
            raise self._denied(Refusal.CERTIFICATE, reason)

    def is_waiting(self, connection: ConnectionId) -> bool:
        """Whether a password is being compared for a connection."""
        return connection in self._waiting and connection not in self._verdicts

    def is_logged_in(self, connection: ConnectionId) -> bool:
        """Whether a connection's user has proven to know a password."""
        return connection in self._users

    def proven_user(self, connection: ConnectionId) -> str:
        """Whose connection this is, by certificate or password; empty where nobody has to prove a
        name. RemoteProtocolError if there is no proof, and one is needed."""
        if not self.needs_names:
            return ""
        return self._proven(connection, self._certified.get(connection))

    def vouch(self, connection: ConnectionId, user: str) -> None:
        """A connection within this process is that of a user who is proven."""
        self._users[connection] = user

    def publish_rights(self, user: str) -> tuple[Filter, ...]:
        """What a user may publish at all."""
        return (self._rights(user) or UserRules()).publish

    def _user(self, connection: ConnectionId, certified: Certified | None, hello: Hello) -> str:
        user = self._proven(connection, certified)
        rights = self._rights(user) or UserRules()
        if not self._may_be(user, hello.id, rights):
            reason = f"user {user!r} cannot be client {hello.id!r}: take '{user}' or '{user}/...'"
            raise self._denied(Refusal.NAME, reason)
        return user

    def _proven(self, connection: ConnectionId, certified: Certified | None) -> str:
        user = self._users.get(connection)
        if user is None and certified is not None:
            if certified.role is not Role.CLIENT:
                reason = f"the certificate of {certified} is for links: clients need a user's"
                raise self._denied(Refusal.CERTIFICATE, reason)
            user = certified.name
        if user is None:
            if self.rules is None or not self.rules.anonymous:
                way = "a user's certificate"
                if self.rules is not None:
                    way += " or with user and password"
                raise self._denied(
                    Refusal.NAME, f"anonymous clients are not let in: come with {way}"
                )
            user = ANONYMOUS
        if self._rights(user) is None:
            reason = f"user {user!r} has no rules here: add a table [users.{user}] to the rules"
            raise self._denied(Refusal.NAME, reason)
        return user

    def _may_be(self, user: str, client: str, rights: UserRules) -> bool:
        if user == GATEWAY_USER or client.startswith(GATEWAY_CLIENT):
            return user == GATEWAY_USER
        if client.startswith(OPERATOR_MARK):
            return rights.operate
        if user == ANONYMOUS and self.rules is not None:
            return client.partition("/")[0] not in self.rules.users.keys() - {ANONYMOUS}
        return owns_client(user, client)

    def _rights(self, user: str) -> UserRules | None:
        return _EVERYTHING if self.rules is None or user == GATEWAY_USER else self.rules.of(user)

    def why_not_stay(self, client: Session) -> str:
        """Why a client that was let in would not be any more; empty if it would."""
        if self.rules is None:
            return ""
        user = self.user_of(client) or self._owner(client.remote)
        rights = self._rights(user)
        if rights is None or (user == ANONYMOUS and not self.rules.anonymous):
            return f"the rules have changed: user {user!r} is not let in any more"
        if not self._may_be(user, client.remote, rights):
            return f"the rules have changed: user {user!r} cannot be {client.remote!r} any more"
        return ""

    def _owner(self, client: str) -> str:
        """Whose a client without a connection is: its id begins with that."""
        assert self.rules is not None
        user = client.partition("/")[0]
        return ANONYMOUS if self.rules.anonymous and user not in self.rules.users else user

    def user_of(self, client: Session) -> str:
        """The user of an attached client; empty where nobody has to prove a name."""
        return "" if client.connection is None else self._users.get(client.connection, "")

    # --- what ------------------------------------------------------------------------------

    def check_entry(self, origin: Session, message: TableMessage | Synced) -> None:
        """RefusedError for a subscription or advertisement that a client may not have."""
        if not origin.is_client:
            return
        if not isinstance(message, Subscribe | Advertise):
            self._entries.get(origin, set()).discard(getattr(message, "id", ""))
            return
        self._check_size(message.filter)
        most = self.config.entry.entries_per_client
        entries = self._entries.setdefault(origin, set())
        if len(entries) >= most and message.id not in entries:
            reason = f"{most} advertisements and subscriptions are the limit for one client"
            raise self._refused(Refusal.ENTRIES, reason)
        self.check_right(origin, message)
        entries.add(message.id)

    def forget(self, client: Session) -> None:
        """A client's session is over or begins anew: it has no entries."""
        self._entries.pop(client, None)

    def _check_size(self, filter_: Filter) -> None:
        limits = self.config.entry
        if len(filter_.predicates) > limits.predicates_per_filter:
            count = len(filter_.predicates)
            reason = f"a filter of {count} predicates: the limit is {limits.predicates_per_filter}"
            raise self._refused(Refusal.FILTER, reason)
        for predicate in filter_.predicates:
            value = predicate.value if isinstance(predicate.value, str) else ""
            if max(len(predicate.attribute), len(value)) > limits.filter_value_bytes:
                reason = f"a filter's names and values may have {limits.filter_value_bytes} bytes"
                raise self._refused(Refusal.FILTER, reason)

    def check_right(self, origin: Session, message: Subscribe | Advertise) -> None:
        """RefusedError unless a client's user has a right that covers this."""
        if self.rules is None or _is_of_gateway(origin, message.filter):
            return
        user = self.user_of(origin) or self._owner(origin.remote)
        rights = self._rights(user) or UserRules()
        is_subscription = isinstance(message, Subscribe)
        allowed = rights.subscribe if is_subscription else rights.publish
        if any(covers(right, message.filter) for right in allowed):
            return
        verb = "subscribe" if is_subscription else "publish"
        kind = Refusal.SUBSCRIBE if is_subscription else Refusal.PUBLISH
        raise self._refused(kind, _forbidden(user, verb, allowed, format_filter(message.filter)))

    def why_not_subscribe(self, user: str, filters: Sequence[Filter]) -> str:
        """Why a user may not subscribe to all of these; empty if it may. Counted if not."""
        if self.rules is None:
            return ""
        allowed = (self._rights(user) or UserRules()).subscribe
        for filter_ in filters:
            if not any(covers(right, filter_) for right in allowed):
                self.count(Refusal.SUBSCRIBE)
                return _forbidden(user, "subscribe", allowed, format_filter(filter_))
        return ""

    def may_publish(self, publication: Publication, client: Session) -> bool:
        """Whether a client's user has the right to a publication; counted if not."""
        if self._rights_index(client).match(publication):
            return True
        self.count(Refusal.PUBLISH)
        return False

    def may_still_publish(self, publication: Publication) -> bool:
        """Whether whoever published this may do so by the rules that hold now. O(rights)."""
        if self.rules is None:
            return True
        user = self._owner(publication.publisher)
        if user == ANONYMOUS and not self.rules.anonymous:
            return False
        rights = self._rights(user) or UserRules()
        return any(right.matches(publication) for right in rights.publish)

    def may_publish_topic(self, topic: str, client: Session) -> bool:
        """Whether a client's user may publish all on a topic, as far as that is told at once."""
        if self.rules is None:
            return True
        rights = self._rights_index(client)
        bare = make_publication(client.remote, 0, topic, {}, b"", 0.0)
        return rights.is_topic_only(topic) and bool(rights.match(bare))

    def _rights_index(self, client: Session) -> MatchIndex[str]:
        """What a client's user may publish, made when it is first asked for."""
        user = self.user_of(client)
        index = self._publish_rights.get(user)
        if index is None:
            index = self._publish_rights[user] = MatchIndex()
            rights = self._rights(user) or UserRules()
            for number, right in enumerate(rights.publish):
                index.add(str(number), right, user)
        return index

    def why_not_publish(self, publication: Publication, client: Session) -> str:
        user = self.user_of(client)
        rights = self._rights(user) or UserRules()
        return _forbidden(user, "publish", rights.publish, f"this on {publication.topic!r}")

    def may_operate(self, client: Session) -> bool:
        """Whether a client may ask about the broker and have clients moved; counted if not."""
        if not client.is_client or not self.needs_names:
            return True
        rights = self._rights(self.user_of(client))
        if rights is not None and rights.operate:
            return True
        self.count(Refusal.OPERATE)
        self.check_patience(client)
        return False

    def check_patience(self, client: Session) -> None:
        """A client was refused something; RemoteProtocolError if that has been often enough."""
        connection, most = client.connection, self.config.entry.refusals_per_connection
        if connection is None or not client.is_client:
            return
        refusals = self._refusals[connection] = self._refusals.get(connection, 0) + 1
        if refusals >= most:
            raise self._denied(Refusal.REFUSALS, f"{most} requests were refused, the limit")

    def check_questions(self, messages: Sequence[Message]) -> None:
        """RemoteProtocolError for a client that asks more at once than anybody needs to know:
        a question is sent in a few bytes, and takes the broker longer than a publication."""
        most = self.config.entry.questions_at_once
        if sum([type(m) is Query or type(m) is Ping for m in messages]) > most:
            raise self._denied(Refusal.QUESTIONS, f"{most} questions at once are the limit")

    def _denied(self, refusal: Refusal, reason: str) -> RemoteProtocolError:
        self.count(refusal)
        return RemoteProtocolError(reason)

    def _refused(self, refusal: Refusal, reason: str) -> RefusedError:
        self.count(refusal)
        return RefusedError(reason)


def _is_of_gateway(origin: Session, filter_: Filter) -> bool:
    """Whether the gateway asks for a wildcard topic in a session's name: it has looked at what the
    session asks for (`mqtt/subscribe`), and to the topic itself nobody has a right."""
    return origin.connection is not None and origin.connection < 0 and asks_for_wild(filter_)


def _forbidden(user: str, verb: str, allowed: Sequence[Filter], what: str) -> str:
    preposition = " to" if verb == "subscribe" else ""
    shown = "; ".join(format_filter(right) or "*" for right in allowed[:RIGHTS_SHOWN])
    return (
        f"user {user!r} may not {verb}{preposition} {what}: allowed is {shown or 'nothing'} "
        f"([users.{user}] {verb} in the rules)"
    )
