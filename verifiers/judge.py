"""The verifier that asks a language model to judge a completion by a rule."""

from __future__ import annotations

import math
import numbers
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..sandbox.errors import UserError
from .completion_parts import completion_part
from .judge_cache import cache_key, recall, remember
from .judge_calls import BudgetSpentError, Endpoint, complete, spending, turn
from .judge_prompt import Judgement, UnreadableReplyError, judge_messages, read_reply, shortened
from .number_options import check_count, check_number
from .registry import verifier
from .verdict import Verdict, failure

PASS_OR_FAIL: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}
"""The grades that a judge is offered by default, and their scores."""

_LONGEST_REASON = 300


def check_options(**options: Any) -> None:
    """Raise UserError if one of these options of `judge` is not one of the possible values."""
    for name in ("rule", "model"):
        value = options.get(name, name)
        if not isinstance(value, str) or not value.strip():
            raise UserError(f"{name}={value!r} tells the judge nothing; pass {name}= as text.")
    for name, least in _COUNTS.items():
        if options.get(name) is not None or (name in options and name not in _MAY_BE_NONE):
            check_count(name, options[name], least=least)
    if "threshold" in options:
        check_number("threshold", options["threshold"])
    if "timeout" in options:
        check_number("timeout", options["timeout"], above=0)
    if options.get("temperature") is not None:
        check_number("temperature", options["temperature"], least=0)
    seed = options.get("seed")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise UserError(f"seed={seed!r} is no seed; pass an integer, or None.")
    if options.get("grades") is not None:
        _check_grades(options["grades"])


_COUNTS = {
    "attempts": 1,
    "concurrency": 1,
    "max_characters": 1,
    "max_reply_tokens": 1,
    "retries": 0,
    "max_calls": 0,
    "max_tokens": 0,
}
"""The options that are counts, each with the least that it may be."""

_MAY_BE_NONE = ("max_calls", "max_tokens")


# Its own limits end it: `timeout` for each of at most (1 + `retries`) * `attempts` requests.
@verifier("rlvr/judge-v1", patience=3600, check=check_options)
async def judge(
    completion: str,
    rule: str,
    model: str,
    base_url: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    prompt: object = None,
    answer: object = None,
    grades: Mapping[str, float] | None = PASS_OR_FAIL,
    threshold: float = 0.5,
    part: str = "answer",
    think: str = "generated",
    max_characters: int = 20_000,
    timeout: float = 60.0,
    retries: int = 3,
    attempts: int = 3,
    concurrency: int = 16,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    max_reply_tokens: int = 1024,
    temperature: float | None = 0.0,
    seed: int | None = 0,
    cache_path: str | None = None,
) -> Verdict:
    """A model's judgement of the completion by `rule`, through any OpenAI-compatible endpoint.

    The judge is to reply with one JSON object, `{"nonce": ..., "verdict": "pass" or "fail", "reason": ...}`, or
    with `"score"`, a number from 0 to 1, where `grades` is None. A reply of any other form is asked for
    again; after `attempts` of them, as after a failed request or when the budget is spent, the verdict is
    "error" and has no score. The score is the grade's, and it passes from `threshold` on.

    What the completion says cannot pass for an instruction or a verdict: it stands between lines with a nonce
    drawn anew for each request, without the openings of tags that a chat template might take for its own, and a
    reply counts only with that nonce. Whether the judge is persuaded by it all the same depends on the judge.

    Judgements are remembered in memory by everything they depend on, and in an SQLite file at `cache_path`.

    Args:
        completion: what the model wrote.
        rule: what to judge by, as a sentence to the judge.
        model: the judge's name at the endpoint.
        base_url: the endpoint's address; None for OpenAI's own (or what OPENAI_BASE_URL says).
        api_key_env: the environment variable with the key; a `base_url` may do without.
        prompt: shown to the judge if it is given.
        answer: the reference answer, shown to the judge if it is given.
        grades: the words to choose from, each with its score.
        threshold: the least score that passes.
        part: what is judged: "answer", "reasoning" or "all".
        think: the think style, for `part`.
        max_characters: of each of the texts, the judge sees head and tail up to so many.
        timeout: seconds for one request.
        retries: how often a failed request is repeated, with growing waits.
        attempts: how many replies are asked for until one can be read.
        concurrency: how many requests may be open at a time.
        max_calls: how many replies this process may ask the model for.
        max_tokens: how many tokens this process may use, as the endpoint counts them; the calls that are open
            when it is reached still end.
        max_reply_tokens: the longest reply.
        temperature: the judge's; None leaves it to the endpoint.
        seed: the judge's; None leaves it to the endpoint.
        cache_path: a file to remember judgements in.

    Raises:
        UserError: an option is not one of the possible values, the file cannot be used, the key is not set, or
            `openai` is not installed.
    """
    check_options(
        rule=rule,
        model=model,
        grades=grades,
        threshold=threshold,
        max_characters=max_characters,
        timeout=timeout,
        retries=retries,
        attempts=attempts,
        concurrency=concurrency,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_reply_tokens=max_reply_tokens,
        temperature=temperature,
        seed=seed,
    )
    judged = completion_part(completion, part, think, prompt).strip()
    if not judged:
        return Verdict(0.0, False, "unparseable", detail=f"there is nothing to judge in the part {part!r}")
    given = {"prompt": prompt, "reference": answer, "text": judged}
    blocks = {name: shortened(str(text), max_characters) for name, text in given.items() if text is not None}
    wanted = {"temperature": temperature, "seed": seed, "max_completion_tokens": max_reply_tokens}
    sampling = {name: value for name, value in wanted.items() if value is not None}
    endpoint = Endpoint(base_url, api_key_env, float(timeout), int(retries), int(concurrency))
    path = None if cache_path is None else Path(cache_path)
    key = cache_key(base_url=base_url, model=model, rule=rule, blocks=blocks, grades=grades, sampling=sampling)
    async with turn(key):
        judgement = recall(key, path)
        if judgement is None:
            question = _Question(endpoint, model, rule, blocks, grades, sampling, max_calls, max_tokens)
            answered = await question.ask(attempts)
            if isinstance(answered, str):
                return failure(f"the judge {model!r} gave no verdict: {answered}")
            judgement = answered
            remember(key, judgement, path)
    return Verdict(judgement.score, judgement.score >= threshold, detail=judgement.reason[:_LONGEST_REASON])


