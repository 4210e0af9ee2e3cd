"""The verifier of JSON answers: strict JSON that satisfies a schema or equals the reference."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from ..sandbox.errors import UserError
from .extraction import answer_region, resolve_think_style
from .registry import verifier
from .strict_json import StrictJsonError, json_key, nesting, read_json, same_json
from .verdict import Verdict, failure

MAX_STEPS = 200_000
"""How many keywords of a schema may be applied in one validation: recursive alternatives multiply."""
_PATTERN_SECONDS = 5.0
_SHALLOW = 10
_LONGEST_MESSAGE = 300
_FENCE = "```"
_steps: ContextVar[int] = ContextVar("steps of a validation")


class TooManyStepsError(Exception):
    """A validation went beyond MAX_STEPS."""


@verifier("rlvr/json-v1")
def json_schema(
    completion: str,
    schema: Mapping[str, Any] | bool | str | None = None,
    answer: object = None,
    formats: bool = False,
    think: str = "generated",
    prompt: object = None,
) -> Verdict:
    """Whether the completion's answer is JSON that satisfies `schema` or, without one, equals `answer`.

    The answer is the last fenced block (one that says "json" or nothing) after the reasoning or, where there
    is none, all that follows the reasoning. It has to be JSON by RFC 8259 as a whole: a repeated key, a
    trailing comma, NaN, a number that overflows or has more than 1000 digits, nesting deeper than 100, or more
    than a million characters is unparseable. The score is 1 or 0, and `detail` names the first violation.

    Schemas are JSON Schema, by the draft that `$schema` names, else 2020-12. References to other documents
    are not fetched. A validation that takes more than 200,000 steps, which recursive alternatives can
    cause, ends with status "timeout" and score 0. So does one by a schema with patterns after 5 seconds, in a
    worker process that is killed: a pattern such as `(a+)+$` backtracks without end on the right string.

    Args:
        completion: what the model wrote.
        schema: the schema, as a mapping or as JSON text.
        answer: the value to equal (1 equals 1.0, the order of keys means nothing); a text is read as JSON.
        formats: whether `format` is a condition or, as the standard's default is, a remark.
        think: the think style.
        prompt: the rendered prompt or chat messages, which the think style "auto" looks at.

    Raises:
        UserError: neither schema nor answer is given, the schema is not valid, it refers to a document that
            is not there, or `think` is no think style.
    """
    if schema is None and answer is None:
        raise UserError("rlvr/json-v1 has nothing to compare with; give the field 'schema' or 'answer'.")
    text = None if schema is None else _schema_text(schema)
    if text is not None:
        _compiled(text, bool(formats))
    elif isinstance(answer, str):
        try:
            answer = read_json(answer)
        except StrictJsonError as error:
            return failure(f"the reference answer is no JSON: {error}")
    region = answer_region(completion, resolve_think_style(think, completion, prompt))
    if region is None:
        return _unparseable("the reasoning never closed")
    written = json_text(region)
    if written is None:
        return _unparseable("the last fenced block never closed")
    try:
        value = read_json(written)
    except StrictJsonError as error:
        return _unparseable(f"no JSON: {error}")
    if text is None:
        passed = same_json(value, answer)
        return Verdict(float(passed), passed, detail="" if passed else "the value is not the reference's")
    return _validate_bounded(text, bool(formats), written)


def json_text(region: str) -> str | None:
    """The JSON text in an answer: the last fenced block, else all of it; None if the last fence is open."""
    last: str | None = region.strip()
    lines: list[str] | None = None
    wanted = False
    for line in region.split("\n"):
        mark = line.strip()
        if lines is None and mark.startswith(_FENCE) and "`" not in mark[3:]:
            lines, wanted = [], mark[3:].strip().lower() in ("", "json")
        elif lines is not None and mark == _FENCE:
            last, lines = ("\n".join(lines) if wanted else last), None
        elif lines is not None:
            lines.append(line)
    return None if lines is not None else last


def _validate_bounded(schema: str, formats: bool, written: str) -> Verdict:
    if '"pattern' not in schema:
        return _validate(schema, formats, written)
    from .pool import PoolTimeout, shared_pool

    try:
        verdict: Verdict = shared_pool().run(_validate, schema, formats, written, timeout=_PATTERN_SECONDS)
    except PoolTimeout:
        return Verdict(0.0, False, "timeout", detail=f"the patterns take more than {_PATTERN_SECONDS:g} s")
    return verdict


def _validate(schema: str, formats: bool, written: str) -> Verdict:
    from referencing.exceptions import Unresolvable

    check, value, depth = _compiled(schema, formats), read_json(written), nesting(written)
    _steps.set(0)
    try:
        error = next(check.iter_errors(value), None)
    except Unresolvable as unknown:
        raise UserError(f"The schema has a reference that leads nowhere ({unknown}); include what it means.") from None
    except re.error as wrong:
        raise UserError(f"The schema has a pattern that is no regular expression ({wrong}); mend it.") from None
    except RecursionError:
        if depth <= _SHALLOW:
            raise UserError("The schema refers to itself without end; let each turn of it go into the value.") from None
        return Verdict(0.0, False, "unparseable", detail="it nests too deep for the schema")
    except TooManyStepsError:
        return Verdict(0.0, False, "timeout", detail=f"the validation takes more than {MAX_STEPS} steps")
    # Python's integers have no bound but its floats do, so 10^400 divided by 0.1 is neither true nor false.
    except OverflowError:
        return Verdict(0.0, False, "unparseable", detail="a number is out of range")
    if error is None:
        return Verdict(1.0, True)
    message = f"at {error.json_path}, {error.validator}: {error.message}"
    return Verdict(0.0, False, detail=message[:_LONGEST_MESSAGE])


def _schema_text(schema: object) -> str:
    if isinstance(schema, str):
        return schema
    try:
        return json.dumps(schema, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"The schema is not JSON ({error}); write it as a mapping of JSON values.") from None


@lru_cache(maxsize=256)
def _compiled(text: str, formats: bool) -> Any:
    """A validator of the schema in `text`, which counts its steps and fetches nothing."""
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    try:
        schema: Any = read_json(text)
    except StrictJsonError as error:
        raise UserError(f"The schema is no JSON: {error}; mend it.") from None
    if not isinstance(schema, dict | bool):
        raise UserError(f"The schema is {text[:80]}, which is no schema; write an object.")
    named = schema.get("$schema") if isinstance(schema, dict) else None
    dialect: Any = Draft202012Validator if named is None else validator_for(schema, default=None)  # type: ignore[arg-type]
    if dialect is None:
        raise UserError(f"The schema is of the unknown kind {named!r}; name a draft of JSON Schema.")
    try:
        dialect.check_schema(schema)
    except SchemaError as error:
        raise UserError(
            f"The schema is not valid at {error.json_path} ({error.message[:_LONGEST_MESSAGE]}); mend it."
        ) from None
    if isinstance(schema, dict):
        # Where a reference leads back to it, its "$schema" would bring the validator back that does not count.
        schema = {name: value for name, value in schema.items() if name != "$schema"}
    checker = dialect.FORMAT_CHECKER if formats else None
    return _counting(dialect)(schema, registry=Registry(), format_checker=checker)


@lru_cache(maxsize=16)
def _counting(dialect: Any) -> Any:
    """A kind of validator whose steps are counted, and whose uniqueItems takes linear time."""
    from jsonschema.validators import extend

    keywords = {**dialect.VALIDATORS}
    if "uniqueItems" in keywords:
        keywords["uniqueItems"] = _unique_items
    return extend(dialect, {name: _counted(keyword) for name, keyword in keywords.items()})


def _counted(keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _spend(1)
        for error in keyword(validator, value, instance, schema) or ():
            # Its message quotes what it is about, which may be the whole text each time.
            _spend(1 + len(error.message) // 50)
            yield error

    return check


def _spend(steps: int) -> None:
    spent = _steps.get(0) + steps
    if spent > MAX_STEPS:
        raise TooManyStepsError
    _steps.set(spent)


def _unique_items(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if wanted and validator.is_type(instance, "array") and len({json_key(item) for item in instance}) < len(instance):
        yield ValidationError("an array repeats an item")


def _unparseable(why: str) -> Verdict:
    return Verdict(0.0, False, "unparseable", detail=why)
