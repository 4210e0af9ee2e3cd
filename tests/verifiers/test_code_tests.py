from __future__ import annotations

import json
from typing import Any

import pytest

from rlvr.verifiers import UserError
from rlvr.verifiers.code_copies import COPIED
from rlvr.verifiers.code_forms import AssertTests, CallTests, PytestTests, StdinTests, names_of
from rlvr.verifiers.code_tests import read_tests

CALLS: dict[str, Any] = {"form": "calls", "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}]}
STDIN: dict[str, Any] = {"form": "stdin", "cases": [{"stdin": "1 2\n", "stdout": "3\n", "visible": True}]}


def asserts(source: str, entry_point: str = "f") -> Any:
    return read_tests({"form": "asserts", "entry_point": entry_point, "source": source})[0]


def of_files(*paths: str) -> dict[str, Any]:
    return {"form": "pytest", "files": dict.fromkeys(paths, "import solution\ndef test_a(): pass")}


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def test_calls_and_stdin() -> None:
    calls, stdin = read_tests([{**CALLS, "tolerance": 0.5}, STDIN])
    assert isinstance(calls, CallTests)
    assert isinstance(stdin, StdinTests)
    case = calls.cases[0]
    assert (case.args, case.kwargs, case.expected, case.visible) == ((1, 2), {}, 3, False)
    assert case.comparison.absolute == 0.5
    assert stdin.cases[0].visible
    assert names_of([calls, stdin]) == {"add"}


def test_json_text_and_the_empty_columns_of_a_table_are_read() -> None:
    assert read_tests(json.dumps(CALLS)) == read_tests(CALLS)
    sparse = {**CALLS, "source": None, "cases": [{"args": [1, 2], "kwargs": None, "visible": None, "expected": 3}]}
    assert read_tests(sparse) == read_tests(CALLS)
    assert read_tests({**CALLS, "cases": [{"expected": None}]})[0].cases[0].expected is None


def test_assertions_about_constants_become_calls() -> None:
    form = asserts(
        "METADATA = {'a': 1}\n"
        "def check(candidate):\n"
        "    assert True, 'a message'\n"
        "    assert candidate(3 * 5, x='a' + 'b') == [1, (2, -3)], 'wrong'\n"
        "    assert {1: 2} == f({1, 2})\n"
        "    assert candidate() is None\n"
        "    assert not candidate(1)\n"
        "    assert abs(candidate(2) - 2.0 / 4.0) < 1e-6\n"
        "    assert set(candidate(3)) == set((4, 5))\n"
    )
    assert isinstance(form, CallTests)
    cases = form.cases
    assert [case.expected for case in cases] == [[1, (2, -3)], {1: 2}, None, False, 0.5, {4, 5}]
    assert (cases[0].args, cases[0].kwargs) == ((15,), {"x": "ab"})
    assert not cases[0].is_right([1, [2, -3]])
    assert cases[2].is_right(None)
    assert not cases[2].is_right(False)
    assert cases[3].is_right("")
    assert cases[4].is_right(0.5 + 5e-7)
    assert not cases[4].is_right(0.51)
    assert cases[5].is_right([5, 4, 4])
    assert not cases[5].is_right(7)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (
            "def check(candidate):\n    for n in range(3):\n        assert candidate(n) == n\n"
            "    assert candidate(9) == 9",
            2,
        ),
        ("def check(candidate):\n    x = [1]\n    assert candidate(x) == x", 1),
        ("def check(candidate):\n    assert candidate(1) == other(1)", 1),
        ("def check(candidate):\n    assert candidate(1) == 1\n    if candidate(2):\n        assert candidate(3)", 1),
        ("def check(candidate):\n    assert candidate(10 ** 10 ** 10) == 1", 1),
        ("def check(candidate):\n    assert candidate(1) < 3", 1),
        ("def check(candidate):\n    assert candidate('a' * 10 ** 9) == 3", 1),
    ],
)
def test_other_assertions_stay_and_are_counted(source: str, count: int) -> None:
    form = asserts(source)
    assert isinstance(form, AssertTests)
    assert form.count == count


