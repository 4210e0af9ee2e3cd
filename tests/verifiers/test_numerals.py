from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.verifiers.numerals import MAX_DIGITS, Number, read_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", Fraction(42)),
        ("  42\n", Fraction(42)),
        ("+42", Fraction(42)),
        ("-42", Fraction(-42)),
        ("- 42", Fraction(-42)),
        ("−42", Fraction(-42)),
        ("-0", Fraction(0)),
        ("007", Fraction(7)),
        ("42.", Fraction(42)),
        ("3.50", Fraction(7, 2)),
        (".5", Fraction(1, 2)),
        ("-.5", Fraction(-1, 2)),
        ("0.1", Fraction(1, 10)),
        ("1/2", Fraction(1, 2)),
        ("-6/4", Fraction(-3, 2)),
        ("1 / 2", Fraction(1, 2)),
        ("1.5/2", Fraction(3, 4)),
        ("1,000/3", Fraction(1000, 3)),
        (r"\frac{1}{2}", Fraction(1, 2)),
        (r"\dfrac{-1}{2}", Fraction(-1, 2)),
        (r"-\tfrac{ 1 }{ 2 }", Fraction(-1, 2)),
        (r"\frac{1}{-2}", Fraction(-1, 2)),
        (r"\cfrac12", Fraction(1, 2)),
        (r"\frac 1{20}", Fraction(1, 20)),
        (r"\frac{1{,}000}{3}", Fraction(1000, 3)),
        ("1,234", Fraction(1234)),
        ("12,345,678.9", Fraction(123456789, 10)),
        ("1{,}234", Fraction(1234)),
        (r"1\,234\,567", Fraction(1234567)),
        (r"22,\! 222,\! 222", Fraction(22222222)),
        ("1\u202f234", Fraction(1234)),
        ("1\u2009234\u2009567", Fraction(1234567)),
        ("1\u00a0234", Fraction(1234)),
        ("$18", Fraction(18)),
        (r"\$18.00", Fraction(18)),
        ("-$18", Fraction(-18)),
        ("$-18", Fraction(-18)),
        ("$18$", Fraction(18)),
        ("$18.$", Fraction(18)),
        ("$18$.", Fraction(18)),
        ("$$18$$", Fraction(18)),
        (r"$\$18$", Fraction(18)),
        (r"\(18\)", Fraction(18)),
        (r"\[ 18 \].", Fraction(18)),
        ("50%", Fraction(50)),
        (r"50\%", Fraction(50)),
        ("12.5 %", Fraction(25, 2)),
        ("50 percent", Fraction(50)),
        ("18 dollars", Fraction(18)),
        (r"18\text{ dollars}", Fraction(18)),
        (r"18 \text{dollars}.", Fraction(18)),
        (r"5\,\text{m}", Fraction(5)),
        (r"5~\mathrm{cm}", Fraction(5)),
        (r"\frac{1}{2}\text{ cup}", Fraction(1, 2)),
        ("1/2 cup", Fraction(1, 2)),
        ("3e5", Fraction(300000)),
        ("1.2E-3", Fraction(12, 10000)),
        ("-1e+2", Fraction(-100)),
        (r"3 \times 10^{5}", Fraction(300000)),
        (r"6.02\cdot10^{-2}", Fraction(602, 10000)),
        ("3×10^5", Fraction(300000)),
        ("1e1000", Fraction(10) ** 1000),
        ("1e-1000", Fraction(1, 10**1000)),
    ],
)
def test_numbers(text, value):
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "-", "$", "$$", "$$$$", "%", ",", "/", "e5", r"\frac", "abc", r"\text{five}"),
        *("1, 2", "1,2", "12,34", "1,23", "1234,567", "1,234,56", "1,,234", ",234", "0,123", "1,0000"),
        *("1,234{,}567", "1 234", "1.234.567", "1.2.3", "5..", "1_000"),
        *("3 or 4", "3 4", "3-4", "3–4", "2+3", "2*3", "x=5", "5x", "2t", "4g", "5 x", "(5)", "{5}", "±5", "~5"),
        *("--5", "+-5", "-$-5", "$$5", "5$", "$5$ and $6$", "5%%"),
        *("1/0", "0/0", "1/2/3", r"\frac{1}{0}", r"\frac{1}{0.0}", r"\frac{1}{}", r"\frac{1}", r"\frac123"),
        *("1/-2", "1e2/3", r"\frac{\frac{1}{2}}{3}", "1 1/2", r"1\frac{1}{2}"),
        *("1e1001", "1e-1001", "1e99999", "1e1.5", "1e", r"3\times10", r"3\times10^{}", "10^5"),
        *("5 million", r"5\text{ million}", r"2.5\text{M}", "2 dozen", "3 halves", "2 thirds", "5 squared", "2 pi"),
        *("42 is wrong", "42 wrong", "not 42", "5 km per hour", "5 cm^2", r"\ne 42", r"5^{\circ}", "5km"),
        *("nan", "inf", "-inf", "NaN", "Infinity", r"\infty", "True", "0x1F", "1j", "١٢", "５", "½", "²"),
        *("__import__('os').system('true')", "9**9**9", "10!", "().__class__", "{0}", "%s", "\x00", "5\x00"),
        *("4\n2", "42\n43"),
    ],
)
def test_no_numbers(text):
    assert read_number(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "9" * 1_000_000,
        "9" * (MAX_DIGITS + 1),
        "0." + "3" * MAX_DIGITS,
        "1/" + "9" * (MAX_DIGITS + 1),
        r"\frac{" + "9" * (MAX_DIGITS + 1) + "}{7}",
        "1" + ",000" * 400,
        "{" * 1_000_000,
        r"\frac{" * 1000,
        r"\frac{1}{" * 800,
        "1e" * 4000,
        "5" + " " * 7000 + "!",
        " " * 3_000_000 + "x",
        "5 " + "a" * 7000 + "!",
        r"5\text{" + " " * 7000,
        r"\times" + " " * 7900,
    ],
    ids=range(15),
)
def test_hostile_sizes_are_no_numbers(text):
    assert read_number(text) is None


def test_the_largest_numbers_can_be_printed():
    most = "9" * MAX_DIGITS
    tiny = "0." + "0" * (MAX_DIGITS - 2) + "7"
    for text in (most, f"{most}e1000", f"{tiny}e-1000", rf"\frac{{{most}}}{{{tiny}}}", f"{tiny}/{most}"):
        number = read_number(text)
        assert number is not None
        assert str(number.value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("5 cm", "5", True),
        ("5", "5 cm", True),
        ("1 mile", "1 miles", True),
        ("2 inch", "2 inches", True),
        ("5 Dollars", "5 dollars", True),
        ("50%", "50 percent", True),
        ("5 cm", "5 km", False),
        ("50%", "50 dollars", False),
        ("5 cm", "6 cm", False),
    ],
)
def test_units(one, other, same):
    first, second = read_number(one), read_number(other)
    assert first is not None
    assert second is not None
    assert first.matches(second) is same


@settings(deadline=None)  # the machine may be busy
@given(st.text(alphabet="0123456789.,-+/$%eE{}\\ \u00a0\u2212fractimesxd^()", max_size=40))
def test_any_text_is_read_or_refused(text):
    number = read_number(text)
    assert number is None or isinstance(number, Number)
    if number is not None:
        assert read_number(str(number.value)) == Number(number.value)
