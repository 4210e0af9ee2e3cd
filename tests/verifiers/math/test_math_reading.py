"""What texts are taken for: tokens, forms, quantities, sets of numbers, words and options; and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rlvr.sandbox.errors import UserError
from rlvr.verifiers.math.acceptance import accepts, canonical_answer
from rlvr.verifiers.math.conventions import Conventions
from rlvr.verifiers.math.forms import (
    Bracketed,
    Cases,
    Choice,
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
    Ratio,
    Region,
    Value,
    Words,
)
from rlvr.verifiers.math.magnitudes import Undecided
from rlvr.verifiers.math.nodes import Apply, Constant, Expr, Number, Symbol
from rlvr.verifiers.math.reading import read_answer, read_reference
from rlvr.verifiers.math.regions import complement, intersect, region_of, union
from rlvr.verifiers.math.tokens import MAX_DIGITS, MAX_LENGTH, Unreadable, tokenize
from rlvr.verifiers.math.unicode_fold import fold
from rlvr.verifiers.math.units import Unit, unit_of


def number(value: str | int, places: int | None = None) -> Number:
    return Number(Fraction(value), places)


def form_of(text: str) -> Form:
    return read_answer(text).forms[0]


def forms_of_reference(text: str) -> tuple[Form, ...]:
    return read_reference(text)[1]


def expr_of(text: str) -> Expr:
    form = form_of(text)
    assert isinstance(form, Value)
    return form.expr


# ---- tokens


@pytest.mark.parametrize(
    ("text", "value", "places"),
    [
        ("42", 42, None),
        ("007", 7, None),
        ("0.50", "1/2", 2),
        (".125", "1/8", 3),
        ("1,234,567", 1234567, None),
        ("1{,}234.5", "2469/2", 1),
        (r"22,\! 222", 22222, None),
        (r"1\,000", 1000, None),
        ("1 000 000", 1000000, None),
        ("3e5", 300000, None),
        ("1.2E-3", "3/2500", 4),
        (r"0.\overline{3}", "1/3", None),
        (r"0.1\overline{6}", "1/6", None),
        ("2.(45)", "27/11", None),
        (r"0.\dot{1}4285\dot{7}", "1/7", None),
        ("0.333...", "1/3", None),
        (r"0.1666\ldots", "1/6", None),
        ("0.1212...", "4/33", None),
    ],
)
def test_numbers_are_one_token(text: str, value: str | int, places: int | None) -> None:
    (token,) = tokenize(text)
    assert (token.kind, token.value, token.places) == ("number", Fraction(value), places)


def test_commas_with_spaces_separate_numbers() -> None:
    assert [token.text for token in tokenize("1, 000")] == ["1", ",", "000"]
    assert [token.text for token in tokenize("1,00")] == ["1", ",", "00"]
    assert [token.text for token in tokenize("1,000", grouping=False)] == ["1", ",", "000"]


def test_fonts_sizes_and_spaces_leave_nothing_behind() -> None:
    plain = [token.text for token in tokenize("(x+1)")]
    for text in (r"\left( x + 1 \right)", r"\displaystyle\bigl(\mathbf{x}\,+\;1\bigr)", r"$(x+1)$", r"\(({x}+1)\)"):
        assert [token.text for token in tokenize(text) if token.text not in "{}"] == plain


def test_text_is_marked() -> None:
    assert [(token.text, token.in_text) for token in tokenize(r"5\text{ cm}m")] == [
        ("5", False), ("cm", True), ("m", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["5" * (MAX_DIGITS + 1), "x" * (MAX_LENGTH + 1), "x+" * 2000, "5}", "1e99999", r"\not x", r"\mathbb{5}"]
)
def test_what_the_lexer_refuses(text: str) -> None:
    with pytest.raises(Unreadable):
        tokenize(text)
    assert read_answer(text).complaint


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("x²", "x^{2}"),
        ("3·10⁻⁵", r"3\cdot 10^{-5}"),
        ("½", r"\frac{1}{2}"),
        ("a₁", "a_{1}"),
        ("５％", "5%"),
        ("−5", "-5"),
        ("（1，2）", "(1,2)"),
        ("plain", "plain"),
    ],
)
def test_unicode_becomes_latex(text: str, latex: str) -> None:
    assert fold(text) == latex


# ---- forms

X, Y = Symbol("x"), Symbol("y")
KINDS: list[tuple[str, type]] = [
    ("42", Value),
    ("x^2+1", Value),
    ("1, 2", Listing),
    (r"x = 1 \text{ or } x = 2", Listing),
    (r"\pm 2", Listing),
    ("(1, 2)", Bracketed),
    ("[1, 2]", Bracketed),
    (r"\langle 1, 2 \rangle", Bracketed),
    (r"\{1, 2\}", FiniteSet),
    (r"\emptyset", FiniteSet),
    ("[1, 2)", Region),
    ("x > 3", Region),
    ("1 < x \\le 2", Region),
    (r"x \ne 1", Region),
    (r"(-\infty, 1) \cup (2, \infty)", Region),
    (r"\mathbb{R} \setminus \{0\}", Region),
    (r"\{x \mid x > 2\}", Region),
    (r"\mathbb{Z}", NumberSet),
    ("x = 5", Named),
    (r"\angle ABC = 60^\circ", Named),
    ("f(3) = 7", Named),
    ("x^2 + y^2 = 1", Equation),
    ("6 * 7 = 42", Identity),
    ("x + y < 3", Inequality),
    (r"n \equiv 1 \pmod 4", Congruence),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", Matrix),
    ("1 : 2 : 3", Ratio),
    ("8:15 AM", Clock),
    ("101_2", Numeral),
    (r"5 \text{ remainder } 2", Division),
    (r"\begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}", Cases),
]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_kinds(text: str, kind: type) -> None:
    assert type(form_of(text)) is kind
    assert type(forms_of_reference(text)[0]) is kind


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("-7", Value(number(-7))),
        ("3.50", Value(number("7/2", 2))),
        ("2x", Value(Apply("mul", (number(2), X)))),
        (r"3\frac{1}{2}", Value(Apply("add", (number(3), Apply("div", (number(1), number(2))))))),
        ("1, 2", Listing((Value(number(1)), Value(number(2))))),
        (r"\{1\}", FiniteSet((Value(number(1)),))),
        ("(1; 2)", Bracketed("(", ")", (Value(number(1)), Value(number(2))))),
        ("x=1", Named("x", Value(number(1)))),
        ("2A_{16}", Numeral("2A", 16)),
        (r"101_{\text{two}}", Numeral("101", 2)),
        ("8:15 PM", Clock(20 * 60 + 15, 0, "pm")),
        ("12:30:05", Clock(12 * 60 + 30, 5, None)),
        ("5 R 2", Division(number(5), number(2))),
        (r"3 \pmod{7}", Congruence(None, number(3), number(7))),
        (r"\ldots", Dots()),
        ("6=6.0", Identity((number(6), number(6, 1)))),
    ],
)
def test_forms(text: str, form: Form) -> None:
    assert form_of(text) == form


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("-x^2", Apply("neg", (Apply("pow", (X, number(2))),))),
        ("2^3^2", Apply("pow", (number(2), Apply("pow", (number(3), number(2)))))),
        (r"\frac12", Apply("div", (number(1), number(2)))),
        (r"\sqrt[3]{x}", Apply("root", (X, number(3)))),
        (r"\sqrt x", Apply("root", (X, number(2)))),
        ("√x", Apply("root", (X, number(2)))),
        (r"\sin^{-1} x", Apply("arcsin", (X,))),
        (r"\sin^2 x", Apply("pow", (Apply("sin", (X,)), number(2)))),
        (r"\log_2 x", Apply("log", (number(2), X))),
        (r"\binom{x}{2}", Apply("binom", (X, number(2)))),
        ("x!", Apply("factorial", (X,))),
        ("|x|", Apply("abs", (X,))),
        (r"\lfloor x \rfloor", Apply("floor", (X,))),
        ("xy", Apply("mul", (X, Y))),
        (r"\pi", Constant("pi")),
        ("i", Constant("i")),
        ("f(x)", Apply("call:f", (X,))),
        ("x_{1}", Symbol("x_1")),
        (r"x\cdot y", Apply("mul", (X, Y))),
        ("x/y", Apply("div", (X, Y))),
    ],
)
def test_expressions(text: str, expr: Expr) -> None:
    assert expr_of(text) == expr


@pytest.mark.parametrize(
    "text",
    [
        "", "?", r"\frac{1}", "1 +", "(1", "2 3", "x 5", r"\foo", "1 << 2", "hello", "5 is wrong", r"\ne 5", "[1, 2",
        "x = ", "= =", r"\begin{pmatrix} 1 & 2 \\ 3 \end{pmatrix}", r"\begin{pmatrix} 1", "1 < 2", "1_37", "a.b",
        "__import__",
        "1 < x > 2", r"\{x \mid", "{", r"\text{", r"\int x", r"\sum_{k}", "1,,2", "%", "^2", "_",
    ],
)  # fmt: skip
def test_what_has_no_form(text: str) -> None:
    reading = read_answer(text)
    assert reading.forms == ()
    assert text.strip(" =") == "" or text == r"\text{" or reading.complaint


# ---- quantities


def unit(*factors: tuple[str, int]) -> Unit:
    found = unit_of(list(factors))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (r"5\text{ cm}", unit(("cm", 1))),
        ("5 km/h", unit(("km", 1), ("hour", -1))),
        ("60 mph", unit(("mile", 1), ("hour", -1))),
        (r"25\text{ square feet}", unit(("foot", 2))),
        (r"9.8\,\mathrm{m/s^2}", unit(("meter", 1), ("second", -2))),
        ("12 apples", unit(("apple", 1))),
        (r"\$5", unit(("dollar", 1))),
        ("50%", unit(("percent", 1))),
        (r"90^\circ", unit(("degree", 1))),
    ],
)
def test_units(text: str, same: Unit) -> None:
    form = form_of(text)
    assert isinstance(form, Value)
    assert form.unit is not None
    assert (form.unit.dimensions, form.unit.factor) == (same.dimensions, same.factor)


def test_sizes_of_units() -> None:
    assert unit(("km", 1)).factor == 1000 * unit(("m", 1)).factor
    assert unit(("hour", 1)).factor == 3600 * unit(("second", 1)).factor
    assert unit(("foot", 2)).factor == 144 * unit(("inch", 2)).factor
    assert unit(("litre", 1)).dimensions == unit(("cm", 3)).dimensions
    assert unit(("litre", 1)).factor == 1000 * unit(("cm", 3)).factor


@pytest.mark.parametrize("word", ["wrong", "not", "or", "million", "dozen", "half", "nan", "plus", "at", "maybe", "x2"])
def test_what_is_no_unit(word: str) -> None:
    assert unit_of([(word, 1)]) is None


def test_compound_quantities() -> None:
    assert accepts("150 minutes", ("2 hours 30 minutes",), "one", Conventions())
    assert accepts(r"30.25^\circ", (r"30^\circ 15'",), "one", Conventions())
    assert not accepts("150 minutes", ("2 hours 31 minutes",), "one", Conventions())


# ---- sets of numbers


def region(text: str) -> Region:
    return region_of(form_of(text))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (r"[0,1)\cup[1,2]", "[0,2]"),
        (r"[0,3]\cap(1,5)", "(1,3]"),
        (r"[0,2]\setminus\{1\}", r"[0,1)\cup(1,2]"),
        (r"\mathbb{R}\setminus[0,1]", r"(-\infty,0)\cup(1,\infty)"),
        ("1 < x < 5 \\text{ and } x < 3", "1 < x < 3"),
        (r"\{1\}\cup(1,2)", "[1,2)"),
        (r"(3,4)\cup(1,2)", r"(1,2)\cup(3,4)"),
    ],
)
def test_set_expressions(left: str, right: str) -> None:
    assert region(left).pieces == region(right).pieces


def test_sets_are_combined_exactly() -> None:
    left, right = region("[0, 2)"), region("(1, 3]")
    assert union([left, right]).pieces == region("[0, 3]").pieces
    assert intersect([left, right]).pieces == region("(1, 2)").pieces
    assert intersect([left, complement(right)]).pieces == region("[0, 1]").pieces
    assert intersect([left, complement(left)]).pieces == ()
    assert complement(complement(left)).pieces == left.pieces


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("(3, 1)", "5 < x < 2"),
        ("(0, 0)", r"x < 1 \text{ and } x > 2"),
        ("(3, 1)", r"(0, 1) \cap (2, 3)"),
        ("(0, 0)", r"\mathbb{R} \setminus \mathbb{R}"),
        ("[4, 2)", "[7, 3)"),
    ],
)
def test_a_point_is_not_met_by_a_contradiction(reference: str, answer: str) -> None:
    assert not accepts(reference, (answer,), "one", Conventions())


# ---- words and options


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("B", "B"), ("b", "B"), ("(B)", "B"), (r"\text{B}", "B"), (r"\textbf{(B)}\ 12", "B"), ("B. twelve", "B"),
        ("Option C", "C"), ("[D]", "D"), ("B: 5", "B"), (r"\text{A or B}", None), ("not A", None), ("AB", None),
        ("(A) B)", None), ("K", None), ("5", None), ("A number", None), ("(A) or (B)", None), ("A, B", None),
    ],
)  # fmt: skip
def test_options(text: str, option: str | None) -> None:
    assert read_answer(text).option == option


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("B", Choice("B")), ("(E)", Choice("E")), (r"\text{C}", Choice("C")), (r"\text{Evelyn}", Words(("evelyn",))),
        ("ASA", Words(("asa",))), (r"\text{a square}", Words(("square",))),
    ],
)  # fmt: skip
def test_references_of_words(text: str, form: Form) -> None:
    assert forms_of_reference(text) == (form,)


@pytest.mark.parametrize("text", ["", " \n", "((", "?", "5}"])
def test_references_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError):
        read_reference(text)


# ---- hostile texts

HOSTILE = (
    "1.٣", "1_፩", "1_{๒}", "5^፩", "x_፩", "\x00", "\ud800", "pi" * 4000, "sin" * 2600, r"\log_R " * 300, r"\sin " * 1500,
    r"\sqrt " * 1300, r"\sqrt{" * 1000 + "1" + "}" * 1000, "(" * 4000 + ")" * 4000, "{" * 3999 + "1" + "}" * 3999,
    "[" * 8000, r"\{" * 4000, "-" * 8000 + "1", "x^" * 4000, "1/" * 4000, "|" * 8000, "!" * 8000, "5" + "!" * 7000,
    r"\frac{1}{1+" * 700 + "1" + "}" * 700, r"\begin{cases}" * 600, r"\text{" * 1300, "1 or " * 1600, "x=" * 4000,
    "1," * 4000, "$" * 8000, r"\color{" * 1100 + "}" * 300, "\\" * 7999, r"\left(" * 1300, "1 R " * 2000, "'" * 8000,
    "½" * 4000,
    "9" * 1999 + "^" + "9" * 1999, "9^9^9^9^9^9", "((10!)!)!", r"10^{10^{10^{10}}}", "1e5000^1e5000", "." * 8000,
    "e-" * 4000,
)  # fmt: skip


@pytest.mark.parametrize(
    "text", HOSTILE, ids=[text[:12].encode("ascii", "backslashreplace").decode() for text in HOSTILE]
)
def test_hostile_texts_end_and_are_no_answer(text: str) -> None:
    for reference in ("7919", r"\zeta+1", "(4027, 7919)", r"\{7919\}", r"\zeta = 7919", r"\text{no}"):
        try:
            assert not accepts(reference, (text,), "one", Conventions())
        except Undecided:
            assert read_answer(text).forms
    assert isinstance(canonical_answer((text,)), str)


def test_deep_callers_get_a_reading_too() -> None:
    def called_from(depth: int) -> bool:
        return called_from(depth - 1) if depth else accepts("5", ("(" * 35 + "5" + ")" * 35,), "one", Conventions())

    assert called_from(0) is True
    assert called_from(600) in (True, False)