def test_pytest_files_tell_what_they_import_and_how_many_tests_there_are() -> None:
    source = (
        "import solution as s\nfrom solution import add, sub as minus\n"
        "def test_a(): assert s.mul(1, 2)\nclass TestB:\n    def test_b(self): pass\n    def help(self): pass\n"
    )
    (form,) = read_tests({"form": "pytest", "files": {"test_a.py": source}})
    assert isinstance(form, PytestTests)
    assert form.names == {"add", "sub", "mul"}
    assert (form.count, form.exact) == (2, False)
    (declared,) = read_tests({"form": "pytest", "files": {"test_a.py": source}, "count": 5})
    assert isinstance(declared, PytestTests)
    assert (declared.count, declared.exact) == (5, True)


def test_assertions_beside_a_check_are_not_left_out() -> None:
    form = asserts("def check(candidate):\n    assert candidate(1) == 1\nassert f(2) == 2")
    assert isinstance(form, AssertTests)
    assert form.count == 2


def test_a_file_that_pytest_does_not_collect_adds_no_tests() -> None:
    files = {"test_a.py": "import solution\ndef test_a(): pass", "shared.py": "def test_b(): pass"}
    (form,) = read_tests({"form": "pytest", "files": files})
    assert isinstance(form, PytestTests)
    assert form.count == 1


@pytest.mark.parametrize(
    ("source", "whole"),
    [
        ("def check(f):\n    try:\n        f(-1)\n        assert False\n    except ValueError:\n        pass", True),
        ("def check(f):\n    if f(1) != 2:\n        assert False, 'wrong'", True),
        ("def check(f):\n    if f(1):\n        assert f(1) == 2", False),
        ("def check(f):\n    for n in f(1):\n        assert n", False),
    ],
)
def test_where_the_end_of_a_check_is_the_test(source: str, whole: bool) -> None:
    form = asserts(source)
    assert isinstance(form, AssertTests)
    assert form.whole is whole


def test_integers_that_hash_alike_are_compared_in_one_pass() -> None:
    # A set of these takes half a minute to make.
    alike = [n * (2**61 - 1) for n in range(60_000)]
    (case,) = asserts("assert set(f()) == {0, 1}").cases
    assert not case.is_right(alike)
    assert case.is_right([0, 1, 1])
    assert not case.is_right([0, 0])
    assert not case.is_right([[0], 1])


@pytest.mark.parametrize(
    ("source", "copied"),
    [
        ("a = [2]\nassert f(a) == sorted(a)", True),
        ("a = [2]\nassert 'é' and f(a) == [2] and a == []", False),
        ("a = [2]\nassert f(a) is a", False),
        ("a = [2]\nassert (f(a), a) == (None, [])", False),
        ("a = [2]\nassert f(*a) == sum(a)", True),
        ("a = [2]\nassert f(x for x in a) == sum(a)", False),
        ("a = [2]\nassert f(a) == a[:] and f(1)", True),
        ("a = [2.0]\nassert abs(f(k=a) - sum(a)) < 1e-6", True),
    ],
)
def test_an_argument_that_the_assertion_reads_again_is_copied(source: str, copied: bool) -> None:
    form = asserts(source)
    assert isinstance(form, AssertTests)
    assert (COPIED in form.source) is copied
    assert (
        form.source.replace(COPIED, "").replace("((a))", "(a)").replace("*(a)", "*a").replace("k=(a)", "k=a") == source
    )
    compile(form.source, "tests", "exec")


