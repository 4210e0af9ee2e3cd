from __future__ import annotations

from typing import Any

import pytest

from rlvr.verifiers import Rubric, UserError, Verdict, score, verify, verify_many
from rlvr.verifiers.code import after_stub

ADD = "def add(a, b):\n    return a + b"
CASES = [
    {"args": [1, 2], "expected": 3, "visible": True},
    {"args": [2, 2], "expected": 4},
    {"kwargs": {"a": -1, "b": 1}, "expected": 0},
]
CALLS = {"form": "calls", "entry_point": "add", "cases": CASES}
STDIN = {"form": "stdin", "cases": [{"stdin": f"{n} 2\n", "stdout": f"{n + 2}\n"} for n in range(5)]}
ASSERTS = {
    "form": "asserts",
    "entry_point": "add",
    "source": "def check(candidate):\n    for n in range(3):\n        assert candidate(n, 2) == n + 2\n"
    "    assert candidate(0, 0) == 0\n",
}
PYTEST = {
    "form": "pytest",
    "files": {
        "test_add.py": "from solution import add\n\ndef test_one():\n    assert add(1, 2) == 3\n\n"
        "def test_two():\n    assert add(0, 0) == 0\n"
    },
    "module": "solution",
}


def graded(program: str, tests: Any, **options: Any) -> Verdict:
    return verify("rlvr/code-v1", completion=f"<think>hm</think>\n```python\n{program}\n```", tests=tests, **options)


@pytest.mark.parametrize(
    "tests", [CALLS, ASSERTS, PYTEST, [CALLS, ASSERTS]], ids=["calls", "asserts", "pytest", "both"]
)
def test_a_right_function_passes_and_a_wrong_one_fails(tests: Any) -> None:
    right, wrong = graded(ADD, tests), graded("def add(a, b):\n    return a - b", tests)
    assert (right.score, right.passed, right.status) == (1.0, True, "ok")
    assert (wrong.score, wrong.passed, wrong.status) == (0.0, False, "ok")
    assert wrong.detail


def test_a_program_that_prints_the_outputs_passes() -> None:
    program = "a, b = map(int, input().split())\nprint(a + b)"
    assert graded(program, STDIN).passed
    wrong = graded(program.replace("a + b", "max(a, 2) + b"), STDIN, score="share")
    assert wrong.score == 3 / 5
    assert "on the input '0 2\\n' it printed '4\\n', not '2\\n'" in wrong.detail
    failed = graded(f"{program}\nraise SystemExit(3)", STDIN)
    assert failed.score == 0.0
    assert "exit code 3" in failed.detail


def test_the_share_and_the_parts() -> None:
    verdict = graded("def add(a, b):\n    return 3 if a == 1 else 4", CALLS, score="share")
    assert verdict.score == 2 / 3
    assert verdict.passed is False
    assert verdict.parts == {"visible": 1.0, "hidden": 0.5}
    assert verdict.detail == "2 of 3 tests passed; test 3 (hidden): add(a=-1, b=1) returned 4, not 0"
    assert graded("def add(a, b):\n    return 3 if a == 1 else 4", CALLS).score == 0.0


def test_the_detail_has_the_error_and_the_end_of_stderr() -> None:
    detail = graded(
        "import sys\ndef add(a, b):\n    print('why', file=sys.stderr)\n    raise KeyError('no')", CALLS
    ).detail
    assert "add(1, 2) raised KeyError" in detail
    assert "why" in detail
    assert "SyntaxError" in graded("def add(a, b) return", CALLS).detail


def test_what_is_no_code_is_unparseable() -> None:
    for completion in ("I do not know.", "<think>\n```python\n" + ADD):
        verdict = verify("rlvr/code-v1", completion=completion, tests=CALLS)
        assert (verdict.score, verdict.status) == (0.0, "unparseable")
        assert verdict.parts == {"visible": 0.0, "hidden": 0.0}


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("def add(a, b):\n    while True: pass", "timeout"),
        ("import time\ndef add(a, b):\n    time.sleep(60)", "timeout"),
        ("def add(a, b):\n    return [0] * 10**9", "ok"),
        ("def add(a, b):\n    while True: print('x' * 10000)", None),
        ("def add(a, b):\n    return 10 ** 30000", "ok"),
        ("def add(a, b):\n    return '\\ud800'", "ok"),
        ("x = '\ud800'\ndef add(a, b):\n    return 3", "ok"),
        ("def add(a, b):\n    return 3\0", "ok"),
        ("def add(a, b):\n    return " + "(" * 5000 + ")" * 5000, "ok"),
    ],
)
def test_what_a_program_provokes_is_its_failure(program: str, status: str | None) -> None:
    verdict = graded(program, CALLS, limits={"cpu_seconds": 0.5, "wall_seconds": 1.5, "memory_bytes": 256 << 20})
    assert verdict.score == 0.0
    assert status is None or verdict.status == status
    verdict.detail.encode()


