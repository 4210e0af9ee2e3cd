"""Tests that run beside a program: how they are found, counted and reported."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlvr.sandbox import Box, Program, TestProgram, TestReport, protocol

Report = Callable[[str, TestProgram], TestReport]

CHECK = """
def check(candidate):
    assert candidate(1, 2) == 3
    assert candidate(-5, 5) == 0, "zero"
    for n in range(20):
        assert candidate(n, n) == 2 * n
"""
PYTEST = """
import pytest
from solution import add

@pytest.mark.parametrize("n", range(3))
def test_sum(n):
    assert add(n, 1) == n + 1

def test_mixed():
    with pytest.raises(TypeError):
        add(1, "a")
"""
RIGHT = "def add(a, b):\n    return a + b\n"


def asserts(source: str = CHECK, entry_point: str = "add") -> TestProgram:
    return TestProgram("asserts", source=source, entry_point=entry_point)


def pytests(source: str = PYTEST) -> TestProgram:
    return TestProgram("pytest", files={"test_add.py": source})


NAMES = """
# HIDDEN in a comment
def check(candidate):
    x = [candidate(n, 1) for n in range(2)]
    try:
        if (total := sum(x)) != SUM:
            assert False
        match total:
            case 3:
                assert OTHER.startswith("HIDDEN"), OTHER
    finally:
        for y in x:
            with open("/dev/null"):
                assert y in (1, 2)
"""


def test_asserts_are_counted_wherever_they_stand_and_names_are_the_programs(report: Report) -> None:
    tests = report(RIGHT + "SUM = 3\nOTHER = 'hidden'\nrange = None\n", asserts(NAMES))
    assert (tests.tests_run, tests.passed_names) == (2, ("assert 3 (line 14)",))
    assert tests.message == "OTHER.startswith('HIDDEN'): hidden"


def test_a_right_solution_passes(report: Report) -> None:
    tests = report(RIGHT, asserts())
    assert (tests.tests_run, tests.tests_passed, tests.completed, tests.trusted) == (3, 3, True, True)
    assert tests.all_passed
    assert tests.passed_names == ("assert 1 (line 3)", "assert 2 (line 4)", "assert 3 (line 6)")


def test_a_wrong_one_fails_and_says_where(report: Report) -> None:
    tests = report("def add(a, b): return a + b + (b == 5)", asserts())
    assert (tests.tests_run, tests.tests_passed, tests.completed) == (3, 1, True)
    assert tests.first_failure == "assert 2 (line 4)"
    assert tests.message == "candidate(-5, 5) == 0: 1 against 0; zero"


def test_assert_statements_without_check(report: Report) -> None:
    tests = report(RIGHT + "SIZE = 4", asserts("assert add(1, 2) == 3\nassert add(SIZE, 2) == 7", ""))
    assert (tests.tests_run, tests.tests_passed, tests.first_failure) == (2, 1, "assert 2 (line 2)")


def test_code_of_another_python_is_not_run(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_prepared", lambda source: [b"other", b"no code", ["x"], ["x"]])
    tests = report(RIGHT, asserts())
    assert (tests.tests_run, tests.all_passed, tests.trusted) == (3, True, True)


def test_tests_that_are_no_python_are_no_success(report: Report) -> None:
    tests = report(RIGHT, asserts("assert add(1, 2) == ("))
    assert not tests.completed
    assert "SyntaxError" in tests.message


def test_pytest(report: Report) -> None:
    tests = report(RIGHT, pytests())
    if "not installed" in tests.message:
        pytest.skip("no pytest in this image")
    assert (tests.tests_run, tests.tests_passed, tests.completed, tests.trusted) == (4, 4, True, True)


def test_skipped_and_expected_failures_are_not_passed(report: Report) -> None:
    source = (
        "import pytest\nfrom solution import *\ndef test_a(): assert add(1, 1) == 2\n@pytest.mark.skip\ndef test_b(): pass\n"
        "@pytest.mark.xfail\ndef test_c(): assert add(1, 1) == 3\n@pytest.mark.xfail\ndef test_d(): assert add(1, 1) == 2\n"
    )
    tests = report(RIGHT, pytests(source))
    if "not installed" in tests.message:
        pytest.skip("no pytest in this image")
    assert (tests.tests_run, tests.tests_passed, tests.completed) == (4, 1, True)


@pytest.mark.parametrize("source", ["def test_a(: pass", "import absent", "x = 1"])
def test_tests_that_cannot_run_are_no_success(report: Report, source: str) -> None:
    assert not report(RIGHT, pytests(source)).completed


def test_an_endless_call_fails_in_time(box: Box) -> None:
    result = box.run(
        Program("def add(a, b):\n    while True: pass", test=asserts()), box.limits.with_changes(wall_seconds=1.0)
    )
    assert result.status == "wall_limit"
    assert result.tests is not None
    assert not result.tests.all_passed
    assert result.wall_seconds < 2.5


def test_output_of_the_program_is_kept(box: Box) -> None:
    result = box.run(
        Program("def add(a, b):\n    print('adding')\n    return a + b", test=asserts("assert add(1, 2) == 3"))
    )
    assert result.stdout == b"adding\n"
