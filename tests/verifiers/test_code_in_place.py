"""Tests that are declared to be about what a program does to its arguments."""

from __future__ import annotations

import pytest

from rlvr.verifiers import Verdict, verify

# Nothing but running them tells that these are not about a value alone.
IN_PLACE = {
    "def f(a):\n    a.sort()\n    return 1": "a = [5, 3, 7]\np = f(a)\nassert all(x <= a[p] for x in a[:p])",
    "def f(h, x):\n    h.append(x)\n    h.sort()\n    return h[0]": "h = [5, 9]\nm = f(h, 3)\nassert m == min(h)",
    "def f(a):\n    a.reverse()\n    return a": "a = [1, 2]\nr = f(a)\nassert r == a and r",
    "def f(a):\n    a[:] = sorted(set(a))\n    return len(a)": "a = [1, 1, 2]\nk = f(a)\nassert k == len(a)",
}
HINT = '; the arguments were copies: tests of what becomes of them say "in_place": true'


def graded(program: str, tests: dict[str, object]) -> Verdict:
    return verify("rlvr/code-v1", completion=f"```python\n{program}\n```", tests=tests)


@pytest.mark.parametrize("form", ["asserts", "pytest"])
@pytest.mark.parametrize(("program", "source"), IN_PLACE.items())
def test_tests_in_place_are_declared(form: str, program: str, source: str) -> None:
    tests: dict[str, object] = {"form": "asserts", "entry_point": "f", "source": source}
    if form == "pytest":
        body = "".join(f"    {line}\n" for line in source.split("\n"))
        tests = {"form": "pytest", "files": {"test_f.py": f"from solution import f\n\ndef test_f():\n{body}"}}
    of_copies = graded(program, tests)
    assert not of_copies.passed
    assert of_copies.detail.endswith(HINT)
    assert graded(program, {**tests, "in_place": True}).passed


def test_only_tests_with_copies_are_said_to_have_them() -> None:
    tests: dict[str, object] = {"form": "asserts", "entry_point": "f", "source": "a = [2]\nf(a)\nassert a == [3]"}
    verdict = graded("def f(a):\n    return 1", tests)
    assert not verdict.passed
    assert "copies" not in verdict.detail
