"""Publications that circle through bridges on ways that no probe finds (`mqtt_rings`): topics
without wildcards, topics that get other names and come back under the first, bridges that only take
and do not say that they are there.

What a bridge brings for the twelfth time within 10 s, while there are other bridges, is suspected,
and tried (`mqtt_trials`): it is held back until it is clear whether it comes by itself. What is
proven to come only because the overlay has said it is expected from then on, and taken no further
(`mqtt_returns`). One session's trials are on at a time in the whole overlay: doors tell
each other whose turn it is. And they listen to the topics in question.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import pairwise
from math import inf

import msgspec

from pubweave.core.mqtt_bridges import is_bridge
from pubweave.core.mqtt_config import MqttConfig
from pubweave.core.mqtt_doors import OtherDoors
from pubweave.core.mqtt_echoes import fingerprint
from pubweave.core.mqtt_evidence import T_TO, Trial
from pubweave.core.mqtt_returns import Expected, Returns
from pubweave.core.mqtt_session import MqttSession, session_of
from pubweave.core.mqtt_trials import (
    FIRST_QUIET_S,
    LAST_QUIET_S,
    TRIALS_MAX,
    Experiment,
    Phase,
)
from pubweave.core.mqtt_words import Turn
from pubweave.model.publications import Publication

SUSPECT_TIMES, SUSPECT_S = 11, 10.0
"""After so many equal ones within this time, the next one is suspected. A sensor that says the same
once a second is not: a trial holds back all that its bridge brings."""
REMEMBERED_MAX = 10_000
"""Publications of bridges of which it is known when they last came."""
REST_S, REST_TIMES, REST_MAX_S = 15.0, 4, 3600.0
"""Who was cleared is left alone for so long; each time so many times longer, up to an hour."""
RESTS_MAX = 1000
TOPICS_MAX = 1000
"""So many topics a door listens to."""
RETURN_MIN_S, RETURN_MAX_S, RETURN_TIMES = 0.5, 10.0, 4.0
"""How long a copy is waited for, of a ring that takes so many times less."""


class Rest(msgspec.Struct, frozen=True):
    """A topic of a session that was cleared so many times, the last time until then."""

    until: float
    times: int


class Circles:
    """What this door suspects of its bridges, tries, and has proven."""

    def __init__(self, config: MqttConfig, doors: OtherDoors) -> None:
        self.on_free: Callable[[str, float], None]
        """Hears of sessions of which something that waited may go."""
        self._config = config
        self._doors = doors
        doors.on_turn = self._on_turn
        self._came: OrderedDict[tuple[str, bytes], deque[float]] = OrderedDict()
        """When something was taken for new, by session and digest."""
        self._rests: OrderedDict[tuple[str, str], Rest] = OrderedDict()
        self._experiments: dict[str, Experiment] = {}
        self._returns: dict[str, Returns] = {}
        self._turn = Turn("", 0.0, 0.0)
        self._turn_until = -inf
        """Until when it is another door's turn."""
        self._changes = 0

    @property
    def _may_be(self) -> bool:
        config = self._config
        is_wanted = config.recognises_echoes and config.tries_circles
        return is_wanted and self._doors.bridges.count > 1

    def concerns(self, session: MqttSession) -> bool:
        """Whether what a session brings is looked at."""
        return self._may_be and is_bridge(session)

    # --- what a session brings -------------------------------------------------------------

    def came(self, session: MqttSession, digest: bytes, now: float) -> bool:
        """A publication has come in; True: it is expected, and so known."""
        if self.took(session, digest, now):
            return True
        experiment = self._experiments.get(session.name)
        if experiment is not None and digest in experiment.trials:
            experiment.came(digest, now)
            self._follow(session.name, experiment, now)
        return False

    def note(
        self, session: MqttSession, topic: str, payload: bytes, digest: bytes, now: float
    ) -> None:
        """What has come in is taken for new. If it is so again and again, it will be tried."""
        name = session.name
        if not self.concerns(session) or self.is_tried(name, digest):
            return
        times = self._came.setdefault((name, digest), deque(maxlen=SUSPECT_TIMES))
        self._came.move_to_end((name, digest))
        if len(self._came) > REMEMBERED_MAX:
            self._came.popitem(last=False)
        q_s = self._suspects(name, topic, times, now)
        times.append(now)
        if q_s is not None:
            self._try(name, topic, payload, digest, q_s, now)

    def _try(
        self, name: str, topic: str, payload: bytes, digest: bytes, q_s: float, now: float
    ) -> None:
        del self._came[name, digest]
        experiment = self._experiments.get(name)
        if experiment is None:
            experiment = self._experiments[name] = Experiment(name, q_s, now)
        experiment.try_(digest, topic, payload, now)
        if topic not in self._doors.listened:
            self._listen()
        self._follow(name, experiment, now)

    def took(self, session: MqttSession, digest: bytes, now: float) -> bool:
        """Whether one that waits is known by now; once less from now on."""
        returns = self._returns.get(session.name)
        return returns is not None and returns.took(digest, now)

    def is_returning(self, session: MqttSession, topic: str) -> bool:
        """Whether a session brings back what is said on a topic."""
        returns = self._returns.get(session.name)
        return returns is not None and topic in returns.topics

    def is_tried(self, name: str, digest: bytes) -> bool:
        """Whether copies of something wait until it is decided what they are."""
        experiment = self._experiments.get(name)
        return experiment is not None and digest in experiment.trials

    def has_trials(self, session: MqttSession) -> bool:
        return session.name in self._experiments

    def may_pass(self, session: MqttSession, digest: bytes) -> bool:
        """Whether the first that waits of a session may go on; it does then."""
        experiment = self._experiments.get(session.name)
        if experiment is None or digest not in experiment.trials:
            return True
        return experiment.may_pass(digest)

    def passed(self, session: MqttSession, digest: bytes) -> None:
        """One that waited was an echo, by what else is known."""
        experiment = self._experiments.get(session.name)
        if experiment is not None and digest in experiment.trials:
            experiment.trials[digest].held -= 1

    def _suspects(self, name: str, topic: str, times: deque[float], now: float) -> float | None:
        """How long it must be quiet before something is tried; None: it is not suspected, or comes
        too slowly for that."""
        if len(times) < SUSPECT_TIMES or now - times[0] > SUSPECT_S:
            return None
        rest = self._rests.get((name, topic), Rest(-inf, 0))
        experiment = self._experiments.get(name)
        if rest.until > now or (experiment and len(experiment.trials) >= TRIALS_MAX):
            return None
        if topic not in self._doors.listened and len(self._doors.listened) >= TOPICS_MAX:
            return None
        instants = [*times, now]
        gap_s = min(b - a for a, b in pairwise(instants))
        q_s = max(FIRST_QUIET_S, 1.5 * gap_s)
        return q_s if q_s <= LAST_QUIET_S else None

    def forget(self, session: MqttSession, now: float) -> None:
        """A session loses its client: what waits of it goes on."""
        self._returns.pop(session.name, None)
        if self._experiments.pop(session.name, None) is not None:
            self._pass_turn(session.name, 0.0, now)
            self._listen()

    # --- what the overlay says -------------------------------------------------------------

    def heard(self, publication: Publication, now: float) -> None:
        """Something was published on a topic that this door listens to."""
        digest = fingerprint(publication.topic, publication.payload)
        origin = session_of(publication.publisher)
        for name, experiment in self._experiments.items():
            if name != origin:
                experiment.said(digest, now)
        for name, returns in list(self._returns.items()):
            if publication.topic in returns.topics:
                returns.expect(publication.topic, digest, origin or publication.publisher, now)
                self.on_free(name, now)

    def _topics(self) -> dict[str, None]:
        found = {t: None for returns in self._returns.values() for t in returns.topics}
        for experiment in self._experiments.values():
            found.update((trial.topic, None) for trial in experiment.trials.values())
        return found

    def _listen(self) -> None:
        self._doors.listen(self._topics())

    # --- trials ----------------------------------------------------------------------------

    def _follow(self, name: str, experiment: Experiment, now: float) -> None:
        """See to what came of something that happened to a session's trials."""
        if not experiment.is_on and self._is_free and experiment.has_held:
            experiment.begin(now)
            self._pass_turn(name, 4.0 * experiment.q_s + 2.0, now)
        proven, experiment.proven = experiment.proven, []
        cleared, experiment.cleared = experiment.cleared, []
        for trial in proven:
            self._learn(name, trial, now)
        for trial in cleared:
            self._clear(name, trial, now)
        if not experiment.trials:
            self._experiments.pop(name, None)
        if not experiment.trials or (not experiment.is_on and self._turn.session == name):
            self._pass_turn(name, 0.0, now)
        if proven or cleared:
            self._listen()

    def _learn(self, name: str, trial: Trial, now: float) -> None:
        wait_s = min(RETURN_MAX_S, max(RETURN_MIN_S, RETURN_TIMES * trial.most_s))
        returns = self._returns.setdefault(name, Returns())
        known = returns.topics.get(trial.topic)
        if known is None or known.came_at != now:  # once for all that circles on a topic
            returns.learn(trial.topic, wait_s, self._doors.bridges.count - 1, name, now)
        # What waits has been here before.
        held = Expected(now + RETURN_MAX_S, trial.digest, trial.topic, "")
        returns.add(held, trial.held)
        self._rests.pop((name, trial.topic), None)

    def _clear(self, name: str, trial: Trial, now: float) -> None:
        times = self._rests.get((name, trial.topic), Rest(0.0, 0)).times
        rest_s = min(REST_MAX_S, REST_S * REST_TIMES**times)
        self._rests[name, trial.topic] = Rest(now + rest_s, times + 1)
        self._rests.move_to_end((name, trial.topic))
        if len(self._rests) > RESTS_MAX:
            self._rests.popitem(last=False)

    # --- turns -----------------------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        return not self._turn.session

    def _pass_turn(self, name: str, lasts_s: float, now: float) -> None:
        """It is the turn of a session of this door for so long, or 0: no more."""
        if lasts_s:
            q_s = self._experiments[name].q_s
            self._turn, self._turn_until = Turn(name, lasts_s, q_s), inf
            self._doors.say(self._turn, now)
            self._slow_down(q_s)
        elif self._turn.session == name:
            self._doors.say(Turn(name, 0.0, 0.0), now)
            self._free(now)

    def _slow_down(self, q_s: float) -> None:
        for experiment in self._experiments.values():
            experiment.slow_down(q_s)

    def _free(self, now: float) -> None:
        """It is nobody's turn any more: perhaps somebody here has waited for it."""
        self._turn = Turn("", 0.0, 0.0)
        for name, experiment in list(self._experiments.items()):
            if self._is_free:
                self._follow(name, experiment, now)

    def _on_turn(self, turn: Turn, now: float) -> None:
        """Another door says whose turn it is; of two, the first by name goes on."""
        self._slow_down(turn.q_s)
        own = self._experiments.get(self._turn.session)
        if not turn.lasts_s:
            if self._turn.session == turn.session:
                self._free(now)
            return
        if own is not None and own.is_on:
            if self._turn.session < turn.session:
                return
            own.stop()
        self._turn, self._turn_until = turn, now + turn.lasts_s

    # --- time ------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether something was let go and is waited for."""
        return any(some.payloads_out for some in self._experiments.values())

    def is_out(self, payload: bytes) -> bool:
        """Whether it is something with this payload."""
        return any(payload in some.payloads_out for some in self._experiments.values())

    @property
    def deadline(self) -> float:
        """O(sessions with trials)."""
        found = [self._turn_until] if self._turn.session else []
        for experiment in self._experiments.values():
            found.append(experiment.deadline)
        return min(found, default=inf)

    def on_deadline(self, now: float) -> None:
        if self._turn.session and self._turn_until <= now:
            self._free(now)
        for name, experiment in list(self._experiments.items()):
            before = experiment.phase
            experiment.on_deadline(now)
            if experiment.phase is Phase.QUIET and before is not Phase.QUIET:
                self._pass_turn(name, (T_TO + 2.0) * experiment.q_s + 2.0, now)
            self._follow(name, experiment, now)
            self.on_free(name, now)
        for returns in self._returns.values():
            returns.forget_old(now)

    def look(self, now: float) -> None:
        """The end of an event: where bridges came or went, other ways lead out and in."""
        if self._doors.bridges.changes == self._changes:
            return
        self._changes = self._doors.bridges.changes
        had = bool(self._returns)
        self._returns.clear()
        if not self._may_be:
            had = had or bool(self._experiments)
            names, self._experiments = list(self._experiments), {}
            self._came.clear()
            for name in names:
                self._pass_turn(name, 0.0, now)
                self.on_free(name, now)
        if had:
            self._listen()