def test_tests_of_what_becomes_of_arguments_are_left_as_they_are() -> None:
    source = "a = [2]\nassert f(a) == len(a)"
    tests = {"form": "asserts", "entry_point": "f", "source": source}
    # One after the other, for what was read once is remembered.
    (copied,), (own,), (again,) = (read_tests({**tests, "in_place": in_place}) for in_place in (False, True, None))
    assert isinstance(own, AssertTests)
    assert own.source == source
    assert copied == again != own
    file = "from solution import f\ndef test_f():\n    a = [2]\n    assert f(a) == len(a)\n"
    files = {"test_f.py": file, "conftest.py": ""}
    (copied,), (own,) = (read_tests({"form": "pytest", "files": files, "in_place": given}) for given in (None, True))
    assert isinstance(copied, PytestTests)
    assert isinstance(own, PytestTests)
    assert own.files == files
    assert COPIED in copied.files["test_f.py"]
    assert (copied.copied, own.copied) == (True, False)


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        (3, "tests is 3"),
        ([], "empty list"),
        ("{", "no JSON"),
        ({"form": "call"}, "did you mean 'calls'"),
        ({**CALLS, "case": []}, "unknown key 'case'; did you mean 'cases'"),
        ({"form": "calls", "cases": []}, "has no 'entry_point'"),
        ({**CALLS, "cases": []}, "any program would pass"),
        ({**CALLS, "cases": [{"args": [1]}]}, r"tests.cases\[0\] has no 'expected'"),
        ({**CALLS, "cases": [{"args": "ab", "expected": 1}]}, r"cases\[0\].args is 'ab'"),
        ({**CALLS, "cases": [{"kwargs": [1], "expected": 1}]}, r"cases\[0\].kwargs"),
        ({**CALLS, "tolerance": -1}, "The tolerance at"),
        ({**CALLS, "cases": [{"expected": 1, "visible": 1}]}, "give true or false"),
        ({**STDIN, "cases": [{"stdin": "", "stdout": 3}]}, r"cases\[0\].stdout is 3"),
        ({"form": "asserts", "entry_point": "f", "source": "def check("}, "no Python"),
        ({"form": "asserts", "entry_point": "f", "source": "def check(c):\n    pass"}, "no assert statement"),
        ({"form": "pytest", "files": {}}, "mapping from paths"),
        ({"form": "pytest", "files": {"test_a.py": "import solution"}}, "no test function"),
        ({"form": "pytest", "files": {"a.py": "import solution\ndef test_a(): pass"}}, "no file that pytest collects"),
        ({"form": "pytest", "files": {"test_a.py": "def test_a(): pass"}}, "never imports 'solution'"),
        (
            of_files("/etc/test_a.py"),
            "tests.files cannot be laid out: The file path '/etc/test_a.py' has to be relative",
        ),
        (of_files("../test_a.py"), "'../test_a.py' has to be relative and to stay inside"),
        (of_files("test_a.py", "test_a.py/test_b.py"), "'test_a.py' is a file, and a folder in 'test_a.py/test_b.py'"),
        (of_files("a/test_a.py", "./a/test_a.py"), "'a/test_a.py' and './a/test_a.py' are one file"),
        (of_files("a" * 300 + "/test_a.py"), "longer than 255 bytes"),
        ({**CALLS, "cases": [{"args": [nested(70)], "expected": 1}]}, r"cases\[0\] cannot be handed .*too deep"),
        (
            {**CALLS, "cases": [{"kwargs": {"a": object()}, "expected": 1}]},
            r"cases\[0\] cannot be handed .*type object",
        ),
        ({**CALLS, "cases": [{"expected": nested(70)}]}, r"cases\[0\] expects what no .*too deep"),
        ({"form": "asserts", "entry_point": "f", "source": f"assert f({nested(70)}) == 1"}, "too deep"),
        ({"form": "pytest", "files": {"test_a.py": "def test_a(): pass"}, "module": "a b"}, "'a b', which is no name"),
        ({"form": "asserts", "entry_point": "f", "source": "assert True"}, "never calls 'f'"),
        (
            {"form": "asserts", "entry_point": "f", "source": "assert f(1)", "in_place": 1},
            "^tests.in_place is 1; give true or false.$",
        ),
        (
            {"form": "pytest", "files": {"test_a.py": "from solution import f\ndef test_a(): f()"}, "in_place": "yes"},
            "^tests.in_place is 'yes'; give true or false.$",
        ),
        ({**CALLS, "in_place": True}, "unknown key 'in_place'"),
        ({"form": "asserts", "entry_point": "f", "source": "def check(c):\n    assert 1 == 1"}, "never calls 'f'"),
        ({**CALLS, "entry_point": "f g"}, "'f g', which is no name"),
        ({**CALLS, "entry_point": "A.if"}, "'A.if', which is no name"),
        ({**CALLS, "cases": [{"expected": [float("nan")]}]}, r"cases\[0\].expected has nan"),
        ({**CALLS, "cases": [{"expected": {"a": object()}}]}, "a object; give plain data"),
        ([CALLS, {"form": "pytest", "files": {"a.py": 1}}], r"tests\[1\].files"),
    ],
)
def test_mistakes_are_named(tests: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_tests(tests)
