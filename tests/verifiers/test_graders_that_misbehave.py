from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import importlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings

import numpy as np
import pytest

from rlvr.verifiers import Rubric, UserError, Verdict, get_verifier, registry, score, verifier, verify
from rlvr.verifiers.pool import shared_pool
from rlvr.verifiers.registry import averify, verify_many
from rlvr.verifiers.verdict import CompletionTimeout


def register(function, **options):
    return verifier(f"test/{uuid.uuid4().hex}-v1", **options)(function)


def rows(*completions, **fields):
    return [{"completion": completion, **fields} for completion in completions]


def is_error(verdict: Verdict, *words: str) -> bool:
    return verdict.score is None and verdict.status == "error" and all(word in verdict.detail for word in words)


def length(completion):
    return len(completion) / 10


# Batches.


def test_a_batch_function_gets_lists_and_gives_a_value_a_row():
    seen = []

    def batch(completions, answer, prompts, limit=None):
        seen.append((completions, answer, prompts, limit))
        return [float(c == a) for c, a in zip(completions, answer, strict=True)]

    graded = verify_many(batch, [{"completion": c, "answer": a, "prompt": "p"} for c, a in ["xx", "xy", "yy"]])
    assert [verdict.passed for verdict in graded] == [True, False, True]
    assert seen == [(["x", "x", "y"], ["x", "y", "y"], ["p", "p", "p"], None)]
    assert verify(batch, completion="a", answer="a", prompt="p").passed


def test_a_batch_function_in_a_rubric():
    def batch(completions, limit):
        return [len(c) <= most for c, most in zip(completions, limit, strict=True)]

    rubric = Rubric(score(batch, name="short", limit=2))
    assert [verdict.passed for verdict in rubric.grade_many(rows("a", "abc", "ab"))] == [True, False, True]


def test_rows_that_have_other_fields_stay_in_their_place():
    def batch(completions, bonus=None):
        return [len(c) + extra for c, extra in zip(completions, bonus or [0] * len(completions), strict=True)]

    mixed = [{"completion": "a"}, {"completion": "bb", "bonus": 10}, {"completion": "ccc"}]
    assert [verdict.score for verdict in verify_many(batch, mixed)] == [1.0, 12.0, 3.0]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ([1.0, 1.0], "2 values for 3 completions"),
        ([1.0] * 4, "4 values for 3"),
        ([], "0 values"),
        (1.0, "float"),
        ("abc", "str"),
        (None, "NoneType"),
        ({0: 1.0, 1: 1.0, 2: 1.0}, "dict"),
        ((x for x in [1.0, 1.0, 1.0]), "generator"),
        (np.ones((3, 1)), "ndarray"),
    ],
)
@pytest.mark.parametrize("timeout", [None, 20])
def test_a_batch_of_the_wrong_length_or_kind_is_an_error_for_every_row(result, words, timeout):
    if timeout and words == "generator":
        words = "pickle"
    registered = register(lambda completions: result, timeout=timeout)
    for completion, verdict in zip("abc", verify_many(registered, rows(*"abc")), strict=True):
        assert is_error(verdict, registered.name, words, repr(completion))


@pytest.mark.parametrize("bad", [math.nan, math.inf, "1", None, 1j, [1.0]])
def test_one_bad_value_in_a_batch_fails_its_row_alone(bad):
    registered = register(lambda completions: [1.0, bad, 0.0])
    one, two, three = verify_many(registered, rows(*"abc"))
    assert (one.score, three.score) == (1.0, 0.0)
    assert is_error(two, registered.name, "'b'")


def test_a_batch_that_raises_fails_every_row():
    registered = register(lambda completions: 1 / 0)
    assert all(is_error(v, registered.name, "ZeroDivisionError") for v in verify_many(registered, rows(*"abc")))


def test_arrays_are_batches_too():
    assert [v.score for v in verify_many(lambda completions: np.array([0.5, 1.0]), rows(*"ab"))] == [0.5, 1.0]
    torch = pytest.importorskip("torch")
    assert [v.score for v in verify_many(lambda completions: torch.tensor([0.5, 1.0]), rows(*"ab"))] == [0.5, 1.0]


