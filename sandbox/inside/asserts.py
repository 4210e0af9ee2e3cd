"""Tests that are assert statements: each a test of its own, and a failed one does not stop the others."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import marshal
import operator
import re
import sys
import types
from typing import Any

from . import frames, harness, identity, imports, opposite, stand_ins

_LENGTH = 500
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_OPERATORS: dict = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def run(job: dict, channel: harness.Channel) -> None:
    """Run the tests against the program's process; ends the process."""
    try:
        conduct(job, channel, opposite.Opposite([job["source"]]))
    finally:
        harness.leave(0)


def conduct(job: dict, channel: harness.Channel, program: Any) -> None:
    """Run the tests and report them."""
    identity.Identity(program).install()
    record = _Record(channel, job["source"], program)
    completed = False
    try:
        sys.modules[job["module"]] = program.as_module(job["module"])
        _execute(job, record, program)
        completed = True
    except BaseException as error:
        # Where the program has ended before, what it lacked may be missing here too.
        gone = imports.missing_import(job["source"], job["module"])
        if gone is None:
            record.report(_where(error), False, described(error))
        else:
            record.report(f"the tests (line {gone[0]})", False, f"ModuleNotFoundError: No module named {gone[1]!r}")
    if completed and not record.seen:
        record.report("check", True, "")
    for name in record.seen:
        record.report(name, name not in record.failed, record.failed.get(name, ""))
    program.look_again()
    channel.send(frames.END, [completed, program.trusted, program.needs_inside])


def prepared(source: str) -> list:
    """The tests as code for this version of Python, whose mark comes first; the names of their assertions, and the
    names that they read and do not make.

    Raises:
        SyntaxError: they are no Python.
    """
    tree = ast.parse(source, "tests.py")
    defined = {name for node in tree.body for name in _defined(node, source)}
    counted = _Counted()
    counted.rewrite(tree)
    code = compile(tree, "tests.py", "exec", dont_inherit=True)
    wanted = sorted(_read(code, source) - defined)
    return [importlib.util.MAGIC_NUMBER, marshal.dumps(code), counted.names, wanted]


def _execute(job: dict, record: _Record, program: Any) -> None:
    ready = job["prepared"]
    if ready is None or ready[0] != importlib.util.MAGIC_NUMBER:
        # Another Python's, or what it refused.
        ready = prepared(job["source"])
    _, code, record.names, wanted = ready
    space: dict = {"__name__": "__main__", "__builtins__": builtins, "__tests__": record}
    if job["given"]:
        exec(compile(job["given"], "given.py", "exec", dont_inherit=True), space)
    for name in wanted:
        if (not hasattr(builtins, name) or name == job["entry_point"]) and name not in space:
            own = imports.forgotten_import(name, job["source"]) if name != job["entry_point"] else None
            try:
                space[name] = program.get(name) if own is None else own
            except AttributeError:
                pass
    if job["entry_point"]:
        space["candidate"] = program.get(job["entry_point"])
    exec(marshal.loads(code), space)
    check = space.get("check")
    if isinstance(check, types.FunctionType):
        check(*[space["candidate"]][: check.__code__.co_argcount])


def _defined(node: ast.stmt, source: str) -> list:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, (ast.Assert, ast.Expr)) and ":=" not in source:
        return []
    return [
        target.id for target in ast.walk(node) if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    ]


def _read(code: types.CodeType, source: str) -> set:
    """The names that the code reads and does not make in a function, and perhaps some that stand in a text."""
    names: set = set()
    waiting = [code]
    while waiting:
        here = waiting.pop()
        names.update(here.co_names)
        waiting += [constant for constant in here.co_consts if isinstance(constant, types.CodeType)]
    # Those of attributes are among them.
    return names.intersection(_NAME.findall(source))


class _Record:
    """What became of each assert statement."""

    def __init__(self, channel: harness.Channel, source: str, program: Any) -> None:
        self.channel = channel
        self.source = source
        self.program = program
        self.seen: dict = {}
        self.failed: dict = {}
        self.compared: str = ""
        self.names: list = []

    def begin(self, number: int) -> None:
        self.seen[self.names[number]] = True
        self.compared = ""

    def compare(self, operation: str, left: Any, right: Any) -> Any:
        value = _BY_NAME[operation](left, right)
        self.compared = ""
        if value is not True:
            if stand_ins.asks_for_type(left, right) or stand_ins.asks_for_type(right, left):
                self.program.needs_inside = True
            self.compared = f"{shown(left)} against {shown(right)}"
        return value

    def fail(self, number: int, message: Any = "") -> None:
        text = self.text(number)
        said = "; ".join(part for part in (self.compared, f"{message}"[:_LENGTH]) if part)
        self._failed(self.names[number], f"{text}: {said}" if said else text)

    def error(self, number: int, error: BaseException) -> None:
        self._failed(self.names[number], f"{self.text(number)}: {described(error)}")

    def text(self, number: int) -> str:
        counted = _Counted()
        counted.rewrite(ast.parse(self.source, "tests.py"))
        return ast.unparse(counted.tests[number])[:_LENGTH]

    def _failed(self, name: str, message: str) -> None:
        if name not in self.failed:
            self.failed[name] = message
            # At once, for the limits may end this process before the tests are through.
            self.report(name, False, message)

    def report(self, name: str, passed: bool, message: str) -> None:
        self.channel.send(frames.TEST, [name, passed, message])


_BY_NAME = {kind.__name__: function for kind, function in _OPERATORS.items()}


class _Counted:
    """Turns each assert statement of a module into one that is counted, in place."""

    def __init__(self) -> None:
        self.names: list = []
        self.tests: list = []

    def rewrite(self, node: ast.AST) -> None:
        """In the statements below a node, in their order; expressions hold none."""
        for field in node._fields:
            if field in _BLOCKS:
                block = getattr(node, field)
                if isinstance(block, list):
                    for at, statement in enumerate(block):
                        if isinstance(statement, ast.Assert):
                            block[at] = self.counted(statement)
                        else:
                            self.rewrite(statement)

    def counted(self, node: ast.Assert) -> ast.Try:
        number = len(self.names)
        self.names.append(f"assert {number + 1} (line {node.lineno})")
        self.tests.append(node.test)
        place: Any = {name: getattr(node, name) for name in node._attributes}

        def tell(method: str, *args: ast.expr) -> ast.Call:
            record = ast.Name("__tests__", ast.Load(), **place)
            return ast.Call(ast.Attribute(record, method, ast.Load(), **place), list(args), [], **place)

        which = ast.Constant(number, **place)
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPERATORS:
            kind = ast.Constant(type(test.ops[0]).__name__, **place)
            test = tell("compare", kind, test.left, test.comparators[0])
        failed = ast.Expr(tell("fail", which, *([node.msg] if node.msg else [])), **place)
        handler = ast.ExceptHandler(
            type=ast.Name("Exception", ast.Load(), **place),
            name="__error__",
            body=[ast.Expr(tell("error", which, ast.Name("__error__", ast.Load(), **place)), **place)],
            **place,
        )
        checked = ast.If(test=test, body=[ast.Pass(**place)], orelse=[failed], **place)
        begun = ast.Expr(tell("begin", which), **place)
        return ast.Try(body=[begun, checked], handlers=[handler], orelse=[], finalbody=[], **place)


def described(error: BaseException) -> str:
    """An exception's type and the start of its text."""
    text = harness.message_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: Any) -> str:
    """The start of a value's text; the program's objects are not asked."""
    if isinstance(value, stand_ins.StandIn):
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
