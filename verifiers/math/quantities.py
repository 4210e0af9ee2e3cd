r"""A value with its unit: currency signs before it, units, counted things, percent and degree signs after it.

quantity = [currency] expression { multiplier } [unit]
unit     = factor { (nothing | \cdot | /  | per) factor }
factor   = [square | cubic] word [squared | cubed | ^ integer]
"""

from __future__ import annotations

from fractions import Fraction

from .forms import Value
from .nodes import Apply, Constant, Expr, Number
from .parser import Parser
from .tokens import Token, Unreadable, plain
from .trees import multiplied
from .units import COMPOUNDS, GENERIC, MEASURES, POWER_WORDS, SHY, Unit, unit_of
from .vocabulary import FUNCTIONS, GREEK

DEGREE = Unit((("angle", 1),), Fraction(1))
PERCENT = Unit((("percent", 1),), Fraction(1))
MULTIPLIERS = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "trillion": 1_000_000_000_000,
    "dozen": 12,
    "lakh": 100_000,
    "crore": 10_000_000,
}
_CURRENCIES = {
    "dollar": "dollar",
    "euro": "euro",
    "pounds": "pounds_sterling",
    "yen": "yen",
    "rupee": "rupee",
    "cent": "cent",
}
_CURRENCY_WORDS = {
    "usd": "dollar",
    "eur": "euro",
    "gbp": "pounds_sterling",
    "rs": "rupee",
    "inr": "rupee",
    "us": "dollar",
}
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_LETTER_UNITS = {"L": "l", "N": "newton", "J": "joule", "W": "watt", "V": "volt", "K": "kelvin", "A": "ampere"}
_SHORTEST_BARE_NOUN = 4
_SHORTEST_COMPOUND = 4


def read_quantity(tokens: list[Token], shy: bool = False) -> Value:
    """The value, with its unit, that the tokens are as a whole.

    Args:
        tokens: an answer without relations and lists.
        shy: whether a bare letter such as `m` after a number and a space may be a unit.

    Raises:
        Unreadable: they are none.
    """
    compound = _compound(tokens) if len(tokens) >= _SHORTEST_COMPOUND else None
    if compound is not None:
        return compound
    tokens, currency = _without_currency(_with_slashes(tokens))
    start = _unit_start(tokens, shy)
    body, tail = tokens[:start], tokens[start:]
    factor, tail = _multipliers(tail)
    value = resolved(Parser(body).whole())
    expr = value.expr if factor == 1 else multiplied(value.expr, Number(Fraction(factor)))
    unit = _temperature(tail, value.unit) or (_unit(tail) if tail else None)
    if currency is not None and unit is None:
        unit = unit_of([(currency, 1)])
    if unit is None or not unit.dimensions:
        unit = value.unit
    elif value.unit is not None and value.unit not in (unit, DEGREE):
        raise Unreadable("there are two units")
    return Value(expr, unit)


def resolved(expr: Expr) -> Value:
    """The expression without `degree` and `percent`: of the whole, they are its unit; inside, factors.

    Signs of degree in an expression are pi/180 (`\\sin 30^\\circ`), percent signs 1/100.
    """
    if not isinstance(expr, Apply):
        return Value(expr)
    unit, inner = _trailing_mark(expr)
    if unit is not None:
        return Value(_converted(inner), unit)
    return Value(_converted(expr))


def _trailing_mark(expr: Expr) -> tuple[Unit | None, Expr]:
    """The unit that a sign at the end of the expression gives to all of it, and the expression without it."""
    if not isinstance(expr, Apply):
        return None, expr
    if expr.op in ("degree", "percent"):
        return (DEGREE if expr.op == "degree" else PERCENT), expr.args[0]
    if expr.op in ("neg", "pm", "mp", "mul"):
        unit, inner = _trailing_mark(expr.args[-1])
        return (unit, Apply(expr.op, (*expr.args[:-1], inner))) if unit else (None, expr)
    if expr.op == "div":
        unit, inner = _trailing_mark(expr.args[-1])
        if unit == PERCENT:
            return unit, Apply("div", (expr.args[0], inner))
    if expr.op == "add":
        marks = [_trailing_mark(arg) for arg in expr.args]
        # 60^\circ + 30^\circ is an angle, and so is 33\frac13\%, whose fraction alone carries the sign.
        units = {unit for unit, _ in marks}
        if marks[-1][0] and (len(units) == 1 or (units == {None, marks[-1][0]} and _is_mixed(expr))):
            return marks[-1][0], Apply("add", tuple(inner for _, inner in marks))
    return None, expr


def _is_mixed(expr: Apply) -> bool:
    return len(expr.args) == 2 and isinstance(expr.args[0], Number)


