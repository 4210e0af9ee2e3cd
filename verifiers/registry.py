"""Verifiers by name: plain functions whose arguments are passed by name."""

from __future__ import annotations

import inspect
import math
import re
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, runtime_checkable

from ..sandbox.errors import UserError, kind_of
from ..sandbox.nearest import did_you_mean, nearest
from .arguments import Arguments, Kwargs
from .foreign import verl_verdict
from .outcomes import explained, values_of_batch
from .patience import NotRun, OutOfPatience, call_with_patience
from .verdict import CompletionTimeout, Verdict, as_verdict, failure

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 60.0
"""Seconds that a function without a timeout may take, unless its verifier says otherwise."""

BATCH_PATIENCE = 600.0
"""The same for a batch function, which grades many completions in one call."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*-v[0-9]+", re.ASCII)
# Threads that were left to themselves still take processor time from everybody else.
_MOST_STUCK = 3
_FUTURE = re.compile(r"\bFuture\b")
# A field of a task may look a little like a parameter without being meant for it.
_MISSPELT = 0.75

_FIELDS = ("completion", "prompt", "answer", "think")

_registry: dict[str, Verifier[..., Any]] = {}
_broken: dict[str, str] | None = None
_loading = threading.RLock()


@runtime_checkable
class Grader(Protocol):
    """What a verifier and a rubric have in common."""

    def grade(self, fields: Mapping[str, Any]) -> Verdict:
        """The verdict on a completion, given with everything known about its task in `fields`."""

    def grade_many(self, rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """The verdicts on many, one a row, in order: together, where the grader can do so."""

    def check_fields(self, fields: Collection[str]) -> None:
        """Raise UserError unless fields of these names are enough to grade."""

    def option_names(self) -> frozenset[str] | None:
        """The names that may be fixed by a rubric's part; None if any name may."""


