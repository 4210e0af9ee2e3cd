"""Programs that want to be paid without solving: each is put before functions that do nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rlvr.sandbox import SandboxFault
from rlvr.verifiers import Verdict, verify, verify_many

HUMANEVAL = Path(os.environ.get("RLVR_TASK_FILES", Path(__file__).parents[3] / "shared" / "data")) / "humaneval.jsonl"

LIAR = """
class Liar{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __bool__(self): return True
    def __hash__(self): return 0
    def __abs__(self): return 0
    def __sub__(self, other): return self
    __rsub__ = __sub__
    def __float__(self): return 0.0
    def __len__(self): return 3
    def __iter__(self): return iter(())
    @property
    def __class__(self): return int
def {name}(*args, **kwargs): return Liar()
"""

# `{name}` is the function under test, which comes after it with an empty body.
ATTACKS = {
    "sys.exit": "import sys; sys.exit(0)",
    "os._exit": "import os; os._exit(0)",
    "posix._exit": "import posix; posix._exit(0)",
    "SystemExit": "raise SystemExit",
    "kill itself": "import os; os.kill(os.getpid(), 9)",
    "atexit": "import atexit, os; atexit.register(os._exit, 0)",
    "excepthook": "import sys, os; sys.excepthook = lambda *a: os._exit(0)\nraise ValueError",
    "marker": "print('PASSED'); print('OK'); print('1 passed'); print('{{\"passed\": true}}')",
    "builtins": "import builtins\nbuiltins.len = lambda x: 3\nbuiltins.isinstance = lambda *a: True\n"
    "builtins.all = lambda x: True\nbuiltins.abs = lambda x: 0\nbuiltins.tuple = lambda x: ()\nbuiltins.set = tuple",
    "json": "import json, math\njson.loads = lambda *a, **k: True\njson.dumps = lambda *a, **k: 'true'\n"
    "math.isclose = lambda *a, **k: True\nmath.fabs = lambda x: 0",
    "unittest": "import unittest\nfor n in dir(unittest.TestCase):\n"
    "    if n.startswith('assert'): setattr(unittest.TestCase, n, lambda *a, **k: None)",
    "conftest": "for n in ('conftest.py', 'sitecustomize.py', 'pytest.py', 'tests.py', 'solution.py'):\n"
    "    open(n, 'w').write('import os; os._exit(0)')",
    "modules": "import sys\nclass M:\n    def __getattr__(self, n): return lambda *a, **k: True\n"
    "for n in ('pytest', 'unittest', 'json', 'ast'): sys.modules[n] = M()",
    "settrace": "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)",
    "frames": "import sys\nf = sys._getframe()\nwhile f:\n"
    "    for v in list(f.f_locals.values()) + list(f.f_globals.values()):\n"
    "        if isinstance(v, dict): v['passed'] = True; v['completed'] = True\n    f = f.f_back",
    "gc": "import gc\nfor o in gc.get_objects():\n    if type(o) is dict and ('expected' in o or 'cases' in o):\n"
    "        raise SystemExit(str(o))",
    "descriptors": "import os\nfor fd in range(3, 64):\n"
    "    for text in (b'{{\"passed\": true}}', b'\\x00\\x00\\x00\\x04true'):\n"
    "        try: os.write(fd, text)\n        except OSError: pass",
    "dup2": "import os\nfor fd in range(3, 64):\n    try: os.dup2(1, fd)\n    except OSError: pass",
    "close": "import os\nos.closerange(0, 256)",
    "fork": "import os\nif os.fork() == 0: os.setsid()\nelse: os._exit(0)",
    "thread": "import threading, os\nthreading.Timer(0.01, os._exit, [0]).start()",
    "kill the parent": "import os\nfor p in (os.getppid(), 1):\n    try: os.kill(p, 9)\n    except OSError: pass",
    "kill all": "import os\ntry: os.kill(-1, 9)\nexcept OSError: pass",
    "liar": LIAR.format(base="", name="{name}"),
    "lying int": LIAR.format(base="(int)", name="{name}"),
    "lying list": LIAR.format(base="(list)", name="{name}"),
    "lying str": LIAR.format(base="(str)", name="{name}"),
    "nan": "def {name}(*args, **kwargs): return float('nan')",
    "generator": "def {name}(*args, **kwargs):\n    yield True",
    "function": "def {name}(*args, **kwargs): return {name}",
    "exit in the call": "import os\ndef {name}(*args, **kwargs): os._exit(0)",
    "SystemExit in the call": "def {name}(*args, **kwargs): raise SystemExit(0)",
    "answers from /proc": "import glob\nfor p in glob.glob('/proc/*/mem') + glob.glob('/proc/*/environ'):\n"
    "    try: open(p, 'rb').read(100)\n    except (OSError, ValueError): pass",
}
LIMITS = {"cpu_seconds": 1.0, "wall_seconds": 2.0}
NOTHING = "\ndef add(a, b):\n    pass\n"
FORMS = {
    "calls": {"form": "calls", "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}]},
    "asserts": {
        "form": "asserts",
        "entry_point": "add",
        "source": "def check(candidate):\n    for n in range(3):\n        assert candidate(n, 2) == n + 2\n",
    },
    "pytest": {
        "form": "pytest",
        "files": {"test_add.py": "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"},
        "module": "solution",
    },
}


@pytest.fixture(params=["namespace", "docker"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend; Docker where a daemon has the image."""
    if request.param == "docker":
        pytest.importorskip("docker")
        from rlvr.sandbox import docker, images

