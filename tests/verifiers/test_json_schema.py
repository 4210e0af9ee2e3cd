from __future__ import annotations

import contextlib
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers import UserError, json_schema, verify
from rlvr.verifiers.json_schema import json_text
from rlvr.verifiers.strict_json import StrictJsonError, read_json, same_json

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


def grade(completion, **fields):
    return verify("rlvr/json-v1", completion=completion, **fields)


@pytest.mark.parametrize(
    ("completion", "status", "passed"),
    [
        ('{"name": "Ada", "age": 36}', "ok", True),
        ('  {"name": "Ada"}\n', "ok", True),
        ('<think>{"name": 1}</think>{"name": "Ada"}', "ok", True),
        ('<think>{"name": "Ada"}</think>{"name": 1}', "ok", False),
        ('Here it is:\n```json\n{"name": "Ada"}\n```\nDone.', "ok", True),
        ('```\n{"name": "Ada"}\n```', "ok", True),
        ('```json\n{"name": 1}\n```\nBetter:\n```json\n{"name": "Ada"}\n```', "ok", True),
        ('```json\n{"name": "Ada"}\n```\nNo:\n```json\n{"name": 1}\n```', "ok", False),
        ('```json\n{"name": "Ada"}\n```\n```python\nprint(1)\n```', "ok", True),
        ('{"age": 36}', "ok", False),
        ('{"name": "Ada", "age": -1}', "ok", False),
        ('{"name": "Ada", "age": true}', "ok", False),
        ('{"name": "Ada", "extra": 1}', "ok", False),
        ("[]", "ok", False),
        ('<think>{"name": "Ada"}', "unparseable", False),
        ('```json\n{"name": "Ada"}\n```\nNo:\n```json\n{"name": "A', "unparseable", False),
        ('The person is {"name": "Ada"}', "unparseable", False),
        ('{"name": "Ada"} {"name": "Ada"}', "unparseable", False),
        ("", "unparseable", False),
        ('{"name": "Ada",}', "unparseable", False),
        ("{'name': 'Ada'}", "unparseable", False),
        ('{"name": "Ada", "name": "Bob"}', "unparseable", False),
        ('{"name": "Ada", "age": NaN}', "unparseable", False),
        ('{"name": "Ada", "age": 1e999}', "unparseable", False),
        ('{"name": "Ada", "age": 036}', "unparseable", False),
        ('{"name": "Ada" /* a note */}', "unparseable", False),
        ('{"name": "A\nda"}', "unparseable", False),
    ],
)
def test_a_schema(completion, status, passed):
    verdict = grade(completion, schema=PERSON)
    assert (verdict.status, verdict.passed, verdict.score) == (status, passed, float(passed))
    assert passed or verdict.detail


def test_the_first_violation_is_named():
    assert "$.age" in grade('{"name": "Ada", "age": -1}', schema=PERSON).detail
    assert len(grade(json.dumps({"name": ["x" * 100_000]}), schema=PERSON).detail) <= 300


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 101 + "]" * 101, "9" * 1001, "-Infinity"])
def test_bombs_are_unparseable(text):
    verdict = grade(text, schema=True)
    assert (verdict.status, verdict.score) == ("unparseable", 0.0)


def test_bounds_are_not_hit_before_they_are_reached():
    assert grade("[" * 100 + "]" * 100, schema=True).passed
    assert grade("9" * 1000, schema=True).passed
    assert grade(json.dumps("[" * 1000), schema=True).passed
    assert grade("[" + ",".join(["1"] * 150_000) + "]", schema={"items": {"type": "integer"}}).passed
    assert grade('"' + "x" * 1_000_000 + '"', schema=True).status == "unparseable"


def test_quotes_are_looked_at_once():
    assert grade('"' + r"\"" * 400_000, schema=True).status == "unparseable"


def test_the_draft_is_the_one_that_is_named():
    completion = "[1, 2]"
    tuple_of_2020 = {"prefixItems": [{"type": "string"}]}
    assert not grade(completion, schema=tuple_of_2020).passed
    draft7 = "http://json-schema.org/draft-07/schema#"
    assert grade(completion, schema={"$schema": draft7, **tuple_of_2020}).passed
    assert not grade(completion, schema={"$schema": draft7, "items": [{"type": "string"}]}).passed


def test_a_schema_as_text():
    assert grade('{"name": "Ada"}', schema=json.dumps(PERSON)).passed