def test_a_program_that_hangs_is_given_up_before_all_inputs_are_tried() -> None:
    tests = {"form": "stdin", "cases": [{"stdin": "", "stdout": "1"}] * 200}
    verdict = graded("while True: pass", tests, limits={"cpu_seconds": 0.3})
    assert (verdict.score, verdict.status) == (0.0, "timeout")
    assert verdict.detail.startswith("0 of 200 tests passed")


def test_an_assertion_that_is_never_reached_is_not_passed() -> None:
    source = "def check(candidate):\n    for n in candidate():\n        assert n == 1\n"
    tests = {"form": "asserts", "entry_point": "f", "source": source}
    assert graded("def f():\n    return [1, 1]", tests).passed
    assert graded("def f():\n    return []", tests).score == 0.0


def test_an_object_that_decides_about_itself_counts_only_where_that_is_allowed() -> None:
    program = (
        "class P:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return True\ndef f(x): return P(x)"
    )
    source = "def check(candidate):\n    x = 1\n    assert candidate(x) == candidate(2)\n"
    tests = {"form": "asserts", "entry_point": "f", "source": source}
    assert graded(program, tests).score == 0.0
    assert graded(program, tests, objects=True).passed


def asserted(source: str, entry_point: str = "f") -> dict[str, str]:
    return {"form": "asserts", "entry_point": entry_point, "source": source}


@pytest.mark.parametrize(
    ("program", "source"),
    [
        ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]"),
        ("def f(n):\n    return map(int, '321')", "assert sorted(f(3)) == [1, 2, 3]"),
        ("def f(n):\n    return {1: 2, 3: 4}.keys()", "assert set(f(3)) == {1, 3}"),
        ("def f(n):\n    return range(n)", "assert len(f(3)) == 3"),
        ("from fractions import Fraction\ndef f(a):\n    return Fraction(a)", "assert f(2) == 2"),
        ("import re\ndef f(s):\n    return re.match('a', s)", "assert f('abc')\nassert not f('b')"),
    ],
)
def test_what_is_no_plain_value_is_right_if_the_assertion_says_so(program: str, source: str) -> None:
    assert graded(program, asserted(source)).passed
    assert not graded(program, asserted(f"{source}\nassert f('b') == 7")).passed
    assert not graded("def f(n):\n    yield 7", asserted(f"{source}\nassert f('b') == 7")).passed


ARRAY = "import numpy as np\ndef f(x):\n    return np.array([x, 'a'])[:1] if isinstance(x, str) else np.arange(x)"


@pytest.mark.parametrize(
    ("check", "passed"),
    [
        ("assert candidate(3) == [0, 1, 2]", False),
        ("assert [0, 1, 2] == candidate(3)", False),
        ("assert candidate('x') == ['x', 'x']", False),
        ("assert list(candidate(3)) == [0, 1, 2]", True),
        ("assert candidate(3).tolist() == [0, 1, 2]", True),
        ("import numpy as np\nassert np.array_equal(candidate(3), [0, 1, 2])", True),
        ("import numpy as np\nassert (candidate(3) == np.array([0, 1, 2])).all()", True),
        ("assert candidate(3)[2] == 2 and candidate(3).sum() == 3", True),
    ],
)
def test_an_array_is_no_list_as_in_python(check: str, passed: bool) -> None:
    assert graded(ARRAY, {"form": "asserts", "entry_point": "f", "source": check}).passed is passed


def test_scalars_of_numpy_are_plain_data_and_arrays_are_not() -> None:
    tests = {"form": "calls", "entry_point": "f", "cases": [{"args": [3], "expected": [0, 1, 2]}]}
    right = graded("import numpy as np\ndef f(n):\n    return [*np.arange(n)]", tests)
    wrong = graded(ARRAY, tests)
    assert (right.passed, wrong.passed) == (True, False)
    assert "returned a ndarray, which is no plain data" in wrong.detail


def test_an_expected_exception_is_a_test() -> None:
    tests = asserted(
        "def check(candidate):\n    try:\n        candidate(-1)\n        assert False\n"
        "    except ValueError:\n        pass\n"
    )
    assert graded("def f(n):\n    raise ValueError", tests).passed
    for wrong in ("return n", "raise KeyError", "raise SystemExit", "import os; os._exit(0)"):
        assert graded(f"def f(n):\n    {wrong}", tests).score == 0.0