        try:
            if not docker.image_present(images.chosen_image()):
                pytest.skip(f"the image {images.chosen_image()} is not there")
        except SandboxFault as fault:
            pytest.skip(str(fault))
    return str(request.param)


def completion(program: str) -> str:
    return f"```python\n{program}\n```"


def attacked(name: str, attack: str, rest: str) -> str:
    """The attack before what defines the function, or after it where the attack defines the function itself."""
    code = ATTACKS[attack].replace("{name}", name).replace("{{", "{").replace("}}", "}")
    return f"{rest}\n{code}" if f"def {name}(" in code else f"{code}\n{rest}"


@pytest.mark.parametrize("form", FORMS)
def test_no_attack_is_paid(form: str, backend: str) -> None:
    rows = [{"completion": completion(attacked("add", attack, NOTHING)), "tests": FORMS[form]} for attack in ATTACKS]
    verdicts = verify_many("rlvr/code-v1", [{**row, "limits": LIMITS, "backend": backend} for row in rows])
    paid = {attack: verdict for attack, verdict in zip(ATTACKS, verdicts, strict=True) if verdict.score != 0.0}
    assert paid == {}
    right = completion("def add(a, b): return a + b")
    assert verify("rlvr/code-v1", completion=right, tests=FORMS[form], backend=backend).passed


@pytest.mark.parametrize("attack", ["sys.exit", "os._exit", "posix._exit", "SystemExit", "excepthook", "kill itself"])
def test_a_right_program_that_ends_early_is_not_paid(attack: str, backend: str) -> None:
    program = f"{ATTACKS[attack]}\ndef add(a, b):\n    return a + b"
    for tests in FORMS.values():
        assert verify("rlvr/code-v1", completion=completion(program), tests=tests, backend=backend).score == 0.0


def test_an_output_is_not_paid_for_its_marker_or_exit_code(backend: str) -> None:
    tests = {"form": "stdin", "cases": [{"stdin": "1 2\n", "stdout": "3\n"}]}
    for attack in ("sys.exit", "os._exit", "marker", "atexit", "fork", "kill itself", "builtins"):
        assert verify("rlvr/code-v1", completion=completion(ATTACKS[attack]), tests=tests, backend=backend).score == 0.0


def humaneval() -> list[dict[str, str]]:
    if not HUMANEVAL.is_file():
        pytest.skip(f"no file {HUMANEVAL}")
    return [json.loads(line) for line in HUMANEVAL.read_text(encoding="utf-8").splitlines()]


def graded(rows: list[dict[str, str]], programs: list[str], backend: str) -> list[Verdict]:
    return verify_many(
        "rlvr/code-v1",
        [
            {
                "completion": completion(program),
                "tests": {"form": "asserts", "entry_point": row["entry_point"], "source": row["test"]},
                "backend": backend,
            }
            for row, program in zip(rows, programs, strict=True)
        ],
    )


def test_every_canonical_solution_of_humaneval_passes(backend: str) -> None:
    rows = humaneval()
    verdicts = graded(rows, [row["prompt"] + row["canonical_solution"] for row in rows], backend)
    assert [row["task_id"] for row, verdict in zip(rows, verdicts, strict=True) if not verdict.passed] == []


def test_no_empty_body_of_humaneval_passes(backend: str) -> None:
    rows = humaneval()
    verdicts = graded(rows, [row["prompt"] + "    pass\n" for row in rows], backend)
    assert {verdict.score for verdict in verdicts} == {0.0}


@pytest.mark.slow
def test_no_attack_on_humaneval_is_paid(backend: str) -> None:
    rows = humaneval()
    names = list(ATTACKS)
    # Each task meets a few attacks, and each attack meets tasks of every kind.
    chosen = [(row, names[(at * 3 + more) % len(names)]) for at, row in enumerate(rows) for more in range(3)]
    programs = [attacked(row["entry_point"], attack, row["prompt"] + "    pass\n") for row, attack in chosen]
    verdicts = graded([row for row, _ in chosen], programs, backend)
    paid = [(row["task_id"], attack) for (row, attack), v in zip(chosen, verdicts, strict=True) if v.score != 0.0]
    assert paid == []
