"""What a program can do to be paid without solving, and whose word counts."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlvr.sandbox import TestProgram, TestReport

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


def asserts(source: str = CHECK, entry_point: str = "add") -> TestProgram:
    return TestProgram("asserts", source=source, entry_point=entry_point)


def pytests(source: str = PYTEST) -> TestProgram:
    return TestProgram("pytest", files={"test_add.py": source})


ATTACKS = {
    "sys.exit": "import sys\nsys.exit(0)",
    "os._exit": "import os\nos._exit(0)",
    "os._exit in the call": "import os\ndef add(a, b): os._exit(0)",
    "SystemExit in the call": "def add(a, b): raise SystemExit(0)",
    "kill itself": "import os\ndef add(a, b): os.kill(os.getpid(), 9)",
    "kill everything": "import os\ndef add(a, b):\n    for p in range(1, 100):\n        try: os.kill(p, 9)\n        except OSError: pass",
    "lying object": "class Any:\n    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n"
    "    __hash__ = None\ndef add(a, b): return Any()",
    "lying int": "class Any(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef add(a, b): return Any(77)",
    "lying operators": "class Any:\n    __sub__ = __rsub__ = __add__ = lambda s, o: 0\n    __abs__ = lambda s: 0\n"
    "    __eq__ = lambda s, o: True\ndef add(a, b): return Any()",
    "exception that is an assertion": "def add(a, b): raise AssertionError",
    "stop iteration": "def add(a, b): raise StopIteration",
    "patched builtins": "import builtins\nbuiltins.len = builtins.abs = builtins.all = builtins.isinstance = lambda *a: True\n"
    "builtins.print = builtins.__import__ = lambda *a, **k: None\ndef add(a, b): return None",
    "patched pytest": "import sys, types\nfor n in ('pytest', '_pytest', 'unittest'): sys.modules[n] = types.ModuleType(n)\n"
    "open('conftest.py', 'w').write('def pytest_runtest_makereport(item, call): call.excinfo = None')\ndef add(a, b): return None",
    "forged answers": "import os\ndef add(a, b):\n    for d in range(3, 10):\n        try: os.write(d, b'T\\0\\0\\0\\x10[\"t\", true, \"\"]  ' + b'Z\\0\\0\\0\\x13[true, true, false]')\n"
    "        except OSError: pass\n    os._exit(0)",
    "nonsense answers": "import os\ndef add(a, b):\n    os.write(5, b'x' * 1000)\n    os._exit(0)",
    "deep answers": "import os\ndef add(a, b):\n    os.write(5, b'C\\0\\0\\x40\\0' + b'[' * 0x4000)\n    os._exit(0)",
    "reads the tests": "import glob, os\ndef add(a, b):\n    for d in ('/tmp', '.', '/proc/1/root/tmp'):\n        for r, _, n in os.walk(d):\n"
    "            for f in n:\n                if 'test' in f: return b\n    return None",
    "frames and gc": "import sys, gc, re\ndef add(a, b):\n    f = sys._getframe()\n    while f:\n        if any(re.search('candidate[(]1', str(v)) for v in f.f_locals.values()): return a + b\n"
    "        f = f.f_back\n    for o in gc.get_objects():\n        if isinstance(o, dict) and callable(o.get('check')): return a + b",
    "memory": "import re\ndef add(a, b):\n    m = open('/proc/self/mem', 'rb')\n    for l in open('/proc/self/maps'):\n        x, y = (int(v, 16) for v in l.split()[0].split('-'))\n"
    "        try:\n            m.seek(x)\n            if re.search(b'candidate[(]1, 2[)] ==|def test_[m]ixed', m.read(y - x)): return a + b\n        except (OSError, ValueError, OverflowError): pass",
    "prints success": "print('1 passed'); print('OK')\ndef add(a, b): print('PASSED')",
    "a class": "class add:\n    def __init__(self, a, b): pass\n    def __eq__(self, o): return True",
    "generator": "def add(a, b):\n    yield a + b",
    "equal to everything by contains": "class Any:\n    __contains__ = __eq__ = lambda s, o: True\ndef add(a, b): return Any()",
    "threads": "import threading, os, time\ndef t():\n    time.sleep(0.01)\n    os._exit(0)\nthreading.Thread(target=t).start()\ndef add(a, b): return None",
    "fork and leave": "import os\nif os.fork(): os._exit(0)\ndef add(a, b): return None",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\nraise ValueError",
    "callable": "def add(a, b): return lambda *x: True",
}


@pytest.mark.parametrize("test", [asserts(), pytests()], ids=["asserts", "pytest"])
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_is_paid(report: Report, name: str, test: TestProgram) -> None:
    tests = report(ATTACKS[name], test)
    assert not tests.all_passed, tests
    assert tests.tests_passed == 0 or (test.form == "pytest" and tests.passed_names == ("test_add.py::test_mixed",)), (
        tests
    )


def test_the_expected_value_is_not_handed_to_an_operator_unmarked(report: Report) -> None:
    source = (
        "class Any:\n    def __init__(s): s.v = 0\n    __rsub__ = __sub__ = lambda s, o: 0\ndef add(a, b): return Any()"
    )
    tests = report(source, asserts("def check(c):\n    assert abs(c(1, 2) - 3) < 1e-6"))
    assert not tests.trusted


def test_a_call_cannot_end_a_loop_of_the_tests(report: Report) -> None:
    check = "def check(c):\n    assert all(map(lambda n: c(n, n) == 2 * n, range(5)))"
    tests = report("def add(a, b): raise StopIteration", asserts(check))
    assert not tests.all_passed


DECIDES = {
    "method": ("class X:\n    __getattr__ = lambda s, n: (lambda *a, **k: True)", "assert out.startswith('Hello')"),
    "method that gives back": ("class X:\n    __getattr__ = lambda s, n: (lambda *a: a[0])", "assert out.get(3) == 3"),
    "method after the call": ("class X:\n    def ok(s, *a): return True", "ok = out.ok\nassert ok(3)"),
    "attribute": ("class X:\n    __getattr__ = lambda s, n: True", "assert out.ready"),
    "item": ("class X:\n    __getitem__ = lambda s, i: i", "assert out[3] == 3"),
    "call": ("class X:\n    __call__ = lambda s, *a: True", "assert out(3)"),
    "truth": ("class X:\n    __bool__ = lambda s: True", "assert out"),
    "exception with a method": (
        "class X(ValueError):\n    def startswith(self, text): return True",
        "assert out.startswith('Hello')",
    ),
    "length": ("class X:\n    __len__ = lambda s: 3", "assert len(out) == 3"),
    "iteration": ("class X:\n    __iter__ = lambda s: iter([3])", "assert list(out) == [3]"),
    "next": ("class X:\n    __next__ = lambda s: 3", "assert next(out) == 3"),
    "float": ("class X:\n    __float__ = lambda s: 3.0", "assert float(out) == 3"),
    "int": ("class X:\n    __int__ = lambda s: 3", "assert int(out) == 3"),
    "str": ("class X:\n    __str__ = lambda s: '3'", "assert str(out) == '3'"),
    "hash": ("class X:\n    __hash__ = lambda s: 3", "assert hash(out) == 3"),
    "contains": ("class X:\n    __contains__ = lambda s, x: True", "assert 3 in out"),
    "function with attributes": (
        "def X():\n    g = lambda: 0\n    g.startswith = lambda *a: True\n    return g",
        "assert out.startswith('Hello')",
    ),
    "class with attributes": (
        "class M(type): __getattr__ = lambda c, n: (lambda *a: True)\nclass Y(metaclass=M): pass\ndef X(): return Y",
        "assert out.startswith('Hello')",
    ),
    "module": (
        "import types\ndef X():\n    m = types.ModuleType('m')\n    m.startswith = lambda *a: True\n    return m",
        "assert out.startswith('Hello')",
    ),
    "method of what a method gave": (
        "class Greeter:\n    def greet(self): return self\n    def startswith(self, text): return True\nclass X: pass",
        "assert Greeter().greet().startswith('Hello')",
    ),
    "method of what a method gave, which the tests set": (
        "class Greeter:\n    def greet(self): return self.friend\n    def startswith(self, text): return True\nclass X: pass",
        "g = Greeter()\ng.friend = Greeter()\nassert g.greet().startswith('Hello')",
    ),
    "attribute that is not what the tests set": (
        "class Node:\n    __setattr__ = lambda s, n, v: None\n    __getattr__ = lambda s, n: Lie()\n"
        "class Lie:\n    startswith = lambda s, t: True\nclass X: pass",
        "n = Node()\nn.next = Node()\nassert n.next.startswith('Hello')",
    ),
    "what a name means": (
        "class Meta(type): __getattr__ = lambda c, n: out\nclass Level(metaclass=Meta): pass\n"
        "class X:\n    def __init__(self):\n        global out\n        out = self",
        "assert out is Level.INFO",
    ),
    "comparison of an object that the tests made": (
        "class Made:\n    __eq__ = lambda s, o: True\nclass X: pass",
        "assert Made() == Made()",
    ),
    "operator of an object that the tests made": (
        "class Made:\n    __sub__ = lambda s, o: 0\nclass X: pass",
        "assert Made() - 3 == 0",
    ),
    "class that is a list and lies": (
        "class Row(list):\n    __lt__ = lambda s, o: True\nclass X: pass",
        "assert Row([9]) < [1]",
    ),
    "operator that raises": (
        "class X:\n    def __sub__(s, o): raise ValueError(o)",
        "try:\n    out - 3\nexcept ValueError as e:\n    assert e.args[0] == 3",
    ),
    "comparison that raises": (
        "class X:\n    def __lt__(s, o): raise ValueError(o)",
        "try:\n    out < 3\nexcept ValueError as e:\n    assert e.args[0] == 3",
    ),
    "reflected operator that raises": (
        "class X:\n    def __rsub__(s, o): raise ValueError(o)",
        "try:\n    3 - out\nexcept ValueError as e:\n    assert e.args[0] == 3",
    ),
}


@pytest.mark.parametrize("name", DECIDES)
def test_what_the_programs_objects_decide_is_not_trusted(report: Report, name: str) -> None:
    source, check = DECIDES[name]
    tests = report(source + "\ndef f(*a): return X()", asserts("out = f('bob')\n" + check, "f"))
    assert not tests.trusted, tests


def test_no_object_of_a_class_that_is_a_built_in_one_equals_what_it_is_not(report: Report) -> None:
    source = "class Row(list):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __class__ = int\n"
    tests = report(
        source, asserts("r = Row([1])\nassert r == [2]\nassert [2] == r\nassert not r != [2]\nassert r == 1", "")
    )
    assert (tests.tests_run, tests.tests_passed) == (4, 0), tests


@pytest.mark.parametrize("answer", ["['a', 5]", "['a', -9]", "['a', 'x']", "['a']", "['a', 0, 1]", "['a', None]"])
def test_an_argument_that_was_never_given_is_no_answer(report: Report, answer: str) -> None:
    source = (
        "import json, os, struct\ndef f(a):\n"
        f"    content = json.dumps(['returned', {answer}, ['l', ['l', 1]], ['d']]).encode()\n"
        "    os.write(5, struct.pack('!cI', b'C', len(content)) + content)\n    os._exit(0)"
    )
    tests = report(source, asserts("assert f([1]) == [2]", "f"))
    assert not tests.all_passed


ORDINARY = {
    "coroutine": (
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    if n < 0: raise ValueError('below')\n    return [n]",
        "import asyncio\nassert asyncio.run(f(3)) == [3]\nasync def main():\n    assert await f(1) == [1]\n"
        "    assert await asyncio.gather(f(1), f(2)) == [[1], [2]]\n    try:\n        await f(-1)\n        assert False\n"
        "    except ValueError as e:\n        assert str(e) == 'below'\nasyncio.run(main())",
    ),
    "generator": (
        "def f(n):\n    yield from range(n)",
        "assert list(f(3)) == [0, 1, 2]\nassert sum(f(4)) == 6\nassert next(f(1)) == 0",
    ),
    "iterators": (
        "def f(n): return map(int, '321')",
        "assert sorted(f(3)) == [1, 2, 3]\nassert [*zip(f(3), 'abc')][2] == (1, 'c')",
    ),
    "views": ("def f(n): return {1: 2, 3: 4}.keys()", "assert set(f(3)) == {1, 3}\nassert len(f(3)) == 2"),
    "match": ("import re\ndef f(s): return re.match('a', s)", "assert f('abc')\nassert not f('b')"),
    "closure": ("def f(n): return lambda x: x + n", "g = f(2)\nassert g(3) == 5\nassert callable(g)"),
    "partial and cache": (
        "import functools\n@functools.lru_cache\ndef f(n): return functools.partial(pow, n)",
        "assert f(2)(3) == 8",
    ),
    "static method": ("class f:\n    @staticmethod\n    def g(n): return n + 1", "assert f.g(3) == 4"),
    "constant": ("class C:\n    SIZE = 4\ndef f(n): return n", "assert f(C.SIZE) == 4"),
    "type": ("def f(n): return int", "assert f(3) is int"),
    "decorator": (
        "import functools\ndef f(g):\n    @functools.wraps(g)\n    def w(*a): return g(*a) + 1\n    return w",
        "def g(x): return x\nassert f(g)(1) == 2\nassert f(g).__name__ == 'g'",
    ),
    "callback's exception": (
        "def f(g):\n    try: return g()\n    except ValueError as e: return 'caught', e.args[0]",
        "def g(): raise ValueError('x')\nassert f(g) == ('caught', 'x')",
    ),
    "callback's own exception": (
        "class Odd(KeyError): pass\ndef f(g):\n    try: return g()\n    except Odd as e: return e.args[0]",
        "def g(): raise Odd(7)\nassert f(g) == 7",
    ),
    "generator that is one": (
        "def f(n):\n    try:\n        got = yield n\n        while got:\n            try: got = yield got + 1\n"
        "            except KeyError as e: got = yield e.args[0]\n        return 'end'\n    finally: ended.append(n)\n"
        "ended = []\ndef closed(): return ended\ndef total(g): return sum(g)\ndef count(n): yield from range(n)",
        "import inspect, types\ng = f(3)\nassert inspect.isgenerator(g) and isinstance(g, types.GeneratorType) and iter(g) is g\n"
        "assert next(g) == 3 and g.send(5) == 6\nassert g.throw(KeyError('x')) == 'x'\ntry:\n    g.send(0)\n    assert False\n"
        "except StopIteration as e:\n    assert e.value == 'end'\nh = f(1)\nnext(h)\nh.close()\nassert closed() == [3, 1]\n"
        "assert total(count(4)) == 6 and [*count(2)] == [0, 1] and not inspect.isgenerator(closed())",
    ),
    "exceptions as values": (
        "class Bad(ValueError):\n    def __init__(self, code):\n        super().__init__(f'bad {code}')\n        self.code = code\n"
        "def f(n): return None, Bad(n)\ndef tell(hook): hook(KeyError('k'))\ndef code(e): return getattr(e, 'code', e.args)\n"
        "def same(a, b): return a is b",
        "value, e = f(3)\nassert value is None and isinstance(e, Bad) and isinstance(e, ValueError) and type(e) is Bad\n"
        "assert e.code == 3 and e.args == ('bad 3',) and code(e) == 3 and same(e, e) and code(IndexError(4)) == (4,)\n"
        "seen = []\ntell(seen.append)\nassert isinstance(seen[0], KeyError) and seen[0].args == ('k',)\n"
        "try:\n    raise f(1)[1]\nexcept Bad as error:\n    assert str(error) == 'bad 1'",
    ),
    "exceptions of the tests": (
        "def relay(f): return f()\ndef caught(f):\n    try: return f()\n    except Exception as e: return e\n"
        "def told(f, hook):\n    try: f()\n    except Exception as e: hook((type(e), e))",
        "class Own(Exception): pass\ne, seen = Own('x'), []\ndef f(): raise e\ntry:\n    relay(f)\n    assert False\n"
        "except Own as error:\n    assert error is e\nassert caught(f) is e\ntold(f, seen.append)\nassert seen == [(Own, e)]\n"
        "assert relay(lambda: e) is e",
    ),
    "callbacks that are kept and known again": (
        "class Bell:\n    def __init__(self): self.hooks = []\n    def add(self, hook): self.hooks.append(hook)\n"
        "    def remove(self, hook): self.hooks.remove(hook)\n    def ring(self):\n        for hook in {*self.hooks}: hook()\n"
        "def first(hooks): return [*hooks][0]",
        "import functools\nlog = []\nclass Log:\n    def clear(self): log.clear()\nhook, mine = functools.partial(log.append, 1), Log()\n"
        "bell = Bell()\nbell.add(hook)\nbell.add(hook)\nbell.add(mine.clear)\nbell.add(log.clear)\nbell.remove(mine.clear)\n"
        "bell.remove(log.clear)\nbell.ring()\nassert log == [1]\nassert bell.hooks == [hook, hook] and first({hook}) is hook",
    ),
    "callback's name": ("def f(g): return g.__name__", "def g(): pass\nassert f(g) == 'g'"),
    "named tuple": (
        "from collections import namedtuple\ndef f(n): return namedtuple('P', 'x y')(n, 2)",
        "assert f(1) == (1, 2)",
    ),
    "asynchronous generator": (
        "async def f(n):\n    for i in range(n): yield i",
        "import asyncio\nasync def all_of(): return [x async for x in f(3)]\nassert asyncio.run(all_of()) == [0, 1, 2]",
    ),
    "the argument itself": (
        "def f(a):\n    a.append(1)\n    return a",
        "a = []\nassert f(a) is a\nassert a == [1]\nassert f(a=a) is a\nassert f(a) == [1, 1, 1]\nb = f(a)\nb.append(3)\n"
        "assert a[-1] == 3\nassert f([]) is not a",
    ),
    "a copy of the argument": ("def f(a): return [*a]", "a = [1]\nassert f(a) is not a\nassert f(a) == a"),
    "what is in a tuple": ("def f(a):\n    a[0].append(1)\n    return a", "b = f(([],))\nassert b == ([1],)"),
    "what is sent to a generator": (
        "def f():\n    x = yield 1\n    yield x",
        "g = f()\nnext(g)\nassert g.send(5) == 5",
    ),
    "pairs": ("def f(a, b): return zip(a, b)", "assert dict(f('a', [1])) == {'a': 1}"),
    "manager": (
        "from contextlib import contextmanager\n@contextmanager\ndef f(): yield 5",
        "with f() as x:\n    assert x == 5",
    ),
    "what is twice in a value": (
        "def f(row, n): return [row] * n, {'a': row, 'b': [row]}",
        "rows, table = f([0], 2)\nrows[0].append(1)\nassert rows == [[0, 1], [0, 1]] and table == {'a': [0, 1], 'b': [[0, 1]]}\n"
        "r = [0]\nrows, _ = f(r, 2)\nassert rows[0] is rows[1]",
    ),
    "what is twice in an argument": (
        "def f(a, b):\n    a[0].append(1)\n    return a[0] is a[1] and a[0] is b",
        "row = [0]\na = [row, row]\nassert f(a, row)\nassert a == [[0, 1], [0, 1]] and a[0] is a[1]",
    ),
    "views of a dict": (
        "from collections import OrderedDict\ndef f(kind, **d): return getattr(kind(d), 'keys')(), kind(d).items(), kind(d).values()",
        "from collections import OrderedDict\nfor kind in (dict, OrderedDict):\n    keys, items, values = f(kind, a=1, b=2)\n"
        "    assert keys == {'a', 'b'} and {'a'} != keys != {'a', 'c'} and items == {('a', 1), ('b', 2)} and sorted(values) == [1, 2]\n"
        "    assert values != [1, 2] and not keys == ['a', 'b'] and list(keys) == ['a', 'b']",
    ),
    "path and uuid": (
        "import pathlib, uuid\ndef f(p): return pathlib.Path(p) / 'x', uuid.UUID(int=5)",
        "import pathlib, uuid\nassert f('a') == (pathlib.Path('a/x'), uuid.UUID(int=5))",
    ),
    "object of a class under test": (
        "class Stack:\n    def __init__(self, *a): self.items = [*a]\n    def push(self, x):\n        self.items.append(x)\n"
        "        return self\n    def __len__(self): return len(self.items)\n    def __contains__(self, x): return x in self.items\n"
        "    def __iter__(self): return iter(self.items)\n    def __getitem__(self, i): return self.items[i]\n"
        "    top = property(lambda self: self.items[-1])\n    def __enter__(self): return 5\n    def __exit__(self, *a): pass",
        "import copy\ns = Stack(2)\nassert s.push(3) is s\nassert len(s) == 2 and 3 in s and s\nassert list(s) == [2, 3]\n"
        "assert s[0] == 2 and s.top == 3\nwith s as x:\n    assert x == 5\nassert isinstance(s, Stack)\nt = copy.deepcopy(s)\n"
        "t.push(4)\nassert s.items == [2, 3] and t.items == [2, 3, 4]",
    ),
    "tree that the tests build": (
        "class Node:\n    left = right = None\n    def __init__(self, value): self.value = value\n"
        "def height(node): return 1 + max(height(node.left), height(node.right)) if node else 0",
        "root = Node(1)\nroot.left = Node(2)\nroot.left.left = Node(3)\nroot.left.left.right = Node(4)\n"
        "root.right = root.left.left.right\nassert height(root) == 4\nassert root.left.left.right is root.right\n"
        "assert root.left.left.value == 3\nroot.left.left = None\nassert height(root) == 2 and root.left.left is None",
    ),
    "object that is its own iterator": (
        "class Down:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return self\n    def __next__(self):\n"
        "        if not self.n: raise StopIteration\n        self.n -= 1\n        return self.n",
        "assert list(Down(3)) == [2, 1, 0]",
    ),
    "one object for all": (
        "class Single:\n    made = None\n    def __new__(cls):\n        cls.made = cls.made or super().__new__(cls)\n"
        "        return cls.made\nclass Many: pass",
        "assert Single() is Single()\nassert Many() is not Many()",
    ),
    "class that is a dict": (
        "from collections import OrderedDict\nclass LRU(OrderedDict):\n    def __init__(self, size):\n        super().__init__()\n"
        "        self.size = size\n    def put(self, key, value):\n        self[key] = value\n        self.move_to_end(key)\n"
        "        if len(self) > self.size: self.popitem(last=False)",
        "c = LRU(1)\nc.put(1, 2)\nc.put(3, 4)\nassert c.get(1, -1) == -1\nassert c == {3: 4} and {3: 4} == c and c != {1: 2}\n"
        "assert dict(c) == {3: 4} and len(c) == 1",
    ),
    "class that is a list": (
        "class Row(list):\n    def total(self): return sum(self)",
        "r = Row([1])\nr.append(2)\nassert r.total() == 3 and r == [1, 2] and [1, 2] == r and sorted(r) == [1, 2]",
    ),
    "class that is a set": (
        "class Bag(set):\n    def total(self): return sum(self)",
        "b = Bag([1])\nb.add(2)\nassert b.total() == 3 and b == {1, 2} and 2 in b",
    ),
    "source": ("import inspect\ndef f(n): return inspect.getsource(f)", "assert f(1).startswith('def f(n)')"),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_results_stay_trusted(report: Report, name: str) -> None:
    source, check = ORDINARY[name]
    tests = report(source, asserts(check, ""))
    assert (tests.all_passed, tests.trusted) == (True, True), tests


def test_a_failed_assertion_passes_through_a_context_manager(report: Report) -> None:
    source = "class f:\n    def __enter__(s): return 3\n    def __exit__(s, *a): return True"
    check = "import pytest\nfrom solution import f\ndef test_a():\n    with f():\n        assert False\ndef test_b():\n    with f():\n        pytest.fail()"
    tests = report(source, pytests(check))
    if "not installed" in tests.message:
        pytest.skip("no pytest in this image")
    assert (tests.tests_run, tests.tests_passed, tests.trusted) == (2, 0, False)


def test_a_failed_assertion_of_a_callback_is_not_the_programs_to_catch(report: Report) -> None:
    source = "def f(g):\n    try: g()\n    except BaseException: pass\n    return 1"
    check = "from solution import f\ndef g():\n    assert False\ndef test_a():\n    f(g)\ndef test_b():\n    assert f(int) == 1"
    tests = report(source, pytests(check))
    if "not installed" in tests.message:
        pytest.skip("no pytest in this image")
    assert (tests.tests_run, tests.tests_passed) == (2, 1)


@pytest.mark.parametrize(
    "body",
    [
        "e = ValueError('x')\n    e.__class__ = e.code = object()\n    raise e",
        "import collections\n    class T(tuple):\n        _fields = ('x', 'y z')\n        x = 3\n    return T((1, 2))",
        "class T(tuple):\n        _fields = ('x',)\n        __eq__ = lambda s, o: True\n    return T((4,))",
        "import unittest\n    raise unittest.SkipTest('x')",
        "import sys\n    sys.stdout = sys.stderr = 5\n    return 4",
        "print('x' * 10000000)\n    return 4",
    ],
)
def test_none_of_it_is_a_way_to_be_paid(report: Report, body: str) -> None:
    file = "from solution import f\ndef test_a(capsys):\n    assert f() == (3,)\n"
    tests = report(f"def f():\n    {body}", pytests(file))
    assert (tests.tests_passed, tests.all_passed) == (0, False), tests