def test_one_completion_or_many_but_not_both():
    with pytest.raises(UserError, match="one of the parameters"):
        register(lambda completion, completions: 1.0)


# Async functions.


def test_async_functions_wait_side_by_side():
    together = []

    async def meet(completion):
        together.append(completion)
        while len(together) < 20:
            await asyncio.sleep(0)
        return completion == "x3"

    verdicts = verify_many(meet, rows(*(f"x{i}" for i in range(20))))
    assert [verdict.passed for verdict in verdicts] == [i == 3 for i in range(20)]
    assert verify(functools.partial(length, completion="abc"), completion="abc").score == 0.3


def test_async_batches_objects_and_failures():
    class Judge:
        async def __call__(self, completions):
            await asyncio.sleep(0)
            return [1.0] * len(completions)

    async def fails(completion):
        raise TimeoutError("the server's own")

    assert [v.score for v in verify_many(Judge(), rows("a", "b"))] == [1.0, 1.0]
    assert is_error(verify(fails, completion="abc"), "'fails'", "the server's own", "'abc'")


@pytest.mark.parametrize("option", ["timeout", "patience"])
def test_an_async_function_that_never_ends_is_cancelled(option):
    cancelled = []

    async def hang(completion):
        try:
            if completion == "hang":
                await asyncio.sleep(1000)
            return True
        except asyncio.CancelledError:
            cancelled.append(completion)
            raise

    registered = register(hang, **{option: 0.3})
    one, two, three = verify_many(registered, rows("a", "hang", "b"))
    assert one.passed
    assert three.passed
    assert is_error(two, registered.name, "0.3 s", "'hang'")
    assert cancelled == ["hang"]


def test_an_async_function_that_blocks_its_loop_holds_up_nobody():
    release = threading.Event()

    async def block(completion):
        release.wait()
        return True

    async def fine(completion):
        return True

    registered = register(block, patience=0.2)
    assert is_error(verify(registered, completion="a"), registered.name, "0.2 s")
    assert verify(fine, completion="a").passed
    release.set()


def test_an_async_function_that_blocks_its_loop_costs_nobody_else_a_verdict():
    """Neither those of the same call, nor those that wait for the same loop."""
    blocked, release = threading.Event(), threading.Event()

    async def block(completion):
        await asyncio.sleep(0)
        if completion == "block":
            blocked.set()
            release.wait()
        return True

    async def fine(completion):
        return True

    verdicts = []
    registered = register(block, patience=0.2)
    call = rows("a", "block", "b")
    thread = threading.Thread(target=lambda: verdicts.extend(verify_many(registered, call)), daemon=True)
    thread.start()
    assert blocked.wait(60)
    assert verify(register(fine, patience=0.2), completion="c").passed
    thread.join(60)
    release.set()
    assert [verdict.passed for verdict in verdicts] == [True, None, True]
    assert is_error(verdicts[1], registered.name, "0.2 s", "'block'")


def test_an_async_function_that_does_not_heed_that_it_is_cancelled_holds_up_nobody():
    async def stubborn(completion):
        while completion == "hang":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)
        return True

    registered = register(stubborn, patience=0.2)
    one, two = verify_many(registered, rows("hang", "b"))
    assert is_error(one, registered.name, "0.2 s", "'hang'")
    assert two.passed


def test_a_grader_of_ones_own_that_hangs_is_left_to_itself(monkeypatch):
    monkeypatch.setattr("rlvr.verifiers.combinator.BATCH_PATIENCE", 0.2)
    release = threading.Event()

    class Hanging:
        def grade_many(self, rows):
            release.wait()

        def grade(self, fields):
            return self.grade_many([fields])

        def check_fields(self, fields):
            pass

        def option_names(self):
            return None

    verdict = verify(Rubric(score(Hanging(), name="mine", passes=True)), completion="a")
    release.set()
    assert is_error(verdict, "Hanging object", "did not return within 0.2 s")


