"""`rlvr/math-v1`: whether the answer that a completion commits to is the reference answer.

`commitment` (one folder up) finds the answer's text, `reading` says what the text may be taken for, and `compare` when
two of a kind are equal. Below them, `tokens`, `parser` and `reader` go from LaTeX to expressions (`nodes`) and forms
(`forms`); `equality` decides whether two expressions are equal, by `exact` rational arithmetic, arithmetic modulo
primes (`modular`), enclosing `balls` and, in a worker process, sympy (`symbolic`).
"""

from .verdict import check_reference, math

__all__ = ["check_reference", "math"]
