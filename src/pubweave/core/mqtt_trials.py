"""Whether what one session brings again and again comes because the overlay has said it.

A ring outside brings back what left, and only that; who says the same by itself does so whatever
happens here. So what is suspected is held back. When nothing of it has come for a while, the door
waits for a time T that nobody can know, lets one copy go and looks whether the next one comes soon.
`mqtt_evidence` says what that proves. How long a ring takes is not known before, so the first round
only finds that out.

```
 settle: nothing for q_s ─> quiet: T ─> one goes ─> answer: it comes within a window, or not
            ^                 └ it comes: against a ring                       │
            └──────────────────────────────────────────────────────────────────┘
```
"""

from __future__ import annotations

import enum
from hashlib import blake2b
from math import inf

from pubweave.core.mqtt_evidence import AGAINST_BITS, T_FROM, T_TO, Trial

ATTEMPTS_MAX = 3
"""So often everything begins anew, with longer times: somebody outside may have spoken in between,
or the ring is slower than it seemed."""
FIRST_QUIET_S, LAST_QUIET_S = 0.2, 2.4
"""What is quiet for so long has nothing under way; for slower rings it is longer."""
RETURN_QUIETS = 2.0
"""How often something comes back within q_s."""
LEAST_QUIET_S = 0.05
"""Where the same is said inside all the time, rounds get shorter."""
DISTURBED_MAX = 6
"""After so many times."""
SETTLE_QUIETS = 3.0
"""After so many q_s a round begins without what is not quiet yet."""
RESTLESS_S = LAST_QUIET_S + 1.0
"""Where everything is held, copies that were under way have all come by then."""
GIVEN_S, GIVEN_QUIETS = 8.0, 8.0
"""After so long, and so many q_s, something must speak for a ring."""
STRAYS_MAX = 16
"""Who has brought so many by itself, while others were on, is no part of a ring."""
TRIALS_MAX = 4096
"""So many different publications of one session are tried at once."""


class Phase(enum.Enum):
    """What a session with trials waits for."""

    WATCHING = "watching"
    """Others are on; or there is nothing that could be let go."""
    SETTLING = "settling"
    QUIET = "quiet"
    ANSWER = "answer"


