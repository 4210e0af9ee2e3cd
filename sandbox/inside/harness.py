"""Runs the program in its own process: as a script, as functions to call, or as another command.

All of this is the program's process, which the program can change as it likes. So nothing here is secret, and nothing
that it says is more than the program's own word.
"""

from __future__ import annotations

import builtins
import errno
import linecache
import os
import resource
import sys
import types
from typing import Any, Optional

from . import frames, plain

MESSAGE_LENGTH = 500
_LINES = 40


NOTES = ("memory", "pids", "disk")


class Channel:
    """Where values are written; one frame for each call, in order.

    Args:
        descriptor: where.
        notes: memory shared with the zygote: one byte for each of `NOTES`, set where an exception spoke of that limit.
    """

    def __init__(self, descriptor: int, notes: Any) -> None:
        self.descriptor = descriptor
        self.notes = notes
        self.process = os.getpid()

    def send(self, kind: bytes, tree: Any) -> None:
        """Write a frame, unless this is a process that the program forked."""
        if os.getpid() == self.process:
            frames.write_frame(self.descriptor, kind, plain.to_bytes(tree))

    def note(self, error: BaseException) -> None:
        """Say which limit an exception speaks of, if any."""
        limit = limit_of(error)
        if limit:
            self.notes[NOTES.index(limit)] = 1


def limit_of(error: Optional[BaseException]) -> str:
    """The limit that an exception speaks of; "" if none."""
    for _ in range(5):
        if isinstance(error, MemoryError):
            return "memory"
        if isinstance(error, OSError):
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                return "disk"
            if error.errno == errno.ENOMEM:
                return "memory"
            if isinstance(error, BlockingIOError) and error.filename is None:
                return "pids"
        if isinstance(error, RuntimeError) and "start new thread" in str(error):
            return "memory" if _stacks_are_large() else "pids"
        if error is None:
            return ""
        error = error.__cause__ or error.__context__
    return ""


def _stacks_are_large() -> bool:
    """Whether the stacks of threads, with one more, would take most of the memory limit."""
    import _thread

    return 2 * _thread.stack_size() * (_thread._count() + 1) > resource.getrlimit(resource.RLIMIT_DATA)[0] > 0


def run(job: dict, channel: Channel) -> None:
    """Run the job and end the process."""
    code = 1
    try:
        code = _run(job, channel)
    except BaseException as error:
        channel.note(error)
        code = ended_by(error)
    finally:
        leave(code)


def _run(job: dict, channel: Channel) -> int:
    for path, content in job["files"].items():
        write_file(path, content)
    if "command" in job:
        return _execute(job)
    sys.argv[:] = ["solution.py"]
    if "calls" in job:
        module = load(job["source"], "solution")
        for entry_point, arguments in job["calls"]:
            _call(module, entry_point, arguments, channel)
        return 0
    load(job["source"], "__main__")
    _wait_for_threads()
    return 0


def write_file(path: str, content: bytes) -> None:
    """Lay a file into the working folder; a script with a `#!` line, or a program, can be executed."""
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    if content.startswith((b"#!", b"\x7fELF")):
        os.chmod(path, 0o755)


def _execute(job: dict) -> int:
    if job["source"]:
        write_file("solution.py", plain_text(job["source"]))
    command = job["command"]
    try:
        os.execvpe(command[0], command, dict(os.environ))
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    return 127 if not os.path.exists(command[0]) else 126


def plain_text(source: str) -> bytes:
    """Source as bytes, whatever is in it."""
    return source.encode("utf-8", "surrogatepass")


def load(source: str, name: str) -> types.ModuleType:
    """Run the source as the module of this name."""
    module = types.ModuleType(name)
    module.__file__ = "solution.py"
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    # For inspect.getsource; nothing need lie in the working folder.
    linecache.cache["solution.py"] = (len(source), None, source.splitlines(keepends=True), "solution.py")
    exec(compile(source, "solution.py", "exec", dont_inherit=True), module.__dict__)
    return module


def resolve(module: types.ModuleType, path: str) -> Any:
    """What a dotted name stands for; a method that needs an instance is bound to one made without arguments."""
    owner: Any = None
    value: Any = module
    for name in path.split("."):
        owner, value = value, getattr(value, name)
    if isinstance(owner, type) and isinstance(owner.__dict__.get(name), types.FunctionType):
        value = getattr(owner(), name)
    return value


def _call(module: types.ModuleType, entry_point: str, arguments: bytes, channel: Channel) -> None:
    args, kwargs = plain.load(arguments)
    try:
        value = resolve(module, entry_point)(*args, **kwargs)
        if type(value) is types.CoroutineType:
            import asyncio

            value = asyncio.run(value)
    except BaseException as error:
        if os.getpid() != channel.process:
            raise
        channel.note(error)
        tree = ["raised", None, _or_none(args), _or_none(kwargs), type(error).__name__[:100], message_of(error)]
    else:
        tree = ["returned", None, _or_none(args), _or_none(kwargs), "", ""]
        try:
            tree[1] = plain.encode(value)
        except BaseException as error:
            tree[0], tree[4], tree[5] = "opaque", type(value).__name__[:100], message_of(error)
    try:
        channel.send(frames.CALL, tree)
    except plain.NotPlain as error:
        channel.send(frames.CALL, ["opaque", None, None, None, type(value).__name__[:100], message_of(error)])


def _or_none(value: Any) -> Any:
    try:
        return plain.encode(value)
    except BaseException:
        return None


def message_of(error: BaseException) -> str:
    """The start of an exception's text."""
    try:
        return str.__getitem__(str(error), slice(MESSAGE_LENGTH))
    except BaseException:
        return ""


def _wait_for_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()


def ended_by(error: BaseException) -> int:
    """Show an exception as the interpreter would, and give the exit code that it stands for."""
    if isinstance(error, SystemExit):
        code = error.code
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        print(code, file=sys.stderr)
        return 1
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<sandbox "):
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.excepthook(type(error), error, trace)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def leave(code: int) -> None:
    """End the process as the interpreter would: exit functions, then what is still to be written."""
    try:
        atexit = sys.modules.get("atexit")
        if atexit is not None:
            atexit._run_exitfuncs()
    except BaseException:
        code = code or 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException as error:
            if isinstance(error, SystemExit):
                continue
            code = code or 120
    os._exit(code)
