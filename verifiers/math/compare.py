"""Whether an answer's form is the reference's: one comparator for each pair of kinds, and no comparator, no reward."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from . import equality
from .conventions import Conventions
from .exact import rational
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
from .magnitudes import Settle, ValueComparison, undecided
from .names import argument_of, is_variable
from .nodes import Apply, Constant, Expr, Number, Symbol
from .regions import region_of, union
from .tokens import Unreadable
from .trees import multiplied, negated, replaced
from .wording import phrase_of

_MOST_ITEMS = 200


class Comparison(ValueComparison):
    """Compares answers with references under some conventions."""

    def __init__(self, conventions: Conventions, settle: Settle = undecided) -> None:
        super().__init__(conventions, settle)
        self._depth = 0

    def matches(self, reference: Form, answer: Form) -> bool:
        """Whether `answer` is the reference answer."""
        if isinstance(reference, Named):
            return self._named(reference, answer)
        if isinstance(answer, Named):
            return self._unnamed(reference, answer)
        if isinstance(answer, Identity) and not isinstance(reference, Identity):
            return self._is_true(answer) and self.matches(reference, Value(answer.sides[-1]))
        comparator = _COMPARATORS.get((type(reference), type(answer)))
        return comparator is not None and comparator(self, reference, answer)

    def _named(self, reference: Named, answer: Form) -> bool:
        if isinstance(answer, Named):
            answer = _renamed(reference, answer)
            if not _names_agree(reference.name, answer.name):
                return self._as_equations(reference, answer)
            return self.matches(reference.form, answer.form) or self._as_equations(reference, answer)
        if isinstance(answer, Equation):
            return self._as_equations(reference, answer)
        return self.matches(reference.form, answer)

    def _unnamed(self, reference: Form, answer: Named) -> bool:
        if isinstance(reference, Equation):
            return self._as_equations(reference, answer)
        if isinstance(reference, Region) and isinstance(answer.form, Value):
            return False
        if isinstance(reference, Value) and answer.name in equality.symbols(reference.expr):
            return False
        return self.matches(reference, answer.form)

    def _as_equations(self, reference: Named | Equation, answer: Named | Equation) -> bool:
        """Whether two equations are the same up to a factor; one that is solved is not met by one that is not."""
        left, right = _difference(reference), _difference(answer)
        if left is None or right is None:
            return False
        if isinstance(reference, Named) and _is_solved(reference):
            return False
        return equality.same_up_to_factor(left, right).same == "yes"

    def _is_true(self, identity: Identity) -> bool:
        return all(left != right and self.same(left, right) for left, right in pairwise(identity.sides))

    def in_any_order(self, reference: tuple[Form, ...], answer: tuple[Form, ...]) -> bool:
        """Whether two collections have the same members, however often each is written."""
        if max(len(reference), len(answer)) > _MOST_ITEMS:
            return False
        if any(isinstance(item, Dots) for item in (*reference, *answer)):
            return self.in_order(reference, answer)
        self._depth += 1
        equal = len(reference) == len(answer) and self._paired(reference, answer)
        equal = equal or (
            all(any(self.matches(r, a) for a in answer) for r in reference)
            and all(any(self.matches(r, a) for r in reference) for a in answer)
        )
        self._depth -= 1
        return equal

    def _repeats(self, items: tuple[Form, ...]) -> bool:
        return any(self.matches(item, other) for at, item in enumerate(items) for other in items[:at])

    def _paired(self, reference: tuple[Form, ...], answer: tuple[Form, ...]) -> bool:
        left = list(answer)
        for item in reference:
            found = next((index for index, other in enumerate(left) if self.matches(item, other)), None)
            if found is None:
                return False
            del left[found]
        return True

    def in_order(self, reference: tuple[Form, ...], answer: tuple[Form, ...]) -> bool:
        """Whether two sequences are equal item by item."""
        self._depth += 1
        equal = len(reference) == len(answer) and all(map(self.matches, reference, answer))
        self._depth -= 1
        return equal

    def listings(self, reference: Listing, answer: Listing) -> bool:
        """Lists without brackets: of solutions, or of named components."""
        ours, theirs = _components(reference.items), _components(answer.items)
        if ours is not None and theirs is not None:
            return ours.keys() == theirs.keys() and all(self.matches(ours[name], theirs[name]) for name in ours)
        if ours is not None or theirs is not None:
            return self.in_order(_values(reference.items), _values(answer.items))
        if not _bases_agree(reference.items, answer.items):
            return False
        if self.conventions.order == "given":
            return self.in_order(_values(reference.items), _values(answer.items))
        if self._repeats(_values(reference.items)):
            # A double root is asked for twice.
            return len(reference.items) == len(answer.items) and self._paired(
                _values(reference.items), _values(answer.items)
            )
        return self.in_any_order(_values(reference.items), _values(answer.items))

    def list_with_set(self, reference: Listing | FiniteSet, answer: Listing | FiniteSet) -> bool:
        """A list and a set of the same members."""
        if any(_components(form.items) is not None for form in (reference, answer)):
            return False
        return self.in_any_order(_values(reference.items), _values(answer.items))

    def list_with_tuple(self, reference: Listing, answer: Bracketed) -> bool:
        """A list, or named components in the order given, with a tuple."""
        return self.in_order(_values(reference.items), answer.items)

    def tuple_with_list(self, reference: Bracketed, answer: Listing) -> bool:
        """A point with its bare coordinates in order, or with components in the order of their names."""
        if reference.opening == "[" or (answer.in_words and not isinstance(answer.items[0], Named)):
            return False
        named = _components(answer.items)
        if named is None and len({item.name for item in answer.items if isinstance(item, Named)}) == 1:
            return False
        if named is None and all(isinstance(item, Named) for item in answer.items):
            return self.in_order(reference.items, _values(answer.items))
        items = answer.items if named is None else tuple(form for _, form in sorted(named.items()))
        return self.in_order(reference.items, items)

    def tuples(self, reference: Bracketed, answer: Bracketed) -> bool:
        """Tuples with the same brackets; those of a vector may be angles."""
        ours, theirs = _brackets(reference), _brackets(answer)
        return ours == theirs and self.in_order(reference.items, answer.items)

    def regions(self, reference: Form, answer: Form) -> bool:
        """Sets of numbers, in whatever way each is written."""
        try:
            ours, theirs = region_of(reference), region_of(answer)
        except Unreadable:
            return False
        if ours.variable and theirs.variable and ours.variable != theirs.variable:
            return False
        left, right = _sorted(ours), _sorted(theirs)
        # A point such as (3, 1) would be the empty interval, and so would any contradiction.
        return 0 < len(left) == len(right) and all(map(self._pieces, left, right))

    def _pieces(self, reference: Piece, answer: Piece) -> bool:
        return (
            (reference.with_low, reference.with_high) == (answer.with_low, answer.with_high)
            and self.same(reference.low, answer.low)
            and self.same(reference.high, answer.high)
        )

    def region_with_value(self, reference: Region | Bracketed, answer: Value) -> bool:
        """A degenerate interval, `[3, 3]`, and its only number."""
        if isinstance(reference, Bracketed) and (reference.opening, reference.closing) != ("[", "]"):
            return False
        try:
            pieces = region_of(reference).pieces
        except Unreadable:
            return False
        return len(pieces) == 1 and all(self.same(end, answer.expr) for end in (pieces[0].low, pieces[0].high))

    def singletons(self, reference: FiniteSet | Value | Bracketed, answer: FiniteSet | Value | Bracketed) -> bool:
        """A set of one value and that value, where neither is itself a member of something."""
        if self._depth:
            return False
        ours = reference.items if isinstance(reference, FiniteSet) else (reference,)
        theirs = answer.items if isinstance(answer, FiniteSet) else (answer,)
        return len(ours) == len(theirs) == 1 and self.matches(ours[0], theirs[0])

    def equations(self, reference: Equation, answer: Equation) -> bool:
        """Equations up to a factor."""
        return self._as_equations(reference, answer)

    def inequalities(self, reference: Inequality, answer: Inequality | Region) -> bool:
        """Inequalities up to a positive factor, or to a negative one with the sign turned."""
        if isinstance(answer, Region):
            solved = _half_line_as_inequality(answer)
            return solved is not None and self.inequalities(reference, solved)
        ours, theirs = _as_less(reference), _as_less(answer)
        if ours[0] != theirs[0]:
            return False
        factor = equality.same_up_to_factor(ours[1], theirs[1])
        return factor.same == "yes" and (factor.sign == 1 or ours[0] == "ne")

    def identities(self, reference: Identity, answer: Identity) -> bool:
        """Statements about numbers, side by side."""
        return len(reference.sides) == len(answer.sides) and all(map(self.same, reference.sides, answer.sides))

    def identity_with_value(self, reference: Identity, answer: Value) -> bool:
        """A statement, such as `2^{10} = 1024`, and its result."""
        return self.same(reference.sides[-1], answer.expr)

    def congruences(self, reference: Congruence, answer: Congruence) -> bool:
        """Congruences of one modulus, of which either may leave out its left side."""
        if reference.left is not None and answer.left is not None and not self.same(reference.left, answer.left):
            return False
        if not self.same(reference.modulus, answer.modulus):
            return False
        ours, theirs, modulus = (rational(e) for e in (reference.residue, answer.residue, reference.modulus))
        if ours is not None and theirs is not None and modulus:
            return (ours - theirs) % modulus == 0
        return self.same(reference.residue, answer.residue)

    def matrices(self, reference: Matrix, answer: Matrix) -> bool:
        """Matrices of one shape, entry by entry."""
        if [len(row) for row in reference.rows] != [len(row) for row in answer.rows]:
            return False
        return all(map(self.same, sum(reference.rows, ()), sum(answer.rows, ())))

    def vectors(self, reference: Matrix | Bracketed, answer: Matrix | Bracketed) -> bool:
        """A column or row and a tuple."""
        if isinstance(reference, Matrix) and isinstance(answer, Bracketed):
            nested = _rows(answer)
            if nested is not None:
                return self.matrices(reference, nested)
        ours, theirs = _vector(reference), _vector(answer)
        return (
            ours is not None and theirs is not None and len(ours) == len(theirs) and all(map(self.same, ours, theirs))
        )

    def ratios(self, reference: Ratio, answer: Ratio) -> bool:
        """Ratios with proportional terms."""
        if len(reference.items) != len(answer.items):
            return False
        ours, theirs = _terms(reference), _terms(answer)
        if ours is None or theirs is None:
            return self.in_order(reference.items, answer.items)
        return all(
            self.same(multiplied(our, theirs[0]), multiplied(their, ours[0]))
            for our, their in zip(ours[1:], theirs[1:], strict=True)
        )

    def ratio_with_value(self, reference: Ratio | Value, answer: Ratio | Value) -> bool:
        """`1:2` and one half."""
        if isinstance(reference, Value) and _is_whole(reference.expr):
            return False
        ours, theirs = _quotient(reference), _quotient(answer)
        return ours is not None and theirs is not None and self.same(ours, theirs)

    def clocks(self, reference: Clock, answer: Clock) -> bool:
        """Times of day; without its half, a time is met in either."""
        if reference.seconds != answer.seconds:
            return False
        if reference.minutes == answer.minutes or bool(reference.half) == bool(answer.half):
            return reference.minutes == answer.minutes
        unsaid = answer if reference.half else reference
        return unsaid.minutes < 13 * 60 and (reference.minutes - answer.minutes) % 720 == 0

    def ratio_with_clock(self, reference: Ratio, answer: Clock) -> bool:
        """A ratio such as `12:30`, which looks like a time of day."""
        if answer.half or answer.seconds:
            return False
        hours, minutes = divmod(answer.minutes, 60)
        return self.ratios(reference, Ratio((Value(Number(Fraction(hours))), Value(Number(Fraction(minutes))))))

    def numerals(self, reference: Numeral, answer: Numeral) -> bool:
        """Digits in one base."""
        return reference == answer

    def numeral_with_value(self, reference: Numeral, answer: Value) -> bool:
        """The digits alone, the base being what was asked for."""
        expr = answer.expr
        return (
            answer.unit is None
            and isinstance(expr, Number)
            and expr.places is None
            and str(expr.value) == reference.digits.lstrip("0")
        )

    def value_with_numeral(self, reference: Value, answer: Numeral) -> bool:
        """A number written in another base."""
        try:
            value = int(answer.digits, answer.base)
        except ValueError:
            return False
        return reference.unit is None and self.same(reference.expr, Number(Fraction(value)))

    def divisions(self, reference: Division, answer: Division) -> bool:
        """Quotient and remainder."""
        return self.same(reference.quotient, answer.quotient) and self.same(reference.remainder, answer.remainder)

    def cases(self, reference: Cases, answer: Cases) -> bool:
        """The same pieces under the same conditions, in any order."""
        if len(reference.rows) != len(answer.rows):
            return False
        left = list(answer.rows)
        for form, condition in reference.rows:
            found = next(
                (
                    index
                    for index, (other, other_condition) in enumerate(left)
                    if self.matches(form, other) and self.matches(condition, other_condition)
                ),
                None,
            )
            if found is None:
                return False
            del left[found]
        return True

    def number_sets(self, reference: NumberSet, answer: NumberSet) -> bool:
        """The same set of numbers."""
        return reference == answer

    def words(self, reference: Words, answer: Words) -> bool:
        """The same words."""
        return phrase_of(reference.words) == phrase_of(answer.words)

    def dots(self, reference: Dots, answer: Dots) -> bool:
        """Dots in the same place."""
        return True


_C: Any = Comparison
_COMPARATORS: dict[tuple[type, type], Callable[..., bool]] = {
    (Value, Value): _C.values,
    (Listing, Listing): _C.listings,
    (Listing, FiniteSet): _C.list_with_set,
    (FiniteSet, Listing): _C.list_with_set,
    (FiniteSet, FiniteSet): _C.list_with_set,
    (FiniteSet, Value): _C.singletons,
    (FiniteSet, Bracketed): _C.singletons,
    (Bracketed, FiniteSet): _C.singletons,
    (Value, FiniteSet): _C.singletons,
    (Listing, Bracketed): _C.list_with_tuple,
    (Bracketed, Listing): _C.tuple_with_list,
    (Bracketed, Bracketed): _C.tuples,
    (Bracketed, Region): _C.regions,
    (Region, Bracketed): _C.regions,
    (Region, Region): _C.regions,
    (Region, Value): _C.region_with_value,
    (Bracketed, Value): _C.region_with_value,
    (Equation, Equation): _C.equations,
    (Inequality, Inequality): _C.inequalities,
    (Inequality, Region): _C.inequalities,
    (Identity, Identity): _C.identities,
    (Identity, Value): _C.identity_with_value,
    (Congruence, Congruence): _C.congruences,
    (Matrix, Matrix): _C.matrices,
    (Matrix, Bracketed): _C.vectors,
    (Bracketed, Matrix): _C.vectors,
    (Ratio, Ratio): _C.ratios,
    (Ratio, Value): _C.ratio_with_value,
    (Value, Ratio): _C.ratio_with_value,
    (Clock, Clock): _C.clocks,
    (Ratio, Clock): _C.ratio_with_clock,
    (Numeral, Numeral): _C.numerals,
    (Numeral, Value): _C.numeral_with_value,
    (Value, Numeral): _C.value_with_numeral,
    (Division, Division): _C.divisions,
    (Cases, Cases): _C.cases,
    (NumberSet, NumberSet): _C.number_sets,
    (Words, Words): _C.words,
    (Dots, Dots): _C.dots,
}


def _names_agree(left: str, right: str) -> bool:
    """Whether two names may stand for one thing: variables and functions must be the same, other names need not."""
    if left == right or _is_y_of_x(left, right):
        return True
    return not (is_variable(left) and is_variable(right)) and not ("(" in left and "(" in right)


def _is_y_of_x(left: str, right: str) -> bool:
    return {left[:1], right[:1]} == {"y", "f"} and "y" in (left, right)


def _renamed(reference: Named, answer: Named) -> Named:
    """The answer with its bound variable called as in the reference: `f(t) = t^2` for `f(x) = x^2`."""
    ours, theirs = argument_of(reference.name), argument_of(answer.name)
    if ours is None or theirs is None or ours == theirs or not isinstance(answer.form, Value):
        return answer
    if ours in equality.symbols(answer.form.expr):
        return answer
    expr = replaced(answer.form.expr, Symbol(theirs), Symbol(ours))
    kept = reference.name if _function_of(reference.name) == _function_of(answer.name) else answer.name
    return Named(kept, Value(expr, answer.form.unit))


def _function_of(name: str) -> str:
    return name.partition("(")[0].partition("_")[0]


def _difference(equation: Named | Equation) -> Expr | None:
    """Left side minus right side."""
    if isinstance(equation, Equation):
        return Apply("add", (equation.left, negated(equation.right)))
    if not isinstance(equation.form, Value) or not is_variable(equation.name):
        return None
    return Apply("add", (Symbol(equation.name), negated(equation.form.expr)))


def _is_solved(equation: Named) -> bool:
    return isinstance(equation.form, Value) and not equality.symbols(equation.form.expr)


def _components(items: tuple[Form, ...]) -> dict[str, Form] | None:
    """Named items as a mapping, if their names are of different variables: x and y, but not x_1 and x_2."""
    named = {item.name: item.form for item in items if isinstance(item, Named)}
    if len(named) != len(items) or len(named) < 2:
        return None
    bases = {name.partition("_")[0] for name in named}
    return named if len(bases) == len(named) else None


def _bases_agree(reference: tuple[Form, ...], answer: tuple[Form, ...]) -> bool:
    """Whether two lists of solutions are of one variable, where both name it."""
    ours, theirs = (
        {item.name.partition("_")[0] for item in items if isinstance(item, Named) and is_variable(item.name)}
        for items in (reference, answer)
    )
    return not ours or not theirs or ours == theirs


def _values(items: tuple[Form, ...]) -> tuple[Form, ...]:
    """The items without their names."""
    return tuple(item.form if isinstance(item, Named) else item for item in items)


def _brackets(form: Bracketed) -> tuple[str, str]:
    return ("(", ")") if form.opening == "langle" else (form.opening, form.closing)


def _sorted(region: Region) -> tuple[Piece, ...]:
    """The pieces in one order; as written where their ends are no numbers."""
    try:
        return union([region]).pieces
    except Unreadable:
        return region.pieces


def _half_line_as_inequality(region: Region) -> Inequality | None:
    if region.variable is None or len(region.pieces) != 1:
        return None
    piece = region.pieces[0]
    variable = Symbol(region.variable)
    infinity = Constant("infinity")
    if piece.high == infinity:
        return Inequality("ge" if piece.with_low else ">", variable, piece.low)
    if piece.low == Apply("neg", (infinity,)):
        return Inequality("le" if piece.with_high else "<", variable, piece.high)
    return None


def _as_less(inequality: Inequality) -> tuple[str, Expr]:
    """The sign, `<`, `le` or `ne`, and the side that is compared with zero."""
    left, right = inequality.left, inequality.right
    sign = inequality.sign
    if sign in (">", "ge"):
        left, right, sign = right, left, "<" if sign == ">" else "le"
    return sign, Apply("add", (left, negated(right)))


def _rows(form: Bracketed) -> Matrix | None:
    """`[[1, 2], [3, 4]]` as a matrix."""
    rows = [_vector(item) for item in form.items if isinstance(item, Bracketed)]
    if len(rows) != len(form.items) or any(row is None for row in rows):
        return None
    return Matrix(tuple(row for row in rows if row is not None))


def _vector(form: Matrix | Bracketed) -> tuple[Expr, ...] | None:
    if isinstance(form, Bracketed):
        exprs = tuple(item.expr for item in form.items if isinstance(item, Value))
        return exprs if len(exprs) == len(form.items) else None
    if len(form.rows) == 1 or all(len(row) == 1 for row in form.rows):
        return sum(form.rows, ())
    return None


def _terms(ratio: Ratio) -> list[Expr] | None:
    exprs = [item.expr for item in ratio.items if isinstance(item, Value)]
    return exprs if len(exprs) == len(ratio.items) else None


def _is_whole(expr: Expr) -> bool:
    value = rational(expr)
    return value is not None and value.denominator == 1


def _quotient(form: Ratio | Value) -> Expr | None:
    if isinstance(form, Value):
        return form.expr if form.unit is None else None
    terms = _terms(form)
    return Apply("div", (terms[0], terms[1])) if terms is not None and len(terms) == 2 else None