class Experiment:
    """The trials of one session; their rounds are the same, because a session's publications stay
    in order. What came of them is in `proven` and `cleared`, which whoever asks empties."""

    def __init__(self, session: str, q_s: float, now: float) -> None:
        self.q_s = q_s
        self.phase = Phase.WATCHING
        self.deadline = inf
        self.trials: dict[bytes, Trial] = {}
        self.proven: list[Trial] = []
        self.cleared: list[Trial] = []
        self.payloads_out: set[bytes] = set()
        """Of what a copy was let go and is waited for."""
        self._in: dict[bytes, Trial] = {}
        """What this round is about, and has not come."""
        self._out_at = self._last_at = self._settled_by = self._since = now
        self._disturbed = 0
        self._disturbed_at = now
        self._is_hurried = False
        self._is_first = True
        """How long it takes until something comes back is not known yet."""
        self._attempts = 1
        self._seed = f"{session} {now!r}"
        self._rounds = 0

    @property
    def is_on(self) -> bool:
        return self.phase is not Phase.WATCHING

    @property
    def has_held(self) -> bool:
        return any(trial.held for trial in self.trials.values())

    def try_(self, digest: bytes, topic: str, payload: bytes, now: float) -> None:
        """From now on this is held back; the first copy has come."""
        self.trials[digest] = Trial(digest, topic, payload, self.q_s, now)
        self._last_at = now

    # --- what happens ----------------------------------------------------------------------

    def came(self, digest: bytes, now: float) -> None:
        """The session has brought another copy."""
        trial = self.trials[digest]
        is_first = now - trial.last_at >= self.q_s
        is_explained = now - trial.said_at < self.q_s
        trial.held += 1
        trial.last_at = self._last_at = now
        if is_first:
            trial.restless_since = now
        if self.phase is Phase.ANSWER and trial.is_in:
            self._on_answer(trial, now)
        elif is_explained:
            self._on_disturbed(trial, now)
        elif now - trial.restless_since > RESTLESS_S or trial.strays > STRAYS_MAX:
            self._end(trial, self.cleared)
        else:
            # Where topics change their names, the copy that another door has let go must get
            # through here. And who says it by itself, now and then, waits for nothing.
            is_stray = now - trial.said_at > LAST_QUIET_S
            is_late = now - trial.begun_at > SETTLE_QUIETS * self.q_s + 1.0
            trial.permits += is_stray and is_first
            trial.strays += is_stray and is_late and not self.is_on
            self._on_unrest(trial, now)

    def said(self, digest: bytes, now: float) -> None:
        """Somebody else has said it in the overlay: that may be why it comes."""
        trial = self.trials.get(digest)
        if trial is not None:
            trial.said_at = now

    def may_pass(self, digest: bytes) -> bool:
        """Whether the first copy that waits may go; it goes then."""
        trial = self.trials[digest]
        if not trial.permits:
            return False
        trial.permits -= 1
        trial.held -= 1
        return True

    def slow_down(self, q_s: float) -> None:
        """It is the turn of another session, whose ring takes longer."""
        if not self.is_on and q_s > self.q_s:
            self.q_s = min(q_s, LAST_QUIET_S)

    def _begin_anew(self, q_s: float, return_s: float = 0.0) -> None:
        """With other times; what is known by now counts for nothing."""
        self.q_s = q_s
        self._disturbed = 0
        self._is_first = not return_s
        for trial in self.trials.values():
            trial.begin(q_s, return_s)

    # --- rounds ----------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """It is this session's turn."""
        if not self.is_on:
            self._begin_anew(self.q_s)
            self._attempts = 1
            self._since = now
        self._settled_by = now + SETTLE_QUIETS * self.q_s
        self._go_on(Phase.SETTLING, max(now, self._last_at + self.q_s))

    def stop(self) -> None:
        """It is somebody else's turn; what is not known by now counts for nothing."""
        self._go_on(Phase.WATCHING, inf)

    def on_deadline(self, now: float) -> None:
        if now < self.deadline:
            return
        if self.phase is Phase.SETTLING:
            self._begin_round(now)
        elif self.phase is Phase.QUIET:
            self._let_go(now)
        elif self.phase is Phase.ANSWER:
            self._end_round(now)

    def _go_on(self, phase: Phase, deadline: float) -> None:
        if phase is not Phase.ANSWER:
            self.payloads_out = set()
        if phase in (Phase.SETTLING, Phase.WATCHING):
            for trial in self._in.values():
                trial.is_in = False
            self._in = {}
        self.phase, self.deadline = phase, deadline

    def _begin_round(self, now: float) -> None:
        """With all that is quiet; what never is, is cleared one day."""
        given_s = GIVEN_S + GIVEN_QUIETS * self.q_s
        if not any(trial.score > 0.0 for trial in self.trials.values()):
            for trial in list(self.trials.values()):
                if now - max(trial.begun_at, self._since) > given_s:
                    self._end(trial, self.cleared)
        if not self.has_held:
            self.stop()
            return
        for trial in self.trials.values():
            if trial.held and now - trial.last_at >= 0.99 * self.q_s:
                trial.is_in = True
                trial.rounds += 1
                self._in[trial.digest] = trial
        if self._in:
            self._go_on(Phase.QUIET, now + self._next_wait_s())
        else:
            self.begin(now)

    def _let_go(self, now: float) -> None:
        for trial in self._in.values():
            trial.permits = max(1, trial.permits)
        self.payloads_out = {trial.payload for trial in self._in.values()}
        self._out_at = now
        self._go_on(Phase.ANSWER, now + (LAST_QUIET_S if self._is_first else self.q_s))

    def _on_answer(self, trial: Trial, now: float) -> None:
        if trial.said_at > self._out_at - self.q_s:
            pass  # nobody knows whose answer it is
        elif self._is_first:
            return_s = now - self._out_at
            q_s = max(self.q_s if self._is_hurried else FIRST_QUIET_S, RETURN_QUIETS * return_s)
            self._begin_anew(min(LAST_QUIET_S, q_s), return_s)
        else:
            trial.answered(now - self._out_at)
            self._disturbed = 0
        self._leave_round(trial, now)

    def _on_unrest(self, trial: Trial, now: float) -> None:
        if self.phase is Phase.QUIET and trial.is_in:
            self._note_against(trial, now)
            self._leave_round(trial, now)
        elif self.phase is Phase.SETTLING:
            self.deadline = min(self._settled_by, now + self.q_s)

    def _on_disturbed(self, trial: Trial, now: float) -> None:
        """It came because somebody else said it: that says nothing. If that happens all the time,
        the pauses in between may be long enough for shorter rounds."""
        if self.phase is Phase.SETTLING:
            self.deadline = min(self._settled_by, now + self.q_s)
        if self.phase is Phase.QUIET and trial.is_in:
            self._leave_round(trial, now)
        if self.is_on and now - self._disturbed_at > FIRST_QUIET_S:
            self._disturbed += 1
            self._disturbed_at = now
        if self._disturbed <= DISTURBED_MAX:
            return
        if self.q_s > LEAST_QUIET_S:
            self._is_hurried = True
            self._begin_anew(max(LEAST_QUIET_S, 0.5 * self.q_s))
        elif trial.score <= 0.0:
            self._end(trial, self.cleared)

    def _end_round(self, now: float) -> None:
        for trial in list(self._in.values()):
            if trial.said_at <= self._out_at - self.q_s:
                self._note_against(trial, now)
        for trial in list(self._in.values()):
            if trial.digest in self.trials:
                self._judge(trial)
        self.begin(now)

    def _note_against(self, trial: Trial, now: float) -> None:
        """In the first round nothing says anything yet; but where nothing comes there is no ring,
        or one that takes too long."""
        if not self._is_first:
            trial.note(is_hit=False)
        elif self.phase is Phase.ANSWER:
            self._attempts = ATTEMPTS_MAX
            trial.score = AGAINST_BITS
        elif now - max(trial.begun_at, self._since) > RESTLESS_S:
            trial.score += AGAINST_BITS / 2.0  # or it was still under way

    def _leave_round(self, trial: Trial, now: float) -> None:
        trial.is_in = False
        del self._in[trial.digest]
        self._judge(trial)
        if not self._in and self.phase in (Phase.QUIET, Phase.ANSWER):
            self.begin(now)

    def _judge(self, trial: Trial) -> None:
        if trial.is_proven:
            for other in [t for t in self.trials.values() if t.topic == trial.topic]:
                other.most_s = max(other.most_s, trial.most_s)
                self._end(other, self.proven)
        elif trial.is_against:
            self._on_against(trial)

    def _on_against(self, trial: Trial) -> None:
        if any(other.score > 0.0 for other in self.trials.values() if other is not trial):
            trial.score = 0.0  # the times are right: let it be decided by those
        elif self._attempts < ATTEMPTS_MAX:
            self._attempts += 1
            self._begin_anew(min(LAST_QUIET_S, 2.0 * self.q_s))
        else:
            self._end(trial, self.cleared)

    def _end(self, trial: Trial, where: list[Trial]) -> None:
        del self.trials[trial.digest]
        self._in.pop(trial.digest, None)
        where.append(trial)

    def _next_wait_s(self) -> float:
        """T, of which nobody outside can know; in the first round nothing depends on it."""
        if self._is_first:
            return self.q_s * T_FROM
        self._rounds += 1
        data = f"{self._seed} {self._rounds}".encode()
        share = int.from_bytes(blake2b(data, digest_size=6).digest()) / 2**48
        return self.q_s * (T_FROM + (T_TO - T_FROM) * share)