@dataclass(frozen=True)
class _Question:
    """One judgement to be asked for."""

    endpoint: Endpoint
    model: str
    rule: str
    blocks: Mapping[str, str]
    grades: Mapping[str, float] | None
    sampling: Mapping[str, Any]
    max_calls: int | None
    max_tokens: int | None

    async def ask(self, attempts: int) -> Judgement | str:
        """The judgement, or why there is none."""
        problem = ""
        for _ in range(attempts):
            try:
                return await self._ask_once()
            except UnreadableReplyError as error:
                problem = f"its reply cannot be read: {error}"
            except BudgetSpentError as error:
                return str(error)
            except UserError:
                raise
            # Whatever the SDK raises is the infrastructure's failure, after its own retries.
            except Exception as error:
                return f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        return problem

    async def _ask_once(self) -> Judgement:
        nonce = secrets.token_hex(16)
        messages = judge_messages(rule=self.rule, blocks=self.blocks, grades=self.grades, nonce=nonce)
        account = spending(self.endpoint.base_url, self.model)
        account.begin_call(self.max_calls, self.max_tokens)
        response = await complete(self.endpoint, self.model, messages, **self.sampling)
        account.add_tokens(getattr(response.usage, "total_tokens", 0) or 0)
        if not response.choices:
            raise UnreadableReplyError("it has no choices")
        choice = response.choices[0]
        if choice.finish_reason == "length":
            raise UnreadableReplyError("it was cut off")
        return read_reply(choice.message.content or "", grades=self.grades, nonce=nonce)


def _check_grades(grades: object) -> None:
    if not isinstance(grades, Mapping) or not grades:
        raise UserError(f"grades={grades!r} is no mapping; pass one such as {{'pass': 1.0, 'fail': 0.0}}, or None.")
    for grade, worth in grades.items():
        real = isinstance(worth, numbers.Real) and not isinstance(worth, bool) and math.isfinite(worth)
        if not isinstance(grade, str) or '"' in grade or not real:
            raise UserError(f"grades= has {grade!r}: {worth!r}, which is no word with a score; pass a finite number.")
