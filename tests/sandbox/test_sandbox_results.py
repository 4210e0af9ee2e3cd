"""What comes back from a program."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rlvr.sandbox
from rlvr.sandbox import Box, Call, Limits, Program, Result, TestProgram
from rlvr.verifiers import UserError


def test_script(box: Box) -> None:
    result = box.run(Program("import sys\nprint(1 + 1)\nprint('oh', file=sys.stderr)"))
    assert (result.status, result.exit_code, result.signal) == ("ok", 0, None)
    assert (result.stdout, result.text("stderr")) == (b"2\n", "oh\n")
    assert not result.stdout_truncated
    assert result.wall_seconds > 0
    assert result.cpu_seconds > 0
    assert result.peak_memory_bytes > 1 << 20


@pytest.mark.parametrize(
    ("source", "status", "code"),
    [
        ("exit(3)", "nonzero_exit", 3),
        ("raise SystemExit", "ok", 0),
        ("raise SystemExit('sorry')", "nonzero_exit", 1),
        ("import os; os._exit(7)", "nonzero_exit", 7),
        ("1 / 0", "nonzero_exit", 1),
        ("def f(:", "nonzero_exit", 1),
        ("import atexit; atexit.register(print, 'bye')", "ok", 0),
    ],
)
def test_exit_codes(box: Box, source: str, status: str, code: int) -> None:
    result = box.run(Program(source))
    assert (result.status, result.exit_code) == (status, code)


def test_traceback_shows_the_program_alone(box: Box) -> None:
    text = box.run(Program("def f():\n    return 1 / 0\nf()")).text("stderr")
    assert text.endswith("ZeroDivisionError: division by zero\n")
    assert 'File "solution.py", line 2, in f' in text
    assert "<sandbox" not in text


@pytest.mark.parametrize(("source", "number"), [("import os; os.abort()", 6), ("os.kill(os.getpid(), 9)", 9)])
def test_signals(box: Box, source: str, number: int) -> None:
    result = box.run(Program("import os\n" + source))
    assert (result.status, result.exit_code, result.signal) == ("signalled", None, number)


def test_stdin_files_and_environment(box: Box) -> None:
    source = (
        "import os, sys, extra.more\nprint(repr(sys.stdin.buffer.read()), open('data.txt').read(), extra.more.x, "
        "os.environ['A'], __name__)"
    )
    files = {"data.txt": "hällo", "extra/more.py": "x = 5"}
    result = box.run(Program(source, stdin=b"\xff\x00\n", files=files, env={"A": "b"}))
    assert result.text() == "b'\\xff\\x00\\n' hällo 5 b __main__\n"


def test_scripts_among_the_files_can_be_executed(box: Box) -> None:
    python = box.run(Program("import sys; print(sys.executable)")).text().strip()
    files = {"tools/answer": f"#!{python}\nprint(6 * 7)\n", "data.txt": "6 * 7\n"}
    result = box.run(Program(files=files, command=["./tools/answer"]))
    assert (result.status, result.stdout) == ("ok", b"42\n"), result.text("stderr")
    assert box.run(Program(files=files, command=["./data.txt"])).exit_code == 126


def test_input_that_ends(box: Box) -> None:
    assert (
        box.run(Program("input()\ninput()", stdin="one\n"))
        .text("stderr")
        .endswith("EOFError: EOF when reading a line\n")
    )


def test_large_input_and_output(box: Box) -> None:
    result = box.run(
        Program("import sys; sys.stdout.write(sys.stdin.read())", stdin="x" * 1_000_000),
        box.limits.with_changes(output_bytes=2_000_000),
    )
    assert result.stdout == b"x" * 1_000_000


def test_output_that_is_no_text(box: Box) -> None:
    result = box.run(Program("import os; os.write(1, b'a\\x00\\xff\\n')"))
    assert result.stdout == b"a\x00\xff\n"
    assert result.text() == "a\x00\ufffd\n"


def test_calls_in_order_with_arguments_after(box: Box) -> None:
    source = "def push(items, x, *, twice=False):\n    items.append(x)\n    return len(items) * (1 + twice)\n"
    calls = [
        Call("push", [[1], 2]),
        Call("push", [[], "a"], {"twice": True}),
        Call("push", [None, 1]),
        Call("absent"),
    ]
    first, second, third, fourth = box.run(Program(source, call=calls)).values
    assert (first.outcome, first.value, first.args, first.kwargs) == ("returned", 2, [[1, 2], 2], {})
    assert (second.value, second.args, second.kwargs) == (2, [["a"], "a"], {"twice": True})
    assert (third.outcome, third.error_type) == ("raised", "AttributeError")
    assert (fourth.outcome, fourth.error_type) == ("raised", "AttributeError")


def test_method_of_a_class(box: Box) -> None:
    source = "class Solution:\n    def twice(self, x):\n        return 2 * x"
    assert box.run(Program(source, call=Call("Solution.twice", [4]))).values[0].value == 8


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.booleans()), inner, max_size=3)
        | st.frozensets(st.integers() | st.text(), max_size=3)
        | st.sets(st.binary(), max_size=3)
    ),
    max_leaves=12,
)


def same(left: object, right: object) -> bool:
    return left == right and repr(left) == repr(right) if not isinstance(left, set | frozenset) else left == right


@given(plain)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_plain_data_comes_back_as_it_was(box: Box, value: object) -> None:
    result = box.run(Program("def same(x): return x", call=Call("same", [value]))).values[0]
    assert result.outcome == "returned"
    assert result.value == value
    assert type(result.value) is type(value)


def test_floats_that_are_not_finite(box: Box) -> None:
    source = "def f(): return [float('nan'), float('inf'), -float('inf'), -0.0]"
    nan, high, low, zero = box.run(Program(source, call=Call("f"))).values[0].value
    assert math.isnan(nan)
    assert (high, low, math.copysign(1, zero)) == (math.inf, -math.inf, -1.0)


@pytest.mark.parametrize(
    "body",
    [
        "return object()",
        "return lambda: 1",
        "return (x for x in [])",
        "x = []; x.append(x); return x",
        "return 1 << 2_000_000",
        "return 'x' * (20 << 20)",
    ],
)
def test_values_that_are_not_plain(box: Box, body: str) -> None:
    (value,) = box.run(Program(f"def f(): {body}", call=Call("f"))).values
    assert value.outcome == "opaque"
    assert value.value is None


def test_a_lying_subclass_comes_back_as_what_it_is(box: Box) -> None:
    source = "class Int(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\n    __int__ = __index__ = lambda s: 9\ndef f(): return [Int(4)]"
    (value,) = box.run(Program(source, call=Call("f"))).values
    assert value.value == [4]
    assert type(value.value[0]) is int


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos._exit(0)\ndef f(): pass",
        "import sys\nsys.exit(0)",
        "import os\ndef f(): os._exit(0)",
        "import os\ndef f(): os.kill(os.getpid(), 9)",
        "import os\nos.write(3, b'garbage' * 100)\nos._exit(0)",
        "import os\nos.write(3, b'C\\xff\\xff\\xff\\xff')\nos._exit(0)",
        "import os\nos.write(3, b'C\\0\\0\\0\\3[1]')\nos._exit(0)",
        "import os\nos.write(3, b'C\\0\\0\\0\\6' + b'[[[[[[')\nos._exit(0)",
        "import os\nos.close(3)\nos._exit(0)",
    ],
)
def test_an_early_end_or_nonsense_answers_no_call(box: Box, source: str) -> None:
    result = box.run(Program(source, call=[Call("f"), Call("f")]))
    assert [value.outcome for value in result.values] == ["missing", "missing"]


def test_a_child_that_returns_into_the_harness_says_nothing(box: Box) -> None:
    source = "import os\ndef f():\n    if os.fork() == 0: return 1\n    os.wait()\n    return 2"
    values = box.run(Program(source, call=[Call("f"), Call("f")])).values
    assert [value.value for value in values] == [2, 2]


def test_map_keeps_the_order(box: Box) -> None:
    results = box.map([Program(f"print({n})") for n in range(20)])
    assert [result.stdout for result in results if isinstance(result, Result)] == [b"%d\n" % n for n in range(20)]


def test_arun(box: Box) -> None:
    async def both() -> list[Result]:
        return await asyncio.gather(box.arun(Program("print(1)")), box.arun(Program("print(2)")))

    assert [result.stdout for result in asyncio.run(both())] == [b"1\n", b"2\n"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Limits(cpu_seconds=0),
            "The sandbox limit cpu_seconds is 0, but has to be a number of seconds above 0.",
        ),
        (lambda: Limits(processes=1.5), "The sandbox limit processes is 1.5, but has to be a whole number above 0."),  # type: ignore[arg-type]
        (
            lambda: Program("", files={"../x": ""}),
            "The file path '../x' has to be relative and to stay inside the working folder.",
        ),
        (
            lambda: Program("", files={"/x": ""}),
            "The file path '/x' has to be relative and to stay inside the working folder.",
        ),
        (lambda: rlvr.sandbox.open("dokcer"), "There is no sandbox backend 'dokcer'; did you mean 'docker'?"),
        (
            lambda: rlvr.sandbox.open("namespace", pool=0),
            "The pool of a sandbox is 0, but has to be a whole number above 0.",
        ),
        (lambda: TestProgram("unittest"), "The form of the tests is 'unittest', but has to be 'asserts' or 'pytest'."),  # type: ignore[arg-type]
        (lambda: rlvr.sandbox.open("namespace", imagee="x"), "The sandbox backend 'namespace' has no option 'imagee'"),
    ],
)
def test_mistakes_are_named(make: object, message: str) -> None:
    with pytest.raises(UserError) as error:
        make()  # type: ignore[operator]
    assert message in str(error.value)


@pytest.mark.parametrize("kind", ["set", "frozenset", "dict.fromkeys"])
def test_members_that_hash_alike_are_refused(box: Box, kind: str) -> None:
    (value,) = box.run(
        Program(f"def f(): return {kind}(i * (2**61 - 1) for i in range(1, 1000))", call=Call("f"))
    ).values
    assert (value.outcome, value.value) == ("opaque", None)
    assert "hash" in value.error_message


SAY = "import os, json, struct\ndef f():\n    b = {}\n    while b: b = b[os.write(3, b):]\n    os._exit(0)"


@pytest.mark.parametrize(
    "body",
    [
        "json.dumps(['returned', ['s'] + [i * (2**61 - 1) for i in range(20000)], None, None, '', '']).encode()",
        "json.dumps(['returned', ['d'] + [v for i in range(20000) for v in (i * (2**61 - 1), 0)], None, None, '', '']).encode()",
        "b'[' + b'[],' * 5000000 + b'[]]'",
        "b'[' + b'\"\",' * 5000000 + b'1]'",
        "json.dumps(['returned', ['l'] + [0] * 1000001, None, None, '', '']).encode()",
        "json.dumps(['returned', ['r', 0, 10**15, 1], None, None, '', '']).encode()",
        "json.dumps(['returned', ['D', '1e999999999'], None, None, '', '']).encode()",
        "json.dumps(['returned', ['F', 1, 0], None, None, '', '']).encode()",
        "json.dumps(['returned', ['Y', 'eval'], None, None, '', '']).encode()",
        "json.dumps(['returned', ['w', 'date', 1.5, 1, 1], None, None, '', '']).encode()",
    ],
)
def test_values_that_would_be_costly_or_wrong_to_read_are_missing(box: Box, body: str) -> None:
    source = SAY.format(f"(lambda c: struct.pack('!cI', b'C', len(c)) + c)({body})")
    (value,) = box.run(Program(source, call=Call("f"))).values
    assert value.outcome == "missing"


def test_frames_beyond_the_calls_are_not_read(box: Box) -> None:
    frame = "json.dumps(['returned', 1, None, None, '', '']).encode()"
    source = SAY.format(f"(lambda c: (struct.pack('!cI', b'C', len(c)) + c) * 100000)({frame})")
    values = box.run(Program(source, call=[Call("f"), Call("f")])).values
    assert [value.value for value in values] == [1, 1]


def test_strings_with_many_commas_and_large_dicts_pass(box: Box) -> None:
    source = "def f(): return [',[' * 2000000, {i: -i for i in range(20000)}]"
    (value,) = box.run(Program(source, call=Call("f"))).values
    assert value.value == [",[" * 2000000, {i: -i for i in range(20000)}]


def test_dicts_of_other_kinds_are_dicts(box: Box) -> None:
    source = "from collections import *\ndef f(): return [Counter('a'), defaultdict(int, b=1), OrderedDict(c=2)]"
    (value,) = box.run(Program(source, call=Call("f"))).values
    assert [(type(entry), entry) for entry in value.value] == [(dict, {"a": 1}), (dict, {"b": 1}), (dict, {"c": 2})]


def test_the_processor_time_of_a_killed_program_is_told(box: Box) -> None:
    result = box.run(Program("while True: pass"), box.limits.with_changes(wall_seconds=1.0))
    assert result.cpu_seconds > 0.05


def test_the_interpreter_can_be_run_again(box: Box) -> None:
    result = box.run(
        Program("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(6 * 7)'], check=True)")
    )
    assert (result.status, result.stdout) == ("ok", b"42\n")