def test_a_program_that_empties_what_it_is_compared_with_fails() -> None:
    tests = asserted("def check(candidate):\n    a = [3, 1, 2]\n    assert candidate(a) == sorted(a)")
    assert graded("def f(a):\n    a.sort()\n    return a", tests).passed
    wrong = graded("def f(a):\n    a.clear()\n    return []", tests)
    assert wrong.score == 0.0
    assert "deepcopy" not in wrong.detail


@pytest.mark.parametrize(
    "tests",
    [
        asserted("import no_such_module\nassert f(1) == no_such_module.x"),
        asserted("def check(candidate):\n    import no_such_module\n    assert candidate(1) == no_such_module.x"),
        {
            "form": "pytest",
            "files": {"test_f.py": "import no_such_module\nfrom solution import f\ndef test_f(): assert f(1)"},
        },
        {
            "form": "pytest",
            "files": {"test_f.py": "from solution import f\ndef test_f():\n    import no_such_module\n    assert f(1)"},
        },
        {
            "form": "pytest",
            "files": {
                "conftest.py": "import no_such_module\n",
                "test_f.py": "from solution import f\ndef test_f(): assert f(1)",
            },
        },
    ],
)
def test_what_the_sandbox_lacks_for_the_tests_is_not_the_programs_failure(tests: Any) -> None:
    verdict = graded("def f(n):\n    return n", tests)
    assert (verdict.score, verdict.status) == (None, "error")
    assert "no_such_module, which is not installed" in verdict.detail


def test_a_conftest_that_fails_is_the_programs_failure_only_if_it_has_a_part_in_it() -> None:
    files = {"test_f.py": "from solution import f\ndef test_f(): assert f(1)"}
    tests = {"form": "pytest", "files": {**files, "conftest.py": "1 / 0\n"}}
    verdict = graded("def f(n):\n    return n", tests)
    assert (verdict.score, verdict.status) == (None, "error")
    assert "ZeroDivisionError" in verdict.detail
    tests = {"form": "pytest", "files": {**files, "conftest.py": "from solution import f\nassert f(1) == 1\n"}}
    assert graded("def f(n):\n    return n", tests).passed
    assert graded("def f(n):\n    return 1 / 0", tests).score == 0.0
    assert graded("raise ValueError", tests).score == 0.0


@pytest.mark.parametrize(
    "program",
    [
        "def f(n):\n    raise ModuleNotFoundError(\"No module named 'json'\\ntest_f.py:1: in <module>\")",
        "raise ModuleNotFoundError(\"No module named 'json'\\ntest_f.py:1: in <module>\")",
        "import no_such_module",
    ],
)
def test_a_program_cannot_blame_the_tests(program: str) -> None:
    pytest_tests = {
        "form": "pytest",
        "files": {"test_f.py": "import json\nfrom solution import f\ndef test_f(): assert f(1)"},
    }
    assert graded(program, pytest_tests).score == 0.0
    assert graded(program, asserted("import json\nx = f(1)\nassert x == f(x)")).score == 0.0


def test_objects_of_the_tests_need_the_programs_own_process() -> None:
    tests = asserted("class Node:\n    x = 3\ndef check(candidate):\n    assert candidate(Node()) == 3")
    refused = graded("def f(node):\n    return node.x", tests)
    assert (refused.score, refused.status) == (None, "error")
    assert "objects=True" in refused.detail
    allowed = graded("def f(node):\n    return node.x", tests, objects=True)
    assert allowed.passed
    assert "not to be relied on" in allowed.detail
    assert graded("def f(node):\n    return 4", tests, objects=True).score == 0.0


def test_classes_that_inherit_from_the_programs_need_its_own_process() -> None:
    tests = asserted("class Loud(Animal):\n    def word(self): return 'HA'\nassert Loud().says() == 'HA!'", "Animal")
    program = "class Animal:\n    def word(self): return 'ha'\n    def says(self): return self.word() + '!'"
    refused = graded(program, tests)
    assert (refused.score, refused.status) == (None, "error")
    assert "objects=True" in refused.detail
    assert graded(program, tests, objects=True).passed
    assert graded(program.replace("'!'", "'?'"), tests, objects=True).score == 0.0


