"""A rubric read from plain data, as a YAML or JSON file or a section of a configuration holds it."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .combine import Threshold, first, product
from .registry import Grader, as_grader
from .rubric import Kind, Part, Rubric, make_part, score

_FILES = (".yaml", ".yml", ".json")
_PART_KEYS = {
    "gate": ("name", "options"),
    "score": ("name", "options", "weight", "passes"),
    "metric": ("name", "options"),
}
_COMBINATOR_KEYS = {
    "rubric": (),
    "product": (),
    "first": ("decides",),
    "threshold": ("at_least", "name", "options"),
}
# Far beyond any rubric that makes sense; a YAML anchor may hold itself.
_DEEPEST = 50


class _Entry(NamedTuple):
    """A mapping of the spec: what it is (its `key`), of what, and its settings."""

    key: str
    content: Any
    settings: dict[str, Any]


def rubric_from(spec: object, where: str = "rubric") -> Rubric:
    """The rubric that a spec means.

        rubric_from([
            {"gate": "rlvr/think-v1"},
            {"score": "rlvr/number-v1", "passes": True, "options": {"fallback": "last_number"}},
            {"score": {"threshold": "rlvr/length-v1", "at_least": 0.5}, "name": "brief", "weight": 0.1},
            {"metric": {"first": ["rlvr/exact-v1", "rlvr/number-v1"], "decides": "passed"}, "name": "agreement"},
        ])

    - A rubric is a list of parts. A part is a mapping with one of the keys `gate`, `score` and `metric`, which
      names its grader, and `name`, `options`, and for a score `weight` and `passes`, as the functions of these
      names take them.
    - A grader is a verifier's name, or a mapping with one of the keys `rubric` (a list of parts), `product` (a
      list of parts or graders), `first` (a list of graders or scores; with `decides`) and `threshold` (a
      grader; with `at_least`, `name` and `options`), to any depth.
    - One mapping that stands in two places, by a YAML anchor, is one grader, which grades a completion once.
    - The whole may also be one part, one grader (which then alone makes the score), or the path of a .yaml or
      .json file that holds any of these. From Python, functions and graders may stand where names do.

    Args:
        spec: see above; a `Rubric` is given back as it is.
        where: what errors call the spec.

    Raises:
        UserError: the spec is malformed, or names what does not exist; the message names the place.
    """
    if isinstance(spec, Rubric):
        return spec
    spec = read_spec(spec)
    reader = _Reader()
    if isinstance(spec, list | tuple):
        return reader.rubric(spec, where, 0)
    if isinstance(spec, Mapping) and _has(spec, _PART_KEYS):
        return reader.rubric([spec], where, 0)
    grader = reader.grader(spec, where, 0)
    if isinstance(grader, Rubric):
        return grader
    with _at(where):
        # The parts of a rubric are known by name, and a lambda has none.
        return Rubric(score(grader, name="score" if getattr(grader, "name", "") == "<lambda>" else None))


def read_spec(spec: object) -> Any:
    """What the file holds that `spec` is the path of; any other spec as it is.

    Raises:
        UserError: the file is missing or not valid.
    """
    if not isinstance(spec, str | Path) or not str(spec).endswith(_FILES):
        return spec
    path = Path(spec)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"The rubric file {str(path)!r} is no UTF-8 text; save it as that.") from None
    except OSError as error:
        raise UserError(
            f"The rubric file {str(path)!r} cannot be read ({error.strerror}); give the path of a YAML or JSON file."
        ) from None
    return _parsed(text, path)


def _parsed(text: str, path: Path) -> Any:
    import yaml

    try:
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"The rubric file {str(path)!r} is not valid ({reason}); mend it.") from None


class _Reader:
    """Turns a spec into graders; what is one object in the spec becomes one grader."""

    def __init__(self) -> None:
        # With the mapping itself, so that no other can get its id while this is used.
        self._read: dict[int, tuple[Mapping[str, Any], Grader]] = {}

    def rubric(self, spec: Any, where: str, depth: int) -> Rubric:
        """The rubric of a list of parts."""
        parts = [self._part(item, f"{where}[{number}]", depth) for number, item in enumerate(_list(spec, where))]
        with _at(where):
            return Rubric(*parts)

    def grader(self, spec: Any, where: str, depth: int) -> Grader:
        """The grader that is named, or that a mapping of a combinator describes."""
        if spec is None:
            raise UserError(f"{where} is empty; give a verifier's name, or a mapping that describes a grader.")
        if isinstance(spec, list | tuple):
            raise UserError(
                f"{where} is a list; put it under one of the keys {_listed(('rubric', 'product', 'first'))}."
            )
        if not isinstance(spec, Mapping):
            with _at(where):
                return as_grader(spec)
        if id(spec) not in self._read:
            self._read[id(spec)] = (spec, self._combinator(spec, where, depth + 1))
        return self._read[id(spec)][1]

    def _combinator(self, spec: Mapping[str, Any], where: str, depth: int) -> Grader:
        if depth > _DEEPEST:
            whole = where.partition(".")[0]
            raise UserError(f"{whole} is nested more than {_DEEPEST} deep; flatten it, or see whether it holds itself.")
        if _has(spec, _PART_KEYS):
            raise UserError(
                f"{where} is a part where a grader is to stand; make it a part of a list under rubric: or product:."
            )
        entry = _entry(spec, _COMBINATOR_KEYS, where)
        inside = f"{where}.{entry.key}"
        if entry.key == "rubric":
            return self.rubric(entry.content, inside, depth)
        if entry.key == "threshold":
            return self._threshold(entry, where, depth)
        items = enumerate(_list(entry.content, inside))
        parts = [self._part_or_grader(item, f"{inside}[{number}]", depth) for number, item in items]
        with _at(where):
            return product(*parts) if entry.key == "product" else first(*parts, **entry.settings)

    def _threshold(self, entry: _Entry, where: str, depth: int) -> Grader:
        grader = self.grader(entry.content, f"{where}.threshold", depth)
        options = _options(entry.settings.get("options"), where)
        with _at(where):
            part = make_part("score", grader, entry.settings.get("name"), 1.0, False, options)
            return Threshold(part, _number(entry.settings.get("at_least", 0.5)))

    def _part_or_grader(self, spec: Any, where: str, depth: int) -> Part | Grader:
        if isinstance(spec, Mapping) and _has(spec, _PART_KEYS):
            return self._part(spec, where, depth)
        return self.grader(spec, where, depth)

    def _part(self, spec: Any, where: str, depth: int) -> Part:
        is_grader = isinstance(spec, Mapping) and _has(spec, _COMBINATOR_KEYS) and not _has(spec, _PART_KEYS)
        if not isinstance(spec, Mapping) or is_grader:
            raise UserError(
                f"{where} is {reprlib.repr(spec)}, which is no part; write gate:, score: or metric: before the grader."
            )
        kind, content, settings = _entry(spec, _PART_KEYS, where)
        grader = self.grader(content, f"{where}.{kind}", depth)
        options = _options(settings.get("options"), where)
        weight = _number(settings.get("weight", 1.0 if kind == "score" else 0.0))
        with _at(where):
            return make_part(
                cast(Kind, kind), grader, settings.get("name"), weight, settings.get("passes", False), options
            )


def _entry(spec: Mapping[str, Any], known: Mapping[str, tuple[str, ...]], where: str) -> _Entry:
    found = [key for key in known if key in spec]
    if not found:
        settings = {setting for settings in known.values() for setting in settings}
        strange = [str(key) for key in spec if key not in settings]
        cure = did_you_mean(strange[0], known) if strange else "add one of them."
        raise UserError(f"{where} has {_listed(spec) or 'nothing'} and none of the keys {_listed(known)}; {cure}")
    if len(found) > 1:
        raise UserError(f"{where} has both {found[0]!r} and {found[1]!r}; make each an entry of its own.")
    key = found[0]
    for setting in spec:
        if setting not in (key, *known[key]):
            raise UserError(f"{where} has no key {setting!r} beside {key!r}; {did_you_mean(str(setting), known[key])}")
    return _Entry(key, spec[key], {name: value for name, value in spec.items() if name != key})


def _list(spec: Any, where: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(spec, list | tuple):
        raise UserError(f"{where} is {reprlib.repr(spec)}; make it a list.")
    return spec


def _options(options: Any, where: str) -> dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise UserError(f"{where}.options is {reprlib.repr(options)}; make it a mapping of arguments to their values.")
    return dict(options)


def _number(value: Any) -> Any:
    """`value`, or the number that it spells: to YAML 1e-3 is a text."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _has(spec: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    return not spec.keys().isdisjoint(keys)


def _listed(keys: Iterable[object]) -> str:
    return ", ".join(map(repr, keys))


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Names the place in a mistake that is found in making a part."""
    try:
        yield
    except UserError as error:
        message = str(error)
        raise UserError(f"In {where}, {message[:1].lower()}{message[1:]}") from None
