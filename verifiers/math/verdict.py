r"""The verifier `rlvr/math-v1`."""

from __future__ import annotations

import numbers
import signal
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from ...sandbox.errors import UserError
from ..commitment import Commitment, commitment
from ..pool import JobFailed, PoolTimeout, WorkerDied, shared_pool
from ..registry import verifier
from ..verdict import Verdict, failure
from .acceptance import accepts, canonical_answer
from .conventions import Conventions, conventions
from .magnitudes import Undecided
from .reading import read_answer, read_reference
from .symbolic import equal

REFERENCE_MARKER = "####"
"""What GSM8K writes before the result at the end of a reference solution."""

_LONGEST_EXCERPT = 120
# The clock on the wall only bounds what processor time does not, such as a machine that is overloaded.
_WALL_FACTOR = 3.0
_WALL_SECONDS = 5.0


def check_options(seconds: object = 5.0, **agreed: object) -> None:
    """Raise UserError unless these are possible values of the verifier's options."""
    _check_seconds(seconds)
    conventions(**{name: value for name, value in agreed.items() if name in Conventions.__dataclass_fields__})


def _check_seconds(seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 3600:
        raise UserError(f"seconds={seconds!r} of rlvr/math-v1 is no limit; give a number of seconds above 0.")


@verifier("rlvr/math-v1", check=check_options)
def math(
    completion: str,
    answer: object,
    prompt: object = None,
    think: str = "auto",
    fallback: str = "none",
    percent: str = "either",
    units: str = "lenient",
    rounding: str = "precision",
    order: str = "any",
    case: str = "ignore",
    seconds: float = 5.0,
) -> Verdict | Future[Verdict]:
    r"""Whether the answer that the completion commits to is the reference answer.

    `commitment` says which answer that is; `reading` what it may be taken for; `compare` when two of a kind are
    equal. The reference decides the kind: what is given as a set is compared as a set. Equality is exact: rational
    arithmetic, arithmetic modulo primes, and balls that enclose the value of a radical or of a transcendental number;
    what they cannot decide goes to sympy in a worker process, which is killed after `seconds`; called directly, the
    function then returns the verdict's Future.

    Args:
        completion: what the model wrote.
        answer: the reference: LaTeX or plain text, or a number; of a text with `####` (GSM8K's), what follows the
            last one.
        prompt: the prompt, of which copies in the completion do not count.
        think: the think style.
        fallback: what may be the answer where nothing announces one: "none", "whole" or "last_number".
        percent, units, rounding, order, case: see `Conventions`.
        seconds: the most processor time that symbolic computation may take; beyond it, status "timeout", score 0.

    Returns:
        The verdict; of a reference that cannot be read, one of status "error" (`check_reference` tells beforehand).

    Raises:
        UserError: an option is not one of the possible values.
    """
    _check_seconds(seconds)
    agreed = conventions(percent, units, rounding, order, case)
    try:
        reference = reference_text(answer)
        read_reference(reference)
    except UserError as error:
        return failure(f"rlvr/math-v1 cannot grade: {error}")
    found = commitment(completion, think, prompt=prompt, fallback=fallback)
    if not isinstance(found, Commitment):
        return Verdict(0.0, False, "unparseable", detail=f"{found}; reference {_excerpt(reference)}")
    try:
        return _decided(accepts(reference, found.answers, found.joined, agreed), found, reference)
    except Undecided:
        return _Pending(_Job(reference, found, agreed, seconds))


def reference_text(answer: object) -> str:
    """The text of a reference answer.

    Raises:
        UserError: it is neither text nor a number.
    """
    if isinstance(answer, str):
        return answer.rpartition(REFERENCE_MARKER)[2].strip()
    if isinstance(answer, bool) or not isinstance(answer, numbers.Real | Decimal):
        raise UserError(
            f"A reference answer of rlvr/math-v1 is a {type(answer).__name__}; give it as text or as a number."
        )
    try:
        exact: object = answer
        if isinstance(answer, numbers.Rational):
            exact = Fraction(int(answer.numerator), int(answer.denominator))
        elif not isfinite(answer):
            raise ValueError("it is not finite")
        return str(exact)
    except ValueError as error:
        raise UserError(f"A reference answer of rlvr/math-v1 cannot be compared: {error}; correct it.") from None


def check_reference(answer: object) -> None:
    """Raise UserError unless `answer` is a reference that answers can be compared with."""
    read_reference(reference_text(answer))


def decide_symbolically(
    reference: str, answers: tuple[str, ...], joined: str, agreed: Conventions, seconds: float
) -> bool:
    """`accepts` with sympy where arithmetic does not decide; run it where it can be killed.

    The process is ended by SIGPROF after so many seconds of processor time, whatever it is doing then: a verdict is not
    to depend on what else the machine does.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return accepts(reference, answers, joined, agreed, lambda ours, theirs: equal(ours, theirs) is True)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@dataclass(frozen=True, slots=True)
class _Job:
    """What is to be decided by symbolic computation."""

    reference: str
    found: Commitment
    agreed: Conventions
    seconds: float

    def start(self) -> Future[bool]:
        """Begin in a worker process, whose processor time is bounded, and so is the time on the wall."""
        decide: Callable[..., bool] = decide_symbolically
        arguments = (self.reference, self.found.answers, self.found.joined, self.agreed, self.seconds)
        return shared_pool().submit(decide, *arguments, timeout=_WALL_FACTOR * self.seconds + _WALL_SECONDS)

    def too_much(self, error: Exception) -> Verdict:
        """The verdict where it cannot be decided within the budget."""
        return Verdict(0.0, False, "timeout", detail=_told(self.found, self.reference, f"not decided: {error}"))


class _Pending(Future[Verdict]):
    """The verdict that a worker process is working out."""

    def __init__(self, job: _Job, again: bool = True) -> None:
        super().__init__()
        self._job, self._again = job, again
        job.start().add_done_callback(self._finish)

    def _finish(self, done: Future[bool]) -> None:
        try:
            self.set_result(_decided(done.result(), self._job.found, self._job.reference))
        except PoolTimeout as error:
            self.set_result(self._job.too_much(error))
        except WorkerDied as error:
            self._die(error)
        except JobFailed as error:
            hungry = "MemoryError" in str(error) or "RecursionError" in str(error)
            self.set_result(self._job.too_much(error) if hungry else failure(f"rlvr/math-v1 failed with {error}"))
        except BaseException as error:
            self.set_exception(error)

    def _die(self, error: WorkerDied) -> None:
        """A worker that ran out of its time, or crashed on the sample, tells of the sample; a killed one does not."""
        if error.exit_code not in (None, -signal.SIGKILL, -signal.SIGTERM):
            self.set_result(self._job.too_much(error))
        elif self._again:
            self._again = False
            self._job.start().add_done_callback(self._finish)
        else:
            self.set_result(failure(f"rlvr/math-v1 failed, for {error}"))


def _decided(passed: bool, found: Commitment, reference: str) -> Verdict:
    readings = [] if passed else [read_answer(text) for text in found.answers]
    unread = [reading for reading in readings if not reading.words]
    outcome = "equal" if passed else f"not equal ({unread[0].complaint})" if unread else "not equal"
    return Verdict(
        float(passed),
        passed,
        "unparseable" if unread else "ok",
        detail=_told(found, reference, outcome),
        # Right answers are one answer, however they are written.
        answer=canonical_answer((reference,) if passed else found.answers),
    )


def _told(found: Commitment, reference: str, outcome: str) -> str:
    read = ", ".join([_excerpt(text) for text in found.answers[:4]])
    joined = "" if found.joined == "one" else f" ({found.joined})"
    return f"read {read}{joined} from its {found.source}, reference {_excerpt(reference)}: {outcome}"


def _excerpt(text: str) -> str:
    return repr(text) if len(text) <= _LONGEST_EXCERPT else repr(text[:_LONGEST_EXCERPT]) + "..."
