"""Whether two values are one, where the program's come as copies and stand-ins: `is`, `assertIs` and `assertIsNot`.

The tests' source says `__same__(a, b)` in place of `a is b`, `not __same__(a, b, False)` in place of `a is not b`, and
`__copied__(a)` for an argument that is handed over as a copy, and is that argument still when the program returns it.
"""

from __future__ import annotations

import builtins
import copy
import sys
from typing import Any

from . import stand_ins

_ATOMS = (int, float, complex, str, bytes)
_COPIED = (list, dict, set, tuple, bytearray)
_MODULES = ("collections", "numpy")
# Arguments may be large, and a program gives one back at once, if at all.
_MOST_COPIES = 8


class Identity:
    """What tests take for one thing.

    Args:
        program: told where identity cannot be known beside it.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self.copies: dict = {}

    def copied(self, value: Any) -> Any:
        """A copy to hand over; the value itself where it may be an object of the program's, or a function."""
        if type(value) not in _COPIED and type(value).__module__ not in _MODULES:
            return value
        made = copy.deepcopy(value)
        # Both are kept, so that no other value gets their place in memory.
        self.copies[id(made)] = (made, value)
        if len(self.copies) > _MOST_COPIES:
            del self.copies[next(iter(self.copies))]
        return made

    def same(self, left: Any, right: Any, wanted: bool = True) -> bool:
        """Whether they are one; of numbers and texts, whether they are equal, for they cross as copies.

        Args:
            left: a value.
            right: another, perhaps.
            wanted: whether the tests want them to be one; then it matters where that cannot be known here.
        """
        left, right = self.original(left), self.original(right)
        if stand_ins.is_judged_same(left, right):
            return True
        if stand_ins.asks_for_type(left, right) or stand_ins.asks_for_type(right, left):
            self.program.needs_inside = True
        if type(left) is type(right) and type(left) in _ATOMS:
            return bool(left == right)
        # What is in an argument, or in a value, crosses as a copy, and may have been the very thing; and a member of an
        # IntEnum crosses as the number that it is.
        parts = type(left) is type(right) and type(left) in _COPIED
        if wanted and (parts or stand_ins.is_data(left) or stand_ins.is_data(right)) and left == right:
            self.program.needs_inside = True
        return False

    def original(self, value: Any) -> Any:
        """What a copy was made of; other values themselves."""
        made, original = self.copies.get(id(value), (None, None))
        return original if made is value else value

    def install(self) -> None:
        """Have the tests in this process use it."""
        builtins.__copied__ = self.copied  # type: ignore[attr-defined]
        builtins.__same__ = self.same  # type: ignore[attr-defined]

    def judge_cases(self) -> None:
        """Have it judge the assertions of `unittest` about identity, too."""
        cases: Any = sys.modules["unittest"].TestCase
        same = self.same

        def is_same(case: Any, first: Any, second: Any, msg: Any = None) -> None:
            if not same(first, second):
                case.fail(case._formatMessage(msg, f"{first!r} is not {second!r}"))

        def is_not_same(case: Any, first: Any, second: Any, msg: Any = None) -> None:
            if same(first, second, False):
                case.fail(case._formatMessage(msg, f"unexpectedly identical: {first!r}"))

        cases.assertIs, cases.assertIsNot = is_same, is_not_same
