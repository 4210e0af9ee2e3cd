"""`python -m rlvr`: the command line, for launchers that start a module (`torchrun -m rlvr train ...`)."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
