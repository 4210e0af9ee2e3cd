"""What a forked process does to become the program that a test asked for, which it is given as `PROGRAM`."""

import atexit
import os
import runpy
import sys
from pathlib import Path

given = globals()["PROGRAM"]
os.environ.clear()
os.environ.update(given["environment"])
os.chdir(given["folder"])
with Path(given["output"]).open("ab") as output:
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
sys.argv[:] = [given["script"], *given["arguments"]]
try:
    if Path(given["script"]).is_file():
        sys.path.insert(0, str(Path(given["script"]).parent))
        runpy.run_path(given["script"], run_name="__main__")
    else:
        runpy.run_module(given["script"], run_name="__main__")
finally:
    # A process of multiprocessing leaves these out.
    atexit._run_exitfuncs()
