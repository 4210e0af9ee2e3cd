r"""From the text of an answer to its form: lists, sets, relations and values, each by the signs that only it has."""

from __future__ import annotations

from fractions import Fraction

from .forms import (
    Bracketed,
    Cases,
    Clock,
    Congruence,
    Division,
    Dots,
    Equation,
    FiniteSet,
    Form,
    Identity,
    Inequality,
    Listing,
    Matrix,
    Named,
    NumberSet,
    Numeral,
    Piece,
    Ratio,
    Region,
    Value,
    Words,
)
from .names import name_of
from .nodes import Apply, Expr, Number, Symbol
from .parser import Parser
from .quantities import read_quantity, resolved
from .regions import INFINITY, MINUS_INFINITY, REALS, combine, complement, intersect, point, region_of, union
from .signs import spread_signs
from .splitting import OPENING, closing_of, split, split_items, trimmed
from .tokens import Token, Unreadable
from .trees import multiplied, negated

_INEQUALITIES = frozenset({"<", ">", "le", "ge", "ne"})
_RELATIONS = _INEQUALITIES | {"=", "approx", "in", "notin"}
_CONGRUENCES = frozenset({"equiv", "pmod"})
_SET_OPERATIONS = ("cup", "setminus", "cap")
_JOINING = _RELATIONS | _CONGRUENCES | frozenset(_SET_OPERATIONS)
_FLIPPED = {"<": ">", ">": "<", "le": "ge", "ge": "le", "ne": "ne"}
# With two arguments in brackets, this is a number of combinations and no point.
_FUNCTIONS = frozenset("C")
_MATRICES = frozenset(f"begin:{kind}" for kind in "pmatrix bmatrix matrix smallmatrix Bmatrix array".split())


def read(tokens: list[Token], shy: bool = False) -> Form:
    """The form of an answer.

    Raises:
        Unreadable: it has none that the reader knows.
    """
    return Reader(shy).answer(trimmed(tokens))