def test_the_methods_of_a_class_are_tested_as_functions_are() -> None:
    tests = asserted("stack = Stack()\nstack.push(1)\nassert stack.pop() == 1", "Stack")
    program = "class Stack:\n    def push(self, x): self.top = x\n    def pop(self): return self.top"
    assert graded(program, tests).passed
    assert graded(program.replace("x): self.top = x", "x): self.top = 2"), tests).score == 0.0
    solution = asserted("assert Solution().add(1, 2) == 3", "Solution")
    assert graded("class Solution:\n    def add(self, a, b): return a + b", solution).passed
    assert graded("class Solution:\n    def add(self, a, b): return self", solution).score == 0.0


@pytest.mark.parametrize(
    ("entry_point", "source"),
    [
        ("Vector", "assert Vector(1) == Vector(1)"),
        ("stack", "s = stack()\ns.push(1)\nassert s.top() == 1"),
        ("f", "assert f(Node(1)).value == 1"),
    ],
)
def test_who_tests_a_class_is_told_what_that_needs(entry_point: str, source: str) -> None:
    program = (
        "class Vector:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\n"
        "class stack:\n    def push(self, x): self.x = x\n    def top(self): return self.x\n"
        "class Node:\n    def __init__(self, x): self.value = x\ndef f(node): return Node(node.value)\n"
    )
    refused = graded(program, asserted(source, entry_point))
    assert (refused.score, refused.status) == (None, "error")
    assert "objects=True" in refused.detail
    assert graded(program, asserted(source, entry_point), objects=True).passed


@pytest.mark.parametrize("value", ["s", "3"])
@pytest.mark.parametrize("end", ["", "import os\n        os._exit(0)", "while True: pass"])
def test_a_wrong_program_cannot_make_an_error_of_its_zero(value: str, end: str) -> None:
    tests = asserted("s = Stack()\nassert s.top().lower() == 'a'\nassert s.pop(3) == 4", "Stack")
    program = (
        "class Stack:\n    def top(self): return Any()\n    def pop(self, n):\n        " + (end or f"return {value}")
    ).replace("return s", "return self") + "\nclass Any:\n    def lower(self): return 'a'\n"
    verdict = graded(program, tests, limits={"wall_seconds": 1})
    assert (verdict.score, verdict.passed) == (0.0, False), verdict
    assert verdict.status != "error"


def test_a_batch_has_its_verdicts_in_order() -> None:
    programs = [ADD if n % 3 else "def add(a, b):\n    return 0" for n in range(12)]
    rows = [{"completion": f"```python\n{p}\n```", "tests": [CALLS, ASSERTS][n % 2]} for n, p in enumerate(programs)]
    verdicts = verify_many(Rubric(score("rlvr/code-v1")), rows)
    assert [verdict.passed for verdict in verdicts] == [bool(n % 3) for n in range(12)]


def test_a_stub_gives_imports_and_may_be_gone_on_with() -> None:
    stub = 'from math import isqrt\n\ndef root(n: int) -> int:\n    """The whole root."""\n'
    tests = {"form": "calls", "entry_point": "root", "cases": [{"args": [17], "expected": 4}]}
    for tail in ("So it is.", "def check(candidate):\n    assert candidate("):
        assert verify("rlvr/code-v1", completion=f"    return isqrt(n)\n\n{tail}", tests=tests, stub=stub).passed
    assert graded("def root(n):\n    return isqrt(n)", tests, stub=stub).passed
    assert not graded("def root(n):\n    return isqrt(n)", tests).passed
    future = "from __future__ import annotations\ndef root(n: Unknown):\n    return isqrt(n)"
    assert graded(future, tests, stub=stub).passed
    assert after_stub(stub, future).startswith("from __future__ import annotations\nfrom math")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "some"}, "There is no score 'some'"),
        ({"backend": "dokcer"}, "did you mean 'docker'"),
        ({"limits": {"cpu": 1}}, "There is no sandbox limit 'cpu'"),
        ({"limits": 3}, "limits=3 is no mapping"),
        ({"limits": {"cpu_seconds": -1}}, "cpu_seconds"),
        ({"total_cpu_seconds": 0}, "total_cpu_seconds=0"),
        ({"limits": {"processes": 0.5}}, "processes is 0.5"),
        ({"image": 3}, "image=3"),
        ({"image": "BAD NAME"}, "image is 'BAD NAME', which is no name"),
        ({"runtime": ""}, "runtime=''"),
        ({"objects": 1}, "objects=1"),
        ({"stub": 3}, "stub='3'"),
    ],
)
def test_mistakes_are_named_whatever_the_completion(options: dict[str, Any], message: str) -> None:
    for program in (ADD, ""):
        with pytest.raises(UserError, match=message):
            graded(program, CALLS, **options)
