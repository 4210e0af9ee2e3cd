r"""What `\sum`, `\int`, `\lim` and `\frac{d}{dx}` are followed by."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from .nodes import Apply, Constant, Expr, Number, Symbol
from .tokens import Unreadable, plain
from .trees import replaced

if TYPE_CHECKING:
    from .parser import Parser


def series(parser: Parser, name: str) -> Expr:
    r"""The sum or product after `\sum` or `\prod`: its bounds, then a product."""
    parser.expect("_")
    parser.expect("{")
    variable = parser.primary()
    if not isinstance(variable, Symbol | Constant):
        raise Unreadable("a sum runs over something that is no variable")
    parser.expect("=")
    start = parser.sum()
    parser.expect("}")
    parser.expect("^")
    end = parser.braced() if parser.looking_at("{") else parser.argument()
    body = parser.product()
    name_of_variable = Symbol(variable.name)
    if isinstance(variable, Constant):
        body = replaced(body, variable, name_of_variable)
    return Apply(name, (body, name_of_variable, start, end))


def integral(parser: Parser) -> Expr:
    r"""The integral after `\int`: its bounds, if any, then everything up to `dx`."""
    bounds: list[Expr] = []
    if parser.looking_at("_"):
        parser.at += 1
        bounds.append(parser.argument())
        parser.expect("^")
        bounds.append(parser.argument())
    end = _differential(parser)
    variable = parser.tokens[end].text[1:] or parser.tokens[end + 1].text
    body_tokens = parser.tokens[parser.at : end]
    body = type(parser)(body_tokens).whole() if body_tokens else Number(Fraction(1))
    parser.at = end + (1 if parser.tokens[end].text[1:] else 2)
    return Apply("integral", (body, Symbol(variable), *bounds))


def _differential(parser: Parser) -> int:
    """Where the `dx` of the integral begins."""
    for at in range(parser.at, len(parser.tokens)):
        token = parser.tokens[at]
        following = parser.tokens[at + 1] if at + 1 < len(parser.tokens) else None
        if token.kind == "word" and token.text == "d" and following is not None and following.kind == "word":
            return at
        if token.kind == "word" and len(token.text) == 2 and token.text[0] == "d":
            return at
        if token.kind == "word" and len(token.text) > 2 and token.text[-2] == "d" and not token.in_text:
            head = plain(token, text=token.text[:-2])
            parser.tokens[at : at + 1] = [head, plain(token, text=token.text[-2:], spaced=False)]
            return at + 1
    raise Unreadable("an integral has no differential")


def limit(parser: Parser) -> Expr:
    r"""The limit after `\lim`: `_{x \to 0^+}`, then a product."""
    parser.expect("_")
    parser.expect("{")
    variable = parser.primary()
    if not isinstance(variable, Symbol):
        raise Unreadable("a limit is taken in something that is no variable")
    parser.expect("to")
    texts = [token.text for token in parser.tokens]
    depth, end = 1, parser.at
    while end < len(texts) and depth:
        depth += {"{": 1, "}": -1}.get(texts[end], 0)
        end += 1
    op, last = "limit", end - 1
    for length in (2, 4):
        side = [text for text in texts[last - length : last] if text not in "{}"]
        if side in (["^", "+"], ["^", "-"]):
            op, last = ("limit_right" if side[1] == "+" else "limit_left"), last - length
            break
    point = type(parser)(parser.tokens[parser.at : last]).whole()
    parser.at = end
    return Apply(op, (parser.product(), variable, point))


def derivative(parser: Parser) -> Expr | None:
    r"""`\frac{d}{dx} body`; None if it is not one."""
    texts = [token.text for token in parser.tokens[parser.at : parser.at + 6]]
    if texts[:5] != ["{", "d", "}", "{", texts[4] if len(texts) > 4 else ""] or len(texts) < 6 or texts[5] != "}":
        return None
    if len(texts[4]) != 2 or texts[4][0] != "d":
        return None
    parser.at += 6
    return Apply("derivative", (parser.product(), Symbol(texts[4][1])))