def test_formats_only_on_request():
    schema = {"type": "string", "format": "date"}
    assert grade('"yesterday"', schema=schema).passed
    assert not grade('"yesterday"', schema=schema, formats=True).passed
    assert grade('"2024-02-29"', schema=schema, formats=True).passed


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "'schema' or 'answer'"),
        ({"schema": {"type": "strin"}}, r"\$\.type"),
        ({"schema": {"$schema": "https://example.com/mine"}}, "example.com/mine"),
        ({"schema": "{"}, "no JSON"),
        ({"schema": "3"}, "no schema"),
        ({"schema": {"const": {1, 2}}}, "not JSON"),
        ({"schema": {"$ref": "#/$defs/missing"}}, "leads nowhere"),
        ({"schema": {"pattern": "("}}, "regular expression|not valid"),
        ({"schema": {"$ref": "#"}}, "without end"),
    ],
)
def test_mistakes_of_the_user(fields, named):
    with pytest.raises(UserError, match=named):
        grade('"text"', **fields)


def test_nothing_is_fetched(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(UserError, match="leads nowhere"):
        grade("1", schema={"$ref": "http://127.0.0.1:9/schema.json"})


def test_recursive_alternatives_end():
    # Each level is checked by both alternatives, which differ only at the bottom: 2^60 ways.
    turn = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    schema = {"oneOf": [{"type": "integer"}, turn, {**turn, "minProperties": 1}]}
    verdict = grade('{"a":' * 60 + "1" + "}" * 60, schema=schema)
    assert (verdict.status, verdict.score) == ("timeout", 0.0)
    assert grade("1", schema=schema).passed


def test_the_same_with_a_named_draft():
    turn = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "oneOf": [{"type": "integer"}, turn, dict(turn)]}
    assert grade('{"a":' * 60 + "1" + "}" * 60, schema=schema).status == "timeout"


def test_patterns():
    assert grade('"abc"', schema={"pattern": "^[a-c]+$"}).passed
    assert not grade('"abd"', schema={"pattern": "^[a-c]+$"}).passed
    assert grade('{"x1": 1}', schema={"patternProperties": {"^x": {"type": "integer"}}}).passed
    assert grade("1", schema={"pattern": "^a"}).passed


def test_a_pattern_that_backtracks_ends(monkeypatch):
    monkeypatch.setattr(json_schema, "_PATTERN_SECONDS", 0.5)
    verdict = grade('"' + "a" * 60 + '!"', schema={"pattern": "^(a+)+$"})
    assert (verdict.status, verdict.score) == ("timeout", 0.0)


def test_a_recursive_schema_takes_what_nests():
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False}
    assert grade('{"a":' * 20 + "{}" + "}" * 20, schema=schema).passed
    assert grade('{"a":' * 99 + "{}" + "}" * 99, schema=schema).status in ("ok", "unparseable")


def test_unique_items():
    schema = {"uniqueItems": True}
    assert grade('[1, true, "1", [1], {"a": 1}]', schema=schema).passed
    assert not grade("[1, 2, 1.0]", schema=schema).passed
    assert not grade('[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', schema=schema).passed
    mixed = json.dumps([value for number in range(30_000) for value in (number, str(number))])
    assert grade(mixed, schema=schema).passed


def test_numbers_beyond_floats():
    assert grade("1" + "0" * 400, schema={"multipleOf": 0.1}).status in ("ok", "unparseable")


@pytest.mark.parametrize(
    ("completion", "answer", "passed"),
    [
        ('{"b": [1, 2], "a": null}', '{"a": null, "b": [1.0, 2]}', True),
        ('{"a": 1}', {"a": 1}, True),
        ("[1, 2]", [2, 1], False),
        ("1", True, False),
        ("true", True, True),
        ("0", False, False),
        ("9007199254740993", "9007199254740992", False),
        ("null", "null", True),
        ('"1"', 1, False),
    ],
)
def test_a_reference_value(completion, answer, passed):
    assert grade(completion, answer=answer).passed is passed


def test_a_reference_that_is_no_json_is_the_graders_failure():
    assert grade("1", answer="Paris").status == "error"


def test_the_schema_goes_before_the_answer():
    assert grade("1", schema={"type": "integer"}, answer="Paris").passed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_is_read(value):
    text = json.dumps(value)
    assert same_json(read_json(text), value)
    assert grade(f"```json\n{json.dumps(value, indent=1)}\n```", answer=text).passed


@given(st.text(alphabet='{}[]",:\\0123456789.eE+-truefalsn \n`'))
def test_hostile_text_is_read_or_refused(text):
    with contextlib.suppress(StrictJsonError):
        read_json(text)
    assert grade(text, schema=True).status in ("ok", "unparseable")


def test_fences():
    assert json_text("a") == "a"
    assert json_text("```JSON\n1\n```") == "1"
    assert json_text("  ```json  \n1\n  ```  ") == "1"
    assert json_text("```python\n1\n```") == "```python\n1\n```"
    assert json_text("```json\n1") is None
