"""Tests that are assert statements: each a test of its own, and a failed one does not stop the others."""

from __future__ import annotations

import ast
import builtins
import operator
import sys
import types
from typing import Any

from . import frames, harness, opposite

_LENGTH = 500
_OPERATORS = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def run(job: dict, channel: harness.Channel) -> None:
    """Run the tests against the program's process; ends the process."""
    try:
        conduct(job, channel, opposite.Opposite())
    finally:
        harness.leave(0)


def conduct(job: dict, channel: harness.Channel, program: Any) -> None:
    """Run the tests and report them."""
    record = _Record(channel)
    completed = False
    try:
        sys.modules[job["module"]] = program.as_module(job["module"])
        _execute(job, record, program)
        completed = True
    except BaseException as error:
        record.report(_where(error), False, described(error))
    if completed and not record.seen:
        record.report("check", True, "")
    for name in record.seen:
        record.report(name, name not in record.failed, record.failed.get(name, ""))
    channel.send(frames.END, [completed, program.trusted, program.needs_inside])


def _execute(job: dict, record: _Record, program: Any) -> None:
    tree = ast.parse(job["source"], "tests.py")
    space: dict = {"__name__": "tests", "__builtins__": builtins, "__tests__": record}
    defined = {name for node in tree.body for name in _defined(node)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for name in sorted(used - defined):
        if not hasattr(builtins, name) or name == job["entry_point"]:
            try:
                space[name] = program.get(name)
            except AttributeError:
                pass
    if job["entry_point"]:
        space["candidate"] = program.get(job["entry_point"])
    tree = ast.fix_missing_locations(_Counted(tree).visit(tree))
    exec(compile(tree, "tests.py", "exec", dont_inherit=True), space)
    check = space.get("check")
    if isinstance(check, types.FunctionType):
        check(space["candidate"])


def _defined(node: ast.stmt) -> list:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    return [
        target.id for target in ast.walk(node) if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    ]


class _Record:
    """What became of each assert statement."""

    def __init__(self, channel: harness.Channel) -> None:
        self.channel = channel
        self.seen: dict = {}
        self.failed: dict = {}
        self.compared: str = ""

    def begin(self, name: str) -> None:
        self.seen[name] = True
        self.compared = ""

    def compare(self, operation: str, left: Any, right: Any) -> Any:
        value = _BY_NAME[operation](left, right)
        self.compared = ""
        if value is not True:
            self.compared = f"{shown(left)} against {shown(right)}"
        return value

    def fail(self, name: str, text: str, message: Any = "") -> None:
        said = "; ".join(part for part in (self.compared, f"{message}"[:_LENGTH]) if part)
        self._failed(name, f"{text}: {said}" if said else text)

    def error(self, name: str, text: str, error: BaseException) -> None:
        self._failed(name, f"{text}: {described(error)}")

    def _failed(self, name: str, message: str) -> None:
        if name not in self.failed:
            self.failed[name] = message
            # At once, for the limits may end this process before the tests are through.
            self.report(name, False, message)

    def report(self, name: str, passed: bool, message: str) -> None:
        self.channel.send(frames.TEST, [name, passed, message])


_BY_NAME = {kind.__name__: function for kind, function in _OPERATORS.items()}


class _Counted(ast.NodeTransformer):
    """Turns each assert statement into one that is counted."""

    def __init__(self, tree: ast.AST) -> None:
        self.count = 0

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.count += 1
        name = ast.Constant(f"assert {self.count} (line {node.lineno})")
        text = ast.Constant(ast.unparse(node.test)[:_LENGTH])
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPERATORS:
            kind = ast.Constant(type(test.ops[0]).__name__)
            test = _record("compare", kind, test.left, test.comparators[0])
        failed = ast.Expr(_record("fail", name, text, *([node.msg] if node.msg else [])))
        handler = ast.ExceptHandler(
            type=ast.Name("Exception", ast.Load()),
            name="__error__",
            body=[ast.Expr(_record("error", name, text, ast.Name("__error__", ast.Load())))],
        )
        checked = ast.If(test=test, body=[ast.Pass()], orelse=[failed])
        attempt = ast.Try(body=[ast.Expr(_record("begin", name)), checked], handlers=[handler], orelse=[], finalbody=[])
        return ast.copy_location(attempt, node)


def _record(method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name("__tests__", ast.Load()), method, ast.Load()), list(args), [])


def described(error: BaseException) -> str:
    """An exception's type and the start of its text."""
    text = harness.message_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: Any) -> str:
    """The start of a value's text; the program's objects are not asked."""
    if isinstance(value, opposite.StandIn):
        return f"a value of the program's of type {object.__getattribute__(value, '_name')}"
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= 200 else text[:200] + "..."


def _where(error: BaseException) -> str:
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "tests.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"the tests (line {line})" if line else "the tests"
