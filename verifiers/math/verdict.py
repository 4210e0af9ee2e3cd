r"""The verifier `rlvr/math-v1`."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from concurrent.futures import Future
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from ..commitment import Commitment, commitment
from ..errors import UserError
from ..pool import JobFailed, PoolTimeout, WorkerDied, shared_pool
from ..registry import verifier
from ..verdict import Verdict, failure
from .acceptance import accepts, canonical_answer
from .compare import Undecided
from .conventions import Conventions, conventions
from .reading import read_answer, read_reference
from .symbolic import equal

REFERENCE_MARKER = "####"
"""What GSM8K writes before the result at the end of a reference solution."""

_LONGEST_EXCERPT = 120


@verifier("rlvr/math-v1")
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
        seconds: the most that symbolic computation may take; beyond it, status "timeout" and score 0.

    Returns:
        The verdict; of a reference that cannot be read, one of status "error" (`check_reference` tells beforehand).

    Raises:
        UserError: an option is not one of the possible values.
    """
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
        job: Callable[..., bool] = decide_symbolically
        started = shared_pool().submit(job, reference, found.answers, found.joined, agreed, timeout=seconds)
        return _Pending(started, found, reference)


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


def decide_symbolically(reference: str, answers: tuple[str, ...], joined: str, conventions: Conventions) -> bool:
    """`accepts` with sympy where arithmetic does not decide; run it where it can be killed."""
    return accepts(reference, answers, joined, conventions, lambda ours, theirs: equal(ours, theirs) is True)


class _Pending(Future[Verdict]):
    """The verdict that a worker process is working out."""

    def __init__(self, started: Future[bool], found: Commitment, reference: str) -> None:
        super().__init__()
        self._found, self._reference = found, reference
        started.add_done_callback(self._finish)

    def _finish(self, done: Future[bool]) -> None:
        try:
            self.set_result(_decided(done.result(), self._found, self._reference))
        except PoolTimeout as error:
            self.set_result(self._too_much(error))
        except (WorkerDied, JobFailed) as error:
            # A worker out of memory is the completion's doing; any other failure there is the grader's.
            hungry = isinstance(error, WorkerDied) or "MemoryError" in str(error) or "RecursionError" in str(error)
            self.set_result(self._too_much(error) if hungry else failure(f"rlvr/math-v1 failed with {error}"))
        except BaseException as error:
            self.set_exception(error)

    def _too_much(self, error: Exception) -> Verdict:
        return Verdict(0.0, False, "timeout", detail=_told(self._found, self._reference, f"not decided: {error}"))


def _decided(passed: bool, found: Commitment, reference: str) -> Verdict:
    readings = [read_answer(text) for text in found.answers]
    unread = [reading for reading in readings if not passed and not reading.words]
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
    read = ", ".join(_excerpt(text) for text in found.answers[:4])
    joined = "" if found.joined == "one" else f" ({found.joined})"
    return f"read {read}{joined} from its {found.source}, reference {_excerpt(reference)}: {outcome}"


def _excerpt(text: str) -> str:
    return repr(text) if len(text) <= _LONGEST_EXCERPT else repr(text[:_LONGEST_EXCERPT]) + "..."