def test_an_async_function_may_call_plain_code_that_waits_for_another():
    async def inner(completion):
        await asyncio.sleep(0)
        return len(completion) == 3

    async def outer(completion):
        return verify(inner, completion=completion)

    assert verify(outer, completion="abc").passed


def test_a_coroutine_returned_by_a_plain_function_is_no_score():
    async def later():
        return 1.0

    def plain(completion):
        return later()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_error(verify(plain, completion="a"), "'plain'", "coroutine")
        gc.collect()


def test_averify_leaves_the_loop_free():
    meeting = threading.Barrier(5)

    def meet(completion):
        meeting.wait(60)
        return completion == "x"

    async def work():
        return await asyncio.gather(*(averify(meet, completion=c) for c in "xyxyx"))

    assert [verdict.passed for verdict in asyncio.run(work())] == [True, False, True, False, True]


def test_averify_reports_mistakes():
    with pytest.raises(UserError, match="'answer'"):
        asyncio.run(averify("rlvr/number-v1", completion="x"))


# Functions that hang.


def test_a_timeout_kills_and_neighbours_keep_their_verdicts():
    def work(completion):
        return 9**9**9 if completion == "power" else len(completion)

    registered = register(work, timeout=1)
    one, two, three = verify_many(registered, [{"completion": c, "task_id": f"t-{c}"} for c in ("a", "power", "bb")])
    assert (one.score, three.score) == (1.0, 2.0)
    assert is_error(two, registered.name, "1 s", "'t-power'", "'power'", "killed")


def test_a_timeout_runs_in_the_main_thread_of_another_process():
    def where(completion):
        return os.getpid() != int(completion) and threading.current_thread() is threading.main_thread()

    assert verify(register(where, timeout=20), completion=str(os.getpid())).passed


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda completion: os._exit(7), "exit code 7"),
        (lambda completion: sys.exit("done"), "SystemExit: done"),
        (lambda completion: bytearray(8 << 30), "MemoryError"),
        (lambda completion: threading.Lock(), "a lock"),
        (lambda completion: math.nan, "nan"),
        (lambda completion: os.kill(os.getpid(), signal.SIGSEGV), "signal 11"),
    ],
)
def test_what_else_happens_in_a_process_is_an_error(work, words):
    registered = register(work, timeout=20)
    assert is_error(verify(registered, completion="abc"), registered.name, words, "'abc'")


def test_a_function_that_cannot_be_handed_over_says_so():
    lock = threading.Lock()
    registered = register(lambda completion: lock.locked(), timeout=20)
    assert all(is_error(v, registered.name, "pickle") for v in verify_many(registered, rows("a", "b")))


def test_a_users_error_comes_through_from_a_process():
    def picky(completion):
        raise UserError("The mode is 'x'; pass another.")

    with pytest.raises(UserError, match="The mode"):
        verify(register(picky, timeout=20), completion="a")


def test_a_verifier_used_by_another_in_a_worker():
    short = register(lambda completion: len(completion) < 3)

    def outer(completion):
        return short(completion)

    assert verify(register(outer, timeout=30), completion="ab").passed


def test_a_completion_may_be_the_reason_for_running_out_of_time():
    def own_limit(completion):
        raise CompletionTimeout("too deep")

    for registered in (register(own_limit), register(own_limit, timeout=20)):
        assert verify(registered, completion="a") == Verdict(0.0, False, "timeout", detail="too deep")


def test_without_a_timeout_a_hanging_function_is_left_to_itself():
    release = threading.Event()

    def hang(completion):
        if completion.startswith("hang"):
            release.wait()
        return True

    registered = register(hang, patience=0.2)
    verdicts = verify_many(registered, rows("a", "hang1", "b", "hang2", "hang3", "c"))
    assert [verdict.passed for verdict in verdicts] == [True, None, True, None, None, None]
    assert is_error(verdicts[1], registered.name, "0.2 s", "timeout=", "'hang1'")
    # Three threads hang: no fourth is begun.
    assert is_error(verdicts[5], registered.name, "still hang", "'c'")
    release.set()
    deadline = time.monotonic() + 20
    while not verify(registered, completion="a").passed:
        assert time.monotonic() < deadline


