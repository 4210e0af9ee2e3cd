"""What is said between the host and the zygote, in frames of plain data (`inside.frames`, `inside.plain`).

The host starts `python -I -S -c BOOTSTRAP` with an empty environment and sends `boot_message`, the source of the
modules in `inside`; the zygote answers `READY`. Then, for each job:

    host    JOB (limits)  PROGRAM (source, stdin, files, calls)  [TESTS]
    zygote  STDOUT, STDERR, VALUES, REPORT (pieces, as they come)  DONE (numbers)

The zygote reads only `JOB`: the bytes of `PROGRAM` and of `TESTS` are read from the stream by the process that was
forked for them, so that the zygote, and with it every later job, never holds them in its memory. What a program is
expected to give is in none of the frames.
"""

from __future__ import annotations

import functools
import json
import marshal
from importlib import resources
from typing import Any

from .identity import with_identity_asked
from .inside import asserts, frames, plain
from .limits import Limits
from .program import Program, TestProgram

MODULES = (
    "plain",
    "frames",
    "kernel",
    "seccomp",
    "oom",
    "harness",
    "raised",
    "surroundings",
    "imports",
    "stand_ins",
    "identity",
    "opposite",
    "asserts",
    "pytest_tests",
    "serve",
    "cell",
    "watch",
    "enclosure",
    "zygote",
)

BOOTSTRAP = """\
import json,os,sys,types
def read(n):
 b=b""
 while len(b)<n:
  p=os.read(0,n-len(b))
  if not p: os._exit(3)
  b+=p
 return b
m=json.loads(read(int(read(10))))
package=types.ModuleType("inside");package.__path__=[];sys.modules["inside"]=package
for n,s in m["modules"]:
 k=types.ModuleType("inside."+n);k.__package__="inside";sys.modules[k.__name__]=k;setattr(package,n,k)
 exec(compile(s,"<sandbox "+n+">","exec",dont_inherit=True),k.__dict__)
sys.modules["inside.zygote"].main(m["settings"])
"""

PYTHON_FLAGS = ("-I", "-S", "-c", BOOTSTRAP)
"""What follows the interpreter's name on the command line of a zygote."""


_MARSHAL_VERSION = 2
"""The image may have another Python; every one reads this version."""


def boot_message(settings: dict[str, Any]) -> bytes:
    """The first message to a zygote.

    Args:
        settings: `mode`: `namespaces` (a job gets fresh ones; the zygote needs CAP_SYS_ADMIN in its user namespace),
            `uids` (a job gets its own uid; the zygote needs SETUID, SETGID and KILL) or `plain` (neither: unsafe).
            `uid_base`: the first uid to give to jobs; they rise by two a job. `scratch`: the folder, in a
            tmpfs, that jobs get their working folders in (`/tmp`). `packages`: a folder to put on `sys.path`, or None.
            `preload`: modules to import before the first fork. `enclose`: the set-up of the `namespace` backend.
    """
    content = json.dumps({"modules": _sources(), "settings": settings}).encode("ascii")
    return b"%010d" % len(content) + content


@functools.cache
def _sources() -> list[tuple[str, str]]:
    folder = resources.files(__package__) / "inside"
    return [(name, (folder / f"{name}.py").read_text("utf-8")) for name in MODULES]


def job_message(program: Program, limits: Limits) -> bytes:
    """The frames that hand a job over.

    Raises:
        inside.plain.NotPlain: an argument of a call is no plain data.
    """
    test = program.test
    beside = test is not None and not test.inside
    values = program.call is not None or (test is not None and test.inside)
    parts = [
        (frames.JOB, _packed(limits, beside, values)),
        (frames.PROGRAM, _marshalled(_program(program))),
    ]
    if test is not None and beside:
        parts.append((frames.TESTS, _marshalled(_tests(test))))
    return b"".join(frames.HEADER.pack(kind, len(content)) + content for kind, content in parts)


def _marshalled(content: dict[str, Any]) -> bytes:
    """What a process of the sandbox reads as what it is to run: built-in values, from us, in the fastest way to read.

    Raises:
        inside.plain.NotPlain: it holds something else, or is too large.
    """
    try:
        written = marshal.dumps(content, _MARSHAL_VERSION)
    except ValueError:
        # Of a class that inherits from a built-in one, say.
        written = marshal.dumps(plain.load(plain.dump(content, most=plain.MAX_JOB_BYTES)), _MARSHAL_VERSION)
    if len(written) > plain.MAX_JOB_BYTES:
        raise plain.NotPlain(f"the data takes more than {plain.MAX_JOB_BYTES} bytes")
    return written


def _packed(limits: Limits, beside: bool, values: bool) -> bytes:
    return frames.LIMITS.pack(
        limits.wall,
        limits.cpu_seconds,
        limits.memory_bytes,
        limits.output_bytes,
        limits.disk_bytes,
        limits.processes,
        limits.files,
        limits.open_files,
        beside,
        values,
    )


def _program(program: Program) -> dict[str, Any]:
    test = program.test
    content: dict[str, Any] = {
        "source": program.source,
        "stdin": _bytes(program.stdin),
        "files": {path: _bytes(content) for path, content in program.files.items()},
        "env": dict(program.env),
    }
    if program.command is not None:
        content["command"] = list(program.command)
    if program.call is not None:
        # Each as bytes of its own, so that a call that changes its arguments changes nobody else's.
        content["calls"] = [
            [call.entry_point, plain.dump([list(call.args), dict(call.kwargs)])] for call in program.calls
        ]
    if test is not None:
        content["serve"] = test.module
        if test.inside:
            content["tests"] = _tests(test)
    return content


def _tests(test: TestProgram) -> dict[str, Any]:
    source = with_identity_asked(test.source)
    return {
        "form": test.form,
        "source": source,
        "prepared": _prepared(source) if test.form == "asserts" else None,
        "entry_point": test.entry_point,
        "given": test.given,
        "files": {path: _test_file(path, content) for path, content in test.files.items()},
        "module": test.module,
    }


def _test_file(path: str, content: bytes | str) -> bytes:
    asks = path.endswith(".py") and isinstance(content, str)
    return _bytes(with_identity_asked(content) if asks else content)


# A group of completions has the same tests; reading them once is a third of what these cost in the sandbox.
@functools.lru_cache(maxsize=512)
def _prepared(source: str) -> list[Any] | None:
    try:
        return asserts.prepared(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The tests' own process says what is wrong.
        return None


def _bytes(content: bytes | str) -> bytes:
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else bytes(content)
