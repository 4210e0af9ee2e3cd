r"""What may stand on the left of `=` as the name of a value: `x`, `a_1`, `f(3)`, `P(A)`, `\angle ABC`, `AB`, `Area`."""

from __future__ import annotations

from .nodes import Apply, Constant, Expr, Number, Symbol
from .parser import Parser
from .tokens import Token, Unreadable
from .vocabulary import GREEK

_PREFIXES = frozenset({"angle", "triangle", "overline", "vec", "overrightarrow", "hat", "bar", "widehat", "partial"})
_OF_ONE_NAME = frozenset("sin cos tan cot sec csc arcsin arccos arctan ln log re im arg conj det".split())
_UNKNOWNS = frozenset("xyzt")
_LONGEST = 24


def name_of(tokens: list[Token]) -> str | None:
    """The name that the tokens are; None if they are anything else, such as a sum."""
    if not tokens or len(tokens) > _LONGEST:
        return None
    if len(tokens) == 1 and tokens[0].kind == "word":
        return _word(tokens[0])
    if all(token.kind == "word" and token.in_text for token in tokens):
        return " ".join(token.text for token in tokens)
    if _is_labelled(tokens) or _is_derivative(tokens):
        return "".join(token.text for token in tokens if token.text not in ("{", "}"))
    try:
        return _of_expression(Parser(tokens).whole())
    except Unreadable:
        return None


def is_variable(name: str) -> bool:
    """Whether the name is a single letter, perhaps with a subscript, so that another letter is another variable."""
    base = name.partition("_")[0].rstrip("'")
    return len(base) == 1 or base in GREEK


def argument_of(name: str) -> str | None:
    """The variable that a name depends on: x of `f(x)`, n of `a_n`; None if it depends on none."""
    if name.endswith(")") and "(" in name:
        argument = name[name.index("(") + 1 : -1]
        return argument if len(argument) == 1 and argument.isalpha() else None
    _, _, index = name.partition("_")
    return index if len(index) == 1 and index.isalpha() else None


def _argument(expr: Expr) -> str:
    if isinstance(expr, Number):
        return str(expr.value)
    return expr.name if isinstance(expr, Symbol | Constant) else "..."


def _word(token: Token) -> str | None:
    word = token.text
    if token.in_text or len(word) == 1:
        return None if word in ("e", "i") and not token.in_text else word
    # AB is a segment, xy a product.
    return word if word.isupper() or (word[0].isupper() and len(word) > 2) or len(word) > 4 else None


def _is_labelled(tokens: list[Token]) -> bool:
    r"""`\angle ABC`, `m\angle A`, `P(A \mid B)`, `|AB|`, `S_{\triangle ABC}`: letters and signs without arithmetic."""
    texts = [token.text for token in tokens]
    if any(token.kind == "command" and token.text in _PREFIXES for token in tokens):
        return not any(
            token.kind == "number" or token.text in ("+", "-", "/", "frac", "sqrt", "^", "cdot", "times")
            for token in tokens
        )
    if tokens[0].kind == "word" and tokens[0].text in (
        "P",
        "E",
        "f",
        "g",
        "h",
        "F",
        "G",
        "d",
        "N",
        "Pr",
        "Var",
        "D",
        "S",
    ):
        return len(tokens) > 2 and texts[1] in ("(", "[") and texts[-1] in (")", "]") and texts.count(texts[1]) == 1
    inner = tokens[1:-1]
    if texts[0] == texts[-1] == "|" and len(inner) == 1 and inner[0].kind == "word":
        return inner[0].text.isupper() or inner[0].text == "z"
    return False


def _is_derivative(tokens: list[Token]) -> bool:
    texts = [token.text for token in tokens]
    if len(texts) != 7 or [texts[at] for at in (0, 1, 3, 4, 6)] != ["frac", "{", "}", "{", "}"]:
        return False
    return all(len(texts[at]) == 2 and texts[at].startswith("d") for at in (2, 5))


def _of_expression(expr: Expr) -> str | None:
    if isinstance(expr, Symbol):
        return expr.name
    if not isinstance(expr, Apply):
        return None
    if expr.op.startswith("call:"):
        return f"{expr.op[5:]}({', '.join(map(_argument, expr.args))})"
    # The sine of an angle is asked for by name; sin x = 0 is an equation to be solved.
    if expr.op in _OF_ONE_NAME and isinstance(expr.args[-1], Symbol) and expr.args[-1].name not in _UNKNOWNS:
        return f"{expr.op} {expr.args[-1].name}"
    return None