def _converted(expr: Expr) -> Expr:
    if not isinstance(expr, Apply):
        return expr
    args = tuple(_converted(arg) for arg in expr.args)
    if expr.op == "percent":
        return Apply("div", (args[0], Number(Fraction(100))))
    if expr.op == "degree":
        return Apply("div", (multiplied(args[0], Constant("pi")), Number(Fraction(180))))
    return Apply(expr.op, args)


def _without_currency(tokens: list[Token]) -> tuple[list[Token], str | None]:
    """The tokens without a currency sign before or after the number, and that currency."""
    for at, token in enumerate(tokens[:3]):
        if token.kind == "command" and token.text in _CURRENCIES:
            return tokens[:at] + tokens[at + 1 :], _CURRENCIES[token.text]
        if token.kind == "word" and token.text.casefold() in _CURRENCY_WORDS and at == 0 and len(tokens) > 1:
            rest = tokens[1:]
            if rest[0].kind == "command" and rest[0].text in _CURRENCIES:
                rest = rest[1:]
            elif rest[0].kind != "number":
                break
            return rest, _CURRENCY_WORDS[token.text.casefold()]
        if not (token.kind == "sign" and token.text in "+-("):
            break
    if len(tokens) > 1 and tokens[-1].kind == "command" and tokens[-1].text in _CURRENCIES:
        return tokens[:-1], _CURRENCIES[tokens[-1].text]
    return tokens, None


def _with_slashes(tokens: list[Token]) -> list[Token]:
    r"""The tokens with a fraction of units, `\frac{\text{m}}{\text{s}}`, as units with a slash between them."""
    for at in range(1, len(tokens) - 6):
        piece = tokens[at : at + 7]
        if [token.text for token in piece if token.kind != "word"] == ["frac", "{", "}", "{", "}"]:
            above, below = piece[2], piece[5]
            if above.kind == below.kind == "word" and above.in_text and below.in_text:
                return [*tokens[:at], above, plain(above, kind="sign", text="/"), below, *tokens[at + 7 :]]
    return tokens


