"""Verdicts on completions: verifiers, rubrics that combine them, and the ones that come with rlvr.

- `verify` grades one completion; `verifier` registers a function of yours; `Rubric`, `gate`, `score` and
  `metric` combine graders.
- `rlvr/number-v1` compares the final number with the reference (`number.py`).
- `rlvr/think-v1` checks the form of the reasoning (`think.py`).
"""

from . import number as number
from . import think as think
from .errors import UserError
from .registry import Verifier, get_verifier, verifier, verify
from .rubric import Rubric, gate, metric, score
from .verdict import Status, Verdict

__all__ = [
    "Rubric",
    "Status",
    "UserError",
    "Verdict",
    "Verifier",
    "gate",
    "get_verifier",
    "metric",
    "score",
    "verifier",
    "verify",
]