class Verifier(Generic[P, R]):
    """A named verifier function.

    Calling it calls the function, as if it had never been decorated; `grade` and `grade_many` give Verdicts.

    Args:
        name: what it is called in details and errors.
        function: see `verifier`.
        timeout: see `verifier`.
        patience: see `verifier`.
        check: see `verifier`.

    Raises:
        UserError: the function is a generator, its arguments cannot be passed by name, or a limit is no number
            of seconds.
    """

    def __init__(
        self,
        name: str,
        function: Callable[P, R],
        timeout: float | None = None,
        patience: float | None = None,
        check: Callable[..., object] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.timeout = _seconds(name, "timeout", timeout)
        self._arguments = Arguments(name, function)
        self.patience = _seconds(name, "patience", patience)
        self._limit = self.patience or (BATCH_PATIENCE if self._arguments.batch else PATIENCE)
        self._check = check
        self._stuck: list[threading.Thread] = []
        annotation = getattr(function, "__annotations__", {}).get("return")
        self._returns_future = bool(_FUTURE.search(annotation if isinstance(annotation, str) else repr(annotation)))
        self._own = f"{getattr(function, '__module__', '')}.".startswith("rlvr.")
        # Without the function's own attributes, which could overwrite this object's.
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function returns for these arguments; its exceptions come through."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<verifier {self.name}>"

    def __reduce__(self) -> Any:
        # In its module a decorated name is bound to this object and not to the function, so the verifier is
        # pickled as that name; unpickling imports the module, which registers it there too.
        qualname = getattr(self, "__qualname__", "")
        module = sys.modules.get(getattr(self, "__module__", None) or "")
        found: Any = module
        for attribute in qualname.split("."):
            found = getattr(found, attribute, None)
        return qualname if found is self else self._by_value()

    def reduce_for_worker(self) -> Any:
        """As `__reduce__`, for a worker of the pool, which does not import the main module."""
        from .handover import importable

        return self.__reduce__() if importable(getattr(self, "__module__", "__main__")) else self._by_value()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the function's parameters."""
        return self._arguments.parameters

    @property
    def grades_together(self) -> bool:
        """Whether many rows take less time in one `grade_many` than one by one."""
        waits = self._arguments.is_async or self._returns_future or self.timeout is not None
        return self._arguments.batch or waits

    def grade(self, fields: Mapping[str, Any]) -> Verdict:
        """The function's verdict on `fields`, which it receives by parameter name.

        A parameter with a default keeps it where no field has its name; a function with `**kwargs` receives
        every field. Whatever goes wrong inside the function is a verdict of status "error", except a
        UserError, which comes through, since it reports a wrong argument rather than a failed grading.

        Raises:
            UserError: no field gives a parameter that has no default.
        """
        if self._arguments.batch:
            return self.grade_many([fields])[0]
        self._arguments.check(fields)
        return self._verdict(self._outcomes([self._arguments.of_one(fields)])[0], fields)

    def grade_many(self, rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """The verdict of `grade` on each row, in order.

        A batch function is called once for all rows that have the same fields, an async one for many at a time,
        one with a timeout in as many workers as there are processors.

        Raises:
            UserError: as `grade`, and then no row was graded.
        """
        for names in {frozenset(row) for row in rows} if len(rows) > 1 else rows:
            self._arguments.check(names)
        if self._arguments.batch:
            return self._grade_batches(rows)
        outcomes = self._outcomes([self._arguments.of_one(row) for row in rows])
        return [self._verdict(outcome, row) for outcome, row in zip(outcomes, rows, strict=True)]

    def check_fields(self, fields: Collection[str]) -> None:
        """Raise UserError if a parameter without default has none of these fields' names."""
        self._arguments.check(fields)

    def option_names(self) -> frozenset[str] | None:
        """The function's parameters; None if it takes `**kwargs`."""
        return None if self._arguments.takes_every_field else self._arguments.field_names

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise UserError if arguments that are fixed for every completion have values that it cannot use."""
        if self._check is not None and options:
            self._check(**options)

    def _by_value(self) -> Any:
        return (Verifier, (self.name, self.function, self.timeout, self.patience, self._check))

    def _grade_batches(self, rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        verdicts: list[Verdict] = [failure("not graded")] * len(rows)
        groups = self._arguments.groups(rows)
        calls = [self._arguments.of_many([rows[index] for index in group]) for group in groups]
        for group, outcome in zip(groups, self._outcomes(calls), strict=True):
            values = values_of_batch(outcome, len(group))
            for index, value in zip(group, values, strict=True):
                verdicts[index] = self._verdict(value, rows[index])
        return verdicts

    def _outcomes(self, calls: list[Kwargs]) -> list[Any]:
        """What the function returned for each, or the exception that it raised."""
        if self._arguments.is_async:
            from .event_loop import run_all

            return run_all(self._arguments.function, calls, self.timeout or self._limit)
        if self.timeout is not None:
            from .pool import shared_pool

            try:
                return shared_pool().map(_ByName(self), [(call,) for call in calls], timeout=self.timeout)
            except Exception as error:
                # Such as a function that holds something which cannot be handed over to another process.
                return [error] * len(calls)
        return [self._outcome(call) for call in calls]

    def _outcome(self, call: Kwargs) -> Any:
        function = self._arguments.function
        if self._own:
            return _attempt(function, call)
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        if len(self._stuck) >= _MOST_STUCK:
            return NotRun(len(self._stuck))
        try:
            # The attempt is what runs in the helper thread, so that an exception of the waiting itself, as from a
            # signal's handler, is not taken for one of the function.
            return call_with_patience(_attempt, {"function": function, "call": call}, self._limit)
        except OutOfPatience as error:
            if error.thread is not None:
                self._stuck.append(error.thread)
            return error

    def _verdict(self, outcome: Any, row: Mapping[str, Any]) -> Verdict:
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            return verl_verdict(outcome) if self._arguments.is_verl else as_verdict(outcome)
        except UserError:
            raise
        except CompletionTimeout as error:
            return Verdict(0.0, False, "timeout", detail=str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if inspect.iscoroutine(outcome):
                outcome.close()
            return failure(explained(self.name, error, row))


def _attempt(function: Callable[..., Any], call: Kwargs) -> Any:
    try:
        return function(**call)
    except KeyboardInterrupt:
        raise
    # SystemExit and the like too: a checker written as a script must not end a run of hours by calling sys.exit.
    except BaseException as error:
        return error


class _ByName:
    """A verifier as a function of one dict of arguments, for the pool."""

    def __init__(self, verifier: Verifier[..., Any]) -> None:
        self.verifier = verifier

    def __call__(self, kwargs: Kwargs) -> Any:
        return self.verifier._arguments.function(**kwargs)


def verifier(
    name: str,
    *,
    timeout: float | None = None,
    patience: float | None = None,
    check: Callable[..., object] | None = None,
) -> Callable[[Callable[P, R]], Verifier[P, R]]:
    """Register the decorated function under `name`, which has the form `owner/name-vN`.

    The function's parameters name the fields it wants: `completion`, `prompt`, `answer`, `think`, and every
    key of the task's `info`. It returns a float (passed from 1.0 on), a bool, or a Verdict:

        @rlvr.verifier("me/short-v1")
        def short(completion: str, limit: int = 100) -> bool:
            return len(completion) <= limit

    A function with a parameter `completions` is a batch function: it gets each field as a list, an entry a
    completion (options of a rubric's part too), and returns a list of as many values in the same order. An
    `async def` runs in an event loop, for many completions at a time. TRL's and verl's reward functions are
    taken as they are (see `foreign`).

    A function that hangs does not hang the run: its verdict is an "error" when its time is over. What the
    model wrote is no excuse for that, unless the function says so itself by raising `CompletionTimeout`.

    Args:
        name: `owner/name-vN`.
        timeout: seconds that a call may take, in a worker process that is killed when they are over; the
            function's module is imported there. For an async function, after which it is cancelled.
        patience: seconds that are waited for a function without timeout. It runs in a helper thread of this
            process, which cannot be killed: it is left to itself, and after three such threads the verifier
            runs no more until one of them ends. By default 60, for a batch function 600. What holds the
            interpreter lock, as a big power does, is not bounded so, but only by a timeout.
        check: called with the arguments that a rubric's part fixes for every completion, as keywords and only
            those, when the part is made; it raises a UserError where a value is none of the possible ones.

    Raises:
        UserError: the name is malformed or belongs to another function, or the function cannot be a verifier.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"Verifier name {name!r} is not of the form owner/name-vN; write, say, 'me/my-check-v1'.")

    def register(function: Callable[P, R]) -> Verifier[P, R]:
        taken = _registry.get(name)
        if taken is not None and not _same_definition(taken.function, function):
            raise UserError(
                f"Verifier name {name!r} already belongs to {_where(taken.function)}, so {_where(function)} "
                "needs another name or a higher version number."
            )
        registered = Verifier(name, function, timeout, patience, check)
        _registry[name] = registered
        return registered

    return register


def get_verifier(name: str) -> Verifier[..., Any]:
    """The verifier registered under `name`, here or by an installed package (see `installed`).

    Raises:
        UserError: there is none; the message has the nearest names.
    """
    try:
        return _registry[name]
    except (KeyError, TypeError):
        broken = _load_installed_once()
    found = _registry.get(name) if isinstance(name, str) else None
    if found is not None:
        return found
    hint = did_you_mean(str(name), _registry)
    if broken:
        reasons = "; ".join(f"{entry!r} ({reason})" for entry, reason in broken.items())
        hint = f"{hint} Installed verifiers that could not be loaded: {reasons}."
    raise UserError(f"No verifier is registered as {name!r}; {hint}")


def as_grader(what: object) -> Grader:
    """The grader that is meant by a registered name, a verifier, a rubric or a plain function.

    Raises:
        UserError: it is none of these.
    """
    if isinstance(what, str):
        return get_verifier(what)
    if isinstance(what, Grader) and not isinstance(what, type):
        return what
    if callable(getattr(what, "grade", None)) and not isinstance(what, type):
        raise UserError(f"{what!r} is no grader, for it has no grade_many, check_fields or option_names; add them.")
    if callable(what):
        return Verifier(getattr(what, "__name__", type(what).__name__), what)
    raise UserError(f"{what!r} is no grader; give a verifier's name, a function, a Verifier or a Rubric instead.")


def verify(what: object, /, *, completion: str, **fields: Any) -> Verdict:
    """The verdict on `completion` of a verifier (by name or itself), a rubric, or a plain function.

        rlvr.verify("rlvr/number-v1", completion=r"So \\boxed{42}.", answer="42").passed

    Raises:
        UserError: the name is unknown, the completion is no text, a field that the grader needs is missing, or
            one that it does not know looks like a misspelt one of its own.
    """
    if not isinstance(completion, str):
        raise UserError(f"A completion is a str, but completion= is {kind_of(completion)}; pass its text.")
    grader = as_grader(what)
    given = {"completion": completion, **fields}
    _refuse_misspelt(grader, given)
    return grader.grade(given)


def verify_many(what: object, /, rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """The verdicts of `verify` on many completions, one a row, in order; together where the grader can do so.

    Args:
        what: as for `verify`.
        rows: for each, `completion` and the other fields.

    Raises:
        UserError: as `verify`.
    """
    for index, row in enumerate(rows):
        if not isinstance(row.get("completion"), str):
            found = kind_of(row["completion"]) if "completion" in row else "missing"
            raise UserError(f"A completion is a str, but that of row {index} is {found}; pass its text.")
    return as_grader(what).grade_many(rows)


async def averify(what: object, /, *, completion: str, **fields: Any) -> Verdict:
    """As `verify`, without holding up the running event loop; `asyncio.gather` of many grades them side by side.

    Raises:
        UserError: as `verify`.
    """
    from .event_loop import in_a_thread

    return await in_a_thread(lambda: verify(what, completion=completion, **fields))


def _refuse_misspelt(grader: Grader, given: Mapping[str, Any]) -> None:
    known = grader.option_names()
    if known is None or known.issuperset(given):
        return
    for name in given:
        near = [] if name in known or name in _FIELDS else nearest(name, known.difference(given), _MISSPELT)
        if near:
            # What is missing altogether is the greater mistake.
            grader.check_fields(given)
            raise UserError(f"The grader has no parameter {name!r}; did you mean {near[0]!r}?")


def _load_installed_once() -> dict[str, str]:
    global _broken
    with _loading:
        if _broken is None:
            # A package that asks for a verifier while it is loaded finds what there is so far.
            _broken = {}
            from .installed import load_installed

            _broken = load_installed(_register_installed)
        return _broken


def _register_installed(name: str, found: Any) -> None:
    if not isinstance(found, Verifier):
        verifier(name)(found)


def _seconds(name: str, limit: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UserError(f"The {limit} of verifier {name!r} is {value!r}; pass a positive number of seconds.")
    return float(value)


def _same_definition(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether `new` is `old` defined again, as when a module is reloaded or a notebook cell run twice."""
    qualname = getattr(new, "__qualname__", None)
    if qualname is None or "<lambda>" in qualname:
        return old is new
    same_module = getattr(old, "__module__", None) == getattr(new, "__module__", None)
    return same_module and getattr(old, "__qualname__", None) == qualname


def _where(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