_NESTING = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def _unit_start(tokens: list[Token], shy: bool) -> int:
    """Where the unit begins, in a tail that no expression follows; the length of the tokens if there is none."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += _NESTING.get(token.text, 0) if token.kind == "sign" else 0
        if at and depth == 0 and token.kind == "word" and _may_begin_unit(token, tokens[at - 1], shy):
            return at
        if at and depth == 0 and _text_in_power(tokens, at):
            return at
    return len(tokens)


def _text_in_power(tokens: list[Token], at: int) -> bool:
    """Whether a parenthesis of text begins here, as in `5 (apples)`."""
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    return tokens[at].text == "(" and following is not None and following.in_text and following.kind == "word"


def _may_begin_unit(token: Token, before: Token, shy: bool) -> bool:
    word = token.text.casefold()
    if before.text in ("_", "+", "-", "^", "cdot", "times", "*", "angle", "triangle"):
        return False
    if token.in_text:
        return word == "min" or (word not in ("e", "i", "pi", "infinity") and word not in FUNCTIONS)
    if word in FUNCTIONS and not (word == "min" and before.kind == "number"):
        return False
    if is_shy(token):
        return shy
    if word in SHY:
        return False
    if word in ("mod", "pi", "infinity") or token.text in GREEK:
        return False
    if len(word) == 1:
        return False
    if word == "of" and before.kind in ("number", "sign"):
        return True
    if word in MEASURES or word in COMPOUNDS or word in POWER_WORDS or word in MULTIPLIERS or word in GENERIC:
        return True
    if word in _ORDINALS and before.kind == "number" and not token.spaced:
        return True
    return token.spaced and len(word) >= _SHORTEST_BARE_NOUN and before.kind in ("number", "sign", "word")


def is_shy(token: Token) -> bool:
    """Whether a word is a unit only if a unit is expected there: `5 m`, which may as well be a product."""
    if token.kind != "word" or token.in_text or not token.spaced:
        return False
    return token.text.casefold() in SHY or token.text in _LETTER_UNITS


def _multipliers(tail: list[Token]) -> tuple[int, list[Token]]:
    factor = 1
    while tail and tail[0].kind == "word":
        word = tail[0].text.casefold()
        if word in _ORDINALS:
            tail = tail[1:]
            continue
        multiplier = MULTIPLIERS.get(word) or MULTIPLIERS.get(word.removesuffix("s"))
        if multiplier is None:
            break
        factor *= multiplier
        tail = tail[1:]
        if tail and tail[0].kind == "word" and tail[0].text.casefold() == "of":
            tail = tail[1:]
    return factor, tail


def _temperature(tail: list[Token], unit: Unit | None) -> Unit | None:
    words = [token.text.casefold() for token in tail]
    if unit == DEGREE and words in (["c"], ["celsius"]):
        return unit_of([("celsius", 1)])
    if unit == DEGREE and words in (["f"], ["fahrenheit"]):
        return unit_of([("fahrenheit", 1)])
    if len(words) == 2 and words[0] in ("degree", "degrees") and words[1] in ("celsius", "fahrenheit"):
        return unit_of([(words[1], 1)])
    return None


def _unit(tail: list[Token]) -> Unit:
    """The unit that the tokens are as a whole."""
    factors: list[tuple[str, int]] = []
    sign, pending, at = 1, 1, 0
    if tail[0].text == "(" and tail[-1].text == ")":
        tail = tail[1:-1]
    while at < len(tail):
        token = tail[at]
        word = token.text.casefold()
        if token.text in ("/",) or (token.kind == "word" and word in ("per", "a", "an") and factors):
            sign = -1
        elif token.text in ("cdot", "*", "."):
            pass
        elif token.text == "^" and factors:
            power, at = _power(tail, at)
            factors[-1] = (factors[-1][0], factors[-1][1] * power)
            continue
        elif token.kind == "word" and word in ("squared", "cubed") and factors:
            factors[-1] = (factors[-1][0], factors[-1][1] * POWER_WORDS[word])
        elif token.kind == "word" and word in POWER_WORDS:
            pending = POWER_WORDS[word]
        elif token.kind == "word" and (word in ("of", "a", "an") or (word == "each" and factors)):
            pass
        elif token.kind == "word":
            name = _LETTER_UNITS.get(token.text, word) if len(word) == 1 else word
            if len(name) == 1 and name not in MEASURES:
                raise Unreadable(f"{token.text!r} is no unit")
            factors.append((name, sign * pending))
            pending = 1
        else:
            raise Unreadable(f"{token.text!r} stands in a unit")
        at += 1
    unit = unit_of(factors)
    if unit is None or not factors:
        raise Unreadable(f"{' '.join(token.text for token in tail)!r} is no unit")
    return unit


def _power(tail: list[Token], at: int) -> tuple[int, int]:
    """The whole power after `^`, and where the unit goes on."""
    texts = [token.text for token in tail[at + 1 : at + 5]]
    if texts[:1] and tail[at + 1].kind == "number":
        digits, end = texts[0], at + 2
    elif texts[:1] == ["{"] and texts[2:3] == ["}"]:
        digits, end = texts[1], at + 4
    elif texts[:2] == ["{", "-"] and texts[3:4] == ["}"]:
        digits, end = "-" + texts[2], at + 5
    else:
        digits, end = "", at
    if digits.removeprefix("-") not in ("1", "2", "3"):
        raise Unreadable("a unit has an odd power")
    return int(digits), end


def _compound(tokens: list[Token]) -> Value | None:
    r"""`2 hours 30 minutes` or `30^\circ 15'`: several quantities of one kind, the larger units first."""
    angle = _degrees_and_minutes(tokens)
    if angle is not None:
        return angle
    starts = [at for at, token in enumerate(tokens) if token.kind == "number"]
    if len(starts) < 2 or starts[0] != 0 or any(tokens[at - 1].kind != "word" for at in starts[1:]):
        return None
    total = Fraction(0)
    unit: Unit | None = None
    last: Fraction | None = None
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        part = tokens[start + 1 : end]
        if any(token.kind != "word" for token in part) or not part:
            return None
        if part[-1].text.casefold() == "and":
            part = part[:-1]
        try:
            here = _unit(part)
        except (Unreadable, IndexError):
            return None
        if here.counted or (unit and here.dimensions != unit.dimensions) or (last and here.factor >= last):
            return None
        unit, last = unit or here, here.factor
        total += (tokens[start].value or 0) * here.factor
    assert unit is not None
    return Value(Number(total / unit.factor), unit)


def _degrees_and_minutes(tokens: list[Token]) -> Value | None:
    texts = [token.text for token in tokens]
    at = 1
    if texts[1:5] == ["^", "{", "circ", "}"]:
        at = 5
    elif texts[1:3] == ["^", "circ"]:
        at = 3
    elif texts[1:2] == ["degree"]:
        at = 2
    if at == 1 or tokens[0].kind != "number" or at >= len(tokens) or tokens[at].kind != "number":
        return None
    total = (tokens[0].value or Fraction(0)) + (tokens[at].value or Fraction(0)) / 60
    rest = [text for text in texts[at + 1 :] if text not in ("^", "{", "}")]
    if rest[:1] != ["'"]:
        return None
    if len(rest) > 1:
        second = tokens[texts.index(rest[1], at + 1)]
        if rest[2:] not in (["'", "'"], ['"']) or second.kind != "number":
            return None
        total += (second.value or Fraction(0)) / 3600
    return Value(Number(total), DEGREE)