def test_the_callers_context_reaches_the_function():
    variable = contextvars.ContextVar("variable", default=0.0)
    variable.set(0.5)

    async def ask(completion):
        return variable.get()

    assert verify(lambda completion: variable.get(), completion="").score == 0.5
    assert verify(ask, completion="").score == 0.5


def test_verifiers_that_call_verifiers_and_many_threads():
    def inner(completion):
        return len(completion)

    def outer(completion):
        return verify(inner, completion=completion + "x")

    results = {}

    def work(k):
        results[k] = [verify(outer, completion="y" * i).score for i in range(50)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [float(i + 1) for i in range(50)] for k in range(8)}


def test_a_forked_child_grades_too():
    async def ask(completion):
        return True

    pooled = register(lambda completion: True, timeout=20)
    for what in (length, ask, pooled):
        verify(what, completion="abc")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            right = all(verify(what, completion="abc").score is not None for what in (length, ask, pooled))
            status = 0 if right else 2
            shared_pool().close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_interrupt_reaches_a_waiting_main_thread():
    code = (
        "import os, signal, threading, rlvr\n"
        "def hang(completion):\n    threading.Event().wait()\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    rlvr.verify(hang, completion='x')\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40, check=True)
    assert done.stdout == "interrupted\n"


def test_what_needs_the_main_thread_is_told_the_cure():
    def alarm(completion):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return True

    assert is_error(verify(alarm, completion="x"), "timeout=")
    assert verify(register(alarm, timeout=20), completion="x").passed


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "5", True])
@pytest.mark.parametrize("option", ["timeout", "patience"])
def test_limits_are_positive_seconds(option, value):
    with pytest.raises(UserError, match=option):
        register(length, **{option: value})


def test_the_sample_is_named_and_its_completion_cut():
    def fails(completion):
        raise ValueError("bad")

    detail = verify(fails, completion="word " * 1000, id=7).detail
    assert "'7'" in detail
    assert "word word" in detail
    assert len(detail) < 300


def test_verify_many_checks_its_rows():
    with pytest.raises(UserError, match="row 1 is missing"):
        verify_many(length, [{"completion": "a"}, {"answer": "b"}])
    with pytest.raises(UserError, match="row 0 is an int"):
        verify_many(length, [{"completion": 3}])
    with pytest.raises(UserError, match="'answer'"):
        verify_many("rlvr/number-v1", [{"completion": "a", "answer": 1}, {"completion": "a"}])
    assert verify_many(length, []) == []


# Installed packages.


@pytest.fixture
def installed(tmp_path, monkeypatch):
    (tmp_path / "their_checks.py").write_text(
        "import rlvr\n"
        "@rlvr.verifier('they/module-v1')\ndef a(completion):\n    return True\n"
        "def plain(completion):\n    return len(completion)\n"
    )
    (tmp_path / "their_broken.py").write_text("import no_such_thing_at_all\n")
    info = tmp_path / "their_checks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-checks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[rlvr.verifiers]\n"
        "aaa = their_broken\n"
        "they/plain-v1 = their_checks:plain\n"
        "not a name = their_checks:plain\n"
        "checks = their_checks\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    monkeypatch.setattr(registry, "_broken", None)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    yield
    sys.modules.pop("their_checks", None)


def test_entry_points_are_loaded_when_a_name_is_unknown(installed):
    with pytest.warns(UserWarning, match="aaa") as warned:
        assert verify("they/plain-v1", completion="abc").score == 3.0
    assert len(warned) == 1
    assert len(str(warned[0].message)) < 200
    assert verify("they/module-v1", completion="abc").passed
    with pytest.raises(UserError, match=r"they/plain-v1.*'aaa' \(ModuleNotFoundError.*'not a name' \(UserError"):
        get_verifier("they/plan-v1")


def test_the_hint_about_installed_verifiers_is_a_sentence_of_its_own(installed):
    with (
        pytest.warns(UserWarning, match="aaa"),
        pytest.raises(UserError, match=r"[.?] Installed verifiers that") as error,
    ):
        get_verifier("zzzzzzzz")
    assert ".." not in str(error.value)