class Reader:
    """Reads forms; `shy` says whether a bare letter after a number may be a unit."""

    def __init__(self, shy: bool) -> None:
        self.shy = shy
        self.depth = 0

    def answer(self, tokens: list[Token]) -> Form:
        """A list of items or a single one."""
        self.depth += 1
        if self.depth > 20:
            raise Unreadable("brackets are nested too deep")
        tokens = trimmed(tokens)
        if not tokens:
            raise Unreadable("there is nothing to read")
        if tokens[0].text == "begin:cases" and closing_of(tokens, 0) == len(tokens) - 1:
            form = self._cases(tokens[1:-1])
        else:
            parts, joints = split_items(tokens)
            form = self.single(tokens) if len(parts) == 1 else self._joined(parts, joints)
        self.depth -= 1
        return form

    def _joined(self, parts: list[list[Token]], joints: set[str]) -> Form:
        compound = self._sum_of_quantities(parts, joints)
        if compound is not None:
            return compound
        forms = [self.single(trimmed(part)) for part in parts]
        forms = [form for form in forms if not _is_domain(form)] or forms
        if len(forms) == 1:
            return forms[0]
        if all(isinstance(form, Region) and form.variable is not None for form in forms):
            return self._conditions([form for form in forms if isinstance(form, Region)], joints)
        if joints == {"or"} and all(isinstance(form, Region) for form in forms):
            return union([form for form in forms if isinstance(form, Region)], disjoint=True)
        spread: list[Form] = []
        for form in forms:
            spread.extend(form.items if isinstance(form, Listing) else (form,))
        return Listing(_with_names(tuple(spread)), joints != {","})

    def _sum_of_quantities(self, parts: list[list[Token]], joints: set[str]) -> Form | None:
        """`2 hours and 30 minutes`, `5 feet, 6 inches`."""
        if len(parts) == 2 and joints <= {"and", ","} and all(part and part[0].kind == "number" for part in parts):
            try:
                value = read_quantity([*parts[0], *parts[1]])
            except Unreadable:
                return None
            return value if value.unit and not value.unit.counted and isinstance(value.expr, Number) else None
        return None

    def _conditions(self, regions: list[Region], joints: set[str]) -> Form:
        """Inequalities side by side: `or` unites them; `and` and commas intersect, unless nothing would be left."""
        if len({region.variable for region in regions}) > 1:
            return Listing(tuple(regions))
        if "or" in joints:
            return union(regions, disjoint=True)
        met = intersect(regions)
        return met if met.pieces or "and" in joints else union(regions, disjoint=True)

    def single(self, tokens: list[Token]) -> Form:
        """One item, which may be a set expression, a relation or a value."""
        self.depth += 1
        if self.depth > 40:
            raise Unreadable("brackets are nested too deep")
        if not tokens:
            raise Unreadable("an item is empty")
        form = self._single(tokens)
        self.depth -= 1
        return form

    def _single(self, tokens: list[Token]) -> Form:
        if len(tokens) == 1 and tokens[0].text == "ldots":
            return Dots()
        texts = {token.text for token in tokens if token.kind != "word"}
        if not texts.isdisjoint(_JOINING):
            joined = self._joined_by_sign(tokens, texts)
            if joined is not None:
                return joined
        if not texts.isdisjoint(_MATRICES):
            return self._matrix(tokens)
        if tokens[0].kind != "word" and (tokens[0].text in OPENING - {"{"} or tokens[0].text == "]"):
            bracketed = self._bracketed(tokens)
            if bracketed is not None:
                return bracketed
        if tokens[0].text.startswith("set:") or tokens[0].text == "emptyset":
            return _number_set(tokens)
        return self._scalar(tokens)

    def _joined_by_sign(self, tokens: list[Token], texts: set[str]) -> Form | None:
        """A congruence, a relation or an operation on sets; None if the signs of all of them stand in brackets."""
        if not texts.isdisjoint(_CONGRUENCES):
            return self._congruence(tokens)
        relation = split(tokens, texts & _RELATIONS)
        if len(relation.parts) > 1:
            return self._relation(relation.parts, relation.signs)
        for sign in _SET_OPERATIONS:
            operation = split(tokens, {sign} & texts)
            if len(operation.parts) > 1:
                return combine(sign, [self.single(trimmed(part)) for part in operation.parts])
        return None

    def _scalar(self, tokens: list[Token]) -> Form:
        for special in (self._clock, self._ratio, _numeral, self._division, self._point) if len(tokens) > 2 else ():
            form = special(tokens)
            if form is not None:
                return form
        value = read_quantity(tokens, self.shy)
        return spread_signs(value)

    def _point(self, tokens: list[Token]) -> Form | None:
        """`A(1, 2)`, a point with its name."""
        name = tokens[0]
        if name.kind != "word" or not name.text.isupper() or name.text in _FUNCTIONS or len(tokens) < 5:
            return None
        if (
            tokens[1].text != "("
            or closing_of(tokens, 1) != len(tokens) - 1
            or len(split(tokens[2:-1], {","}).parts) < 2
        ):
            return None
        return self.single(tokens[1:])

    def _clock(self, tokens: list[Token]) -> Form | None:
        """`9:00`, `8:15 AM`, `12:30:05`."""
        if all(token.text != ":" for token in tokens):
            return None
        half: str | None = None
        letters = "".join(token.text for token in tokens[3:] if token.kind == "word").casefold()
        rest = [token for token in tokens if token.kind != "word" and token.text != "."]
        if letters:
            if letters not in ("am", "pm"):
                return None
            half = letters
        if len(rest) not in (3, 5) or [token.text for token in rest[1::2]] != [":"] * (len(rest) // 2):
            return None
        numbers = rest[::2]
        if any(token.kind != "number" or not token.text.isdigit() for token in numbers):
            return None
        if any(len(token.text) != 2 for token in numbers[1:]) or len(numbers[0].text) > 2:
            return None
        hours, minutes, *seconds = (int(token.text) for token in numbers)
        if hours > 24 or minutes > 59 or (seconds and seconds[0] > 59):
            return None
        if half is not None:
            hours = hours % 12 + (12 if half == "pm" else 0)
        return Clock(hours * 60 + minutes, seconds[0] if seconds else 0, half)

    def _ratio(self, tokens: list[Token]) -> Form | None:
        parts = split(tokens, {":"}).parts
        if len(parts) == 1:
            parts = _around_to(tokens)
        if len(parts) == 1:
            return None
        return Ratio(tuple(self.single(part) for part in parts))

    def _division(self, tokens: list[Token]) -> Form | None:
        """`5 remainder 2`, `5 R 2`."""
        for at, token in enumerate(tokens):
            if token.kind == "word" and token.text.casefold() in ("remainder", "r", "rem") and 0 < at < len(tokens) - 1:
                if token.text in ("r", "R") and not (tokens[at - 1].kind == tokens[at + 1].kind == "number"):
                    continue
                head = tokens[:at]
                while head and (head[-1].text == "," or head[-1].text.casefold() in ("with", "and", "a")):
                    head = head[:-1]
                tail = [t for t in tokens[at + 1 :] if t.text.casefold() not in ("of", "is", ":")]
                return Division(Parser(head).whole(), Parser(tail).whole())
        return None

    def _bracketed(self, tokens: list[Token]) -> Form | None:
        """What stands in brackets that close at the very end; None if they do not, or hold a single value."""
        if tokens[0].text in "[]" and tokens[-1].text in "[]" and tokens[0].text + tokens[-1].text != "[]":
            # Half-open intervals as they are written in French: [2, 5[ and ]2, 5].
            inner, opening, closing = tokens[1:-1], "[" if tokens[0].text == "[" else "(", ")"
            closing = "]" if tokens[-1].text == "]" else ")"
        elif closing_of(tokens, 0) == len(tokens) - 1:
            inner, opening, closing = tokens[1:-1], tokens[0].text, tokens[-1].text
        else:
            return None
        if opening == "lbrace":
            if closing != "rbrace":
                raise Unreadable("a set does not close with a brace")
            return self._set(inner)
        if len(split(inner, {"newline"}).parts) > 1:
            raise Unreadable("a line ends inside brackets")
        parts = split(inner, {",", ";"}).parts
        if len(parts) == 1:
            if not inner:
                raise Unreadable("brackets are empty")
            inside = self.single(trimmed(inner)) if opening == "(" else None
            return inside if isinstance(inside, Region | NumberSet | Matrix | Equation | Named) else None
        items = tuple(self.single(trimmed(part)) for part in parts)
        if len(items) == 2 and opening in "([" and closing in ")]":
            interval = _interval(opening, closing, items)
            if interval is not None:
                return interval
        return Bracketed(opening, closing, items)

    def _set(self, inner: list[Token]) -> Form:
        if not inner:
            return FiniteSet(())
        builder = split(inner, {"mid", "|", ":"})
        if len(builder.parts) == 2:
            return self._builder(*builder.parts)
        parts = split(inner, {",", ";"}).parts
        items: list[Form] = []
        for part in parts:
            form = self.single(trimmed(part))
            items.extend(form.items if isinstance(form, Listing) else (form,))
        return FiniteSet(tuple(items))

    def _builder(self, element: list[Token], condition: list[Token]) -> Form:
        r"""`\{x \mid x > 2\}`: the region that the condition describes, if it is solved for the element."""
        form = self.answer(condition)
        name = name_of(split(element, {"in"}).parts[0])
        if isinstance(form, Region) and form.variable == name:
            return Region(form.pieces, None)
        raise Unreadable("a set is described by a condition that is not solved")

    def _cases(self, tokens: list[Token]) -> Form:
        rows = [row for row in split(tokens, {"newline"}).parts if row]
        cells = [split(row, {"&"}).parts for row in rows]
        if all(len(cell) == 2 and _states_condition(cell[1]) for cell in cells):
            return Cases(tuple((self.answer(cell[0]), self._condition(cell[1])) for cell in cells))
        forms: list[Form] = []
        for cell in cells:
            form = self.answer([token for part in cell for token in part])
            forms.extend(form.items if isinstance(form, Listing) else (form,))
        return Listing(_with_names(tuple(forms))) if len(forms) > 1 else forms[0]

    def _condition(self, tokens: list[Token]) -> Form:
        while tokens and tokens[0].kind == "word" and tokens[0].text.casefold() in ("if", "for", "when", "where"):
            tokens = tokens[1:]
        if len(tokens) == 1 and tokens[0].text.casefold() in ("otherwise", "else"):
            return Words(("otherwise",))
        return self.answer(tokens)

    def _congruence(self, tokens: list[Token]) -> Form:
        halves = split(tokens, {"equiv"}).parts
        if len(halves) > 2:
            raise Unreadable("there are several signs of congruence")
        left = Parser(trimmed(halves[0])).whole() if len(halves) == 2 else None
        rest = halves[-1]
        for at, token in enumerate(rest):
            if token.text in ("pmod", "bmod") or (token.kind == "word" and token.text == "mod"):
                residue, modulus = rest[:at], rest[at + 1 :]
                if residue and residue[-1].text == "(":
                    residue = residue[:-1]
                    modulus = modulus[:-1]
                return Congruence(left, Parser(trimmed(residue)).whole(), Parser(trimmed(modulus)).whole())
        raise Unreadable("a congruence has no modulus")

    def _matrix(self, tokens: list[Token]) -> Form:
        """A matrix, perhaps with a factor before it."""
        at = next(at for at, token in enumerate(tokens) if token.text.startswith("begin:"))
        kind = tokens[at].text[6:]
        end = closing_of(tokens, at)
        if end is None:
            raise Unreadable("a matrix does not end")
        before, after = tokens[:at], tokens[end + 1 :]
        if before and after and before[-1].text in "([" and after[0].text in ")]":
            before, after = before[:-1], after[1:]
        if after and [token.text for token in after] not in (["^", "T"], ["^", "{", "T", "}"], ["^", "top"]):
            raise Unreadable("something follows a matrix")
        parser = Parser(tokens[at + 1 : end + 1])
        rows = [[resolved(entry).expr for entry in row] for row in parser.rows(kind)]
        if after:
            rows = [list(column) for column in zip(*rows, strict=True)]
        if before and before[-1].text in ("cdot", "times", "*"):
            before = before[:-1]
        if before:
            factor = negated(Number(Fraction(1))) if [t.text for t in before] == ["-"] else Parser(before).whole()
            rows = [[multiplied(factor, entry) for entry in row] for row in rows]
        return Matrix(tuple(tuple(row) for row in rows))

    def _relation(self, parts: list[list[Token]], signs: list[str]) -> Form:
        if any(not part for part in parts):
            raise Unreadable("a side of a relation is empty")
        if set(signs) <= {"=", "approx"}:
            return self._equality(parts, signs)
        if signs == ["in"]:
            return self._membership(parts)
        if set(signs) <= _INEQUALITIES:
            return self._inequality(parts, signs)
        if signs[0] == "=" and set(signs[1:]) <= _INEQUALITIES and name_of(parts[0]):
            return self._inequality(parts[1:], signs[1:])
        raise Unreadable("relations of several kinds stand in one line")

    def _equality(self, parts: list[list[Token]], signs: list[str]) -> Form:
        name = name_of(parts[0])
        if name is None and len(parts) == 2 and signs == ["="] and name_of(parts[1]):
            parts = [parts[1], parts[0]]
            name = name_of(parts[0])
        # Of "x = 2/3 = 0.667 (about)", the exact side counts.
        while len(parts) > 1 + (name is not None) and signs[-1] == "approx":
            parts, signs = parts[:-1], signs[:-1]
        if "approx" in signs[1 if name else 0 :]:
            raise Unreadable("an exact side follows an approximate one")
        if len(parts) == 1:
            return self.single(parts[0])
        if name is not None:
            named = self._named(name, parts)
            if named is not None:
                return named
        coordinates = self._coordinates(parts)
        if coordinates is not None:
            return coordinates
        values = [read_quantity(part, self.shy) for part in parts]
        exprs = tuple(value.expr for value in values)
        if not any(_has_symbols(expr) for expr in exprs):
            return Identity(exprs)
        if len(exprs) != 2:
            raise Unreadable("an equation has more than two sides")
        return Equation(exprs[0], exprs[1])

    def _named(self, name: str, parts: list[list[Token]]) -> Form | None:
        forms = [self.single(trimmed(part)) for part in parts[1:]]
        if len(forms) > 1:
            values = [form for form in forms if isinstance(form, Value)]
            if len(values) < len(forms):
                return None
            exprs = tuple(value.expr for value in values)
            if any(_has_symbols(expr) for expr in exprs):
                return None
            # Kept as an identity, so that a false step on the way is noticed.
            return Named(name, Identity(exprs))
        return Named(name, forms[0])

    def _coordinates(self, parts: list[list[Token]]) -> Form | None:
        """`(x, y) = (1, 2)` as x = 1, y = 2."""
        if len(parts) != 2 or parts[0][0].text != "(" or closing_of(parts[0], 0) != len(parts[0]) - 1:
            return None
        names = [name_of(part) for part in split(parts[0][1:-1], {","}).parts]
        right = self.answer(parts[1])
        points = right.items if isinstance(right, Listing) else (right,)
        if None in names or len(names) < 2:
            return None
        found: list[Form] = []
        for pointed in points:
            if isinstance(pointed, Region) and len(pointed.pieces) == 1:
                pointed = Bracketed("(", ")", (Value(pointed.pieces[0].low), Value(pointed.pieces[0].high)))
            if not isinstance(pointed, Bracketed) or len(pointed.items) != len(names):
                return None
            found.append(Bracketed("(", ")", pointed.items))
        if len(found) > 1:
            return Listing(tuple(found))
        assert isinstance(found[0], Bracketed)
        pairs = zip(names, found[0].items, strict=True)
        return Listing(tuple(Named(str(name), item) for name, item in pairs))

    def _membership(self, parts: list[list[Token]]) -> Form:
        name = name_of(parts[0])
        right = self.answer(parts[1])
        if name is None:
            raise Unreadable("something that is no variable lies in a set")
        if isinstance(right, Bracketed):
            right = _as_region(right) or right
        return Region(right.pieces, name) if isinstance(right, Region) else Named(name, right)

    def _inequality(self, parts: list[list[Token]], signs: list[str]) -> Form:
        distance = _distance_region(parts, signs)
        if distance is not None:
            return distance
        names = [name_of(part) for part in parts]
        if len(parts) == 2:
            if names[0] and not (names[1] and not _is_constant_name(names[1])):
                return _half_line(signs[0], names[0], self._bound(parts[1]))
            if names[1] and not names[0]:
                return _half_line(_FLIPPED[signs[0]], names[1], self._bound(parts[0]))
            left, right = self._bound(parts[0]), self._bound(parts[1])
            if not _has_symbols(left) and not _has_symbols(right):
                raise Unreadable("an inequality between numbers is no answer")
            return Inequality(signs[0], left, right)
        if len(parts) == 3 and names[1] and "ne" not in signs:
            low = _half_line(_FLIPPED[signs[0]], names[1], self._bound(parts[0]))
            high = _half_line(signs[1], names[1], self._bound(parts[2]))
            if (signs[0] in "<le") != (signs[1] in "<le"):
                raise Unreadable("the signs of an inequality point in different ways")
            return _between(low, high)
        raise Unreadable("an inequality is not solved for a variable")

    def _bound(self, part: list[Token]) -> Expr:
        return read_quantity(part, self.shy).expr


def _around_to(tokens: list[Token]) -> list[list[Token]]:
    """The sides of `1 to 2`."""
    for at, token in enumerate(tokens):
        if token.kind == "word" and token.text.casefold() == "to" and 0 < at < len(tokens) - 1:
            return [tokens[:at], tokens[at + 1 :]]
    return [tokens]


def _distance_region(parts: list[list[Token]], signs: list[str]) -> Region | None:
    """The numbers whose distance from a number is bounded on one side: `|x - 2| < 3`."""
    if len(parts) != 2 or signs[0] not in ("<", "le", ">", "ge"):
        return None
    distance, bound, sign = parts[0], parts[1], signs[0]
    if distance[0].text != "|":
        distance, bound, sign = bound, distance, _FLIPPED[sign]
    if distance[0].text != "|" or distance[-1].text != "|":
        return None
    inner, limit = Parser(distance[1:-1]).whole(), Parser(bound).whole()
    terms = inner.args if isinstance(inner, Apply) and inner.op == "add" else (inner,)
    if not isinstance(terms[0], Symbol) or len(terms) > 2 or any(_has_symbols(term) for term in (*terms[1:], limit)):
        return None
    center = negated(terms[1]) if len(terms) == 2 else Number(Fraction(0))
    low, high = Apply("add", (center, negated(limit))), Apply("add", (center, limit))
    inside = Region((Piece(low, high, sign in ("le", ">"), sign in ("le", ">")),), terms[0].name)
    return inside if sign in ("<", "le") else complement(inside)


def _is_domain(form: Form) -> bool:
    r"""Whether the form only says of what kind a parameter is: `k \in \mathbb{Z}`."""
    if isinstance(form, Region):
        return form.variable is not None and form.pieces == REALS.pieces
    return isinstance(form, Named) and isinstance(form.form, NumberSet)


def _states_condition(tokens: list[Token]) -> bool:
    return any(token.text in _INEQUALITIES | {"in", "="} for token in tokens) or any(
        token.text.casefold() in ("otherwise", "else", "if") for token in tokens if token.kind == "word"
    )


def _with_names(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """`x = 1, 2` as x = 1, x = 2: items without a name after one with a name have that name."""
    if not forms or not isinstance(forms[0], Named) or any(isinstance(form, Named) for form in forms[1:]):
        return forms
    return (forms[0], *(Named(forms[0].name, form) for form in forms[1:]))


def _has_symbols(expr: Expr) -> bool:
    if isinstance(expr, Apply):
        return expr.op.startswith("call:") or any(_has_symbols(arg) for arg in expr.args)
    return isinstance(expr, Symbol)


def _is_constant_name(name: str) -> bool:
    return name in ("e", "i", "pi")


def _interval(opening: str, closing: str, items: tuple[Form, ...]) -> Region | None:
    """Two values between brackets that only an interval has: mixed ones, or with an infinite end."""
    low, high = items
    if not isinstance(low, Value) or not isinstance(high, Value):
        return None
    infinite = low.expr == MINUS_INFINITY or high.expr == INFINITY
    if not infinite and (opening == "(") == (closing == ")"):
        return None
    return Region((Piece(low.expr, high.expr, opening == "[", closing == "]"),))


def _as_region(form: Form) -> Region | None:
    """A region, or a pair in brackets read as an interval."""
    if not isinstance(form, Region | Bracketed):
        return None
    try:
        return region_of(form)
    except Unreadable:
        return None


def _number_set(tokens: list[Token]) -> Form:
    if len(tokens) == 1 and tokens[0].text == "emptyset":
        return FiniteSet(())
    name = tokens[0].text.removeprefix("set:")
    mark = "".join(token.text for token in tokens[1:] if token.text not in "^{}_")
    if mark not in ("", "+", "-", "*", "0", "+0"):
        raise Unreadable("something follows a set of numbers")
    if name != "R":
        return NumberSet(name + mark)
    zero = Number(Fraction(0))
    if mark == "":
        return REALS
    if mark == "+":
        return Region((Piece(zero, INFINITY, False, False),))
    if mark == "-":
        return Region((Piece(MINUS_INFINITY, zero, False, False),))
    return complement(point(zero))


def _half_line(sign: str, name: str, bound: Expr) -> Region:
    if sign == "ne":
        return Region(complement(point(bound)).pieces, name)
    if sign in ("<", "le"):
        return Region((Piece(MINUS_INFINITY, bound, False, sign == "le"),), name)
    return Region((Piece(bound, INFINITY, sign == "ge", False),), name)


def _between(first: Region, second: Region) -> Region:
    below, above = first.pieces[0], second.pieces[0]
    if below.high != INFINITY:
        below, above = above, below
    return Region((Piece(below.low, above.high, below.with_low, above.with_high),), first.variable)


def _numeral(tokens: list[Token]) -> Form | None:
    """`101_2`, `2A_{16}`, `101_{\\text{two}}`."""
    at = next((at for at, token in enumerate(tokens) if token.text == "_"), 0)
    written = tokens[:at]
    if at > 2 and written[0].text == "(" and written[-1].text == ")":
        written = written[1:-1]
    if at == 0 or any(token.kind not in ("number", "word") for token in written):
        return None
    digits = "".join(token.text for token in written)
    tail = [token for token in tokens[at + 1 :] if token.text not in ("{", "}", "(", ")")]
    if not digits.isalnum() or not digits[0].isdigit() or len(tail) != 1:
        return None
    base = _BASE_WORDS.get(tail[0].text.casefold(), tail[0].text)
    if not str(base).isdecimal() or not 2 <= int(base) <= 36:
        raise Unreadable(f"{tail[0].text!r} is no base")
    return Numeral(digits.upper(), int(base))


_BASE_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "sixteen": 16,
}  # fmt: skip
