"""Verdicts on completions: verifiers, rubrics that combine them, and the ones that come with rlvr.

- `verify` grades one completion, `verify_many` many, `averify` one without blocking an event loop; `verifier`
  registers a function of yours.
- `Rubric`, `gate`, `score` and `metric` combine graders; `product`, `threshold` and `first` stand where a grader may;
  `rubric_from` reads them from plain data.
- Correctness: `rlvr/math-v1` (`math`), `rlvr/code-v1` (`code`), `rlvr/number-v1`, `rlvr/exact-v1`, `rlvr/choice-v1`,
  `rlvr/json-v1`.
- Form and shape: `rlvr/think-v1`, `rlvr/answer-tags-v1`, `rlvr/language-v1`, `rlvr/length-v1`, `rlvr/overlong-v1`,
  `rlvr/repetition-v1`.
- Judged by models: `rlvr/judge-v1`, `rlvr/reward-model-v1`; step by step: `rlvr/steps-v1`.
"""

from ..sandbox.errors import UserError
from . import answer_tags as answer_tags
from . import choice as choice
from . import code as code
from . import exact as exact
from . import json_schema as json_schema
from . import judge as judge
from . import language as language
from . import length as length
from . import math as math
from . import number as number
from . import repetition as repetition
from . import reward_model as reward_model
from . import steps as steps
from . import think as think
from .combine import first, product, threshold
from .registry import Grader, Verifier, averify, get_verifier, verifier, verify, verify_many
from .rubric import Rubric, gate, metric, score
from .rubric_spec import rubric_from
from .verdict import CompletionTimeout, Status, Verdict

__all__ = [
    "CompletionTimeout",
    "Grader",
    "Rubric",
    "Status",
    "UserError",
    "Verdict",
    "Verifier",
    "averify",
    "first",
    "gate",
    "get_verifier",
    "metric",
    "product",
    "rubric_from",
    "score",
    "threshold",
    "verifier",
    "verify",
    "verify_many",
]
