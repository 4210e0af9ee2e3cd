from __future__ import annotations

import threading

import pytest
from flint import acb, ctx

from rlvr.verifiers.math import balls


@pytest.fixture(scope="session")
def ball(tree):
    def of_text(text: str, bits: int = 128, real: bool = False, **symbols: object) -> acb:
        values = {name: acb(value) for name, value in symbols.items()}
        with balls.Precision(bits):
            return balls.Balls(values, balls.Budget(), real).ball(tree(text))

    return of_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sqrt(2)", 2**0.5),
        ("root(-8, 3)", -2),
        ("(-8)**(2/3)", 4),
        ("e**(I*pi)", -1),
        ("e", 2.718281828459045),
        ("sqrt(-4)", 2j),
        ("ln(-1)", 3.141592653589793j),
        ("log(2, 10)", 3.321928094887362),
        ("arccot(1)", 0.7853981633974483),
        ("arcsec(2)", 1.0471975511965979),
        ("arccsc(2)", 0.5235987755982989),
        ("sec(0)", 1),
        ("cot(1)", 0.6420926159343306),
        ("coth(1)", 1.3130352854993312),
        ("csch(1)", 0.8509181282393216),
        ("arctanh(1/2)", 0.5493061443340548),
        ("factorial(1/2)", 0.886226925452758),
        ("double_factorial(7)", 105),
        ("binom(5, 2)", 10),
        ("floor(-pi)", -4),
        ("ceil(-pi)", -3),
        ("abs(3 + 4*I)", 5),
        ("sign(-pi)", -1),
        ("max(pi, 3, e)", 3.141592653589793),
        ("min(pi, 3, e)", 2.718281828459045),
        ("re(3 + 4*I)", 3),
        ("im(3 + 4*I)", 4),
        ("conj(3 + 4*I)", 3 - 4j),
        ("arg(1 + I)", 0.7853981633974483),
        ("mod(10, pi)", 0.5752220392306207),
        ("gcd(12, 18)", 6),
        ("lcm(4, 6)", 12),
        ("sum(sqrt(k), k, 1, 3)", 4.146264369941972),
        ("prod(sqrt(k), k, 1, 4)", 24**0.5),
        ("x**x", 27),
        ("0**pi", 0),
        ("root(0, 3)", 0),
    ],
)
def test_values(ball, text, value):
    found = complex(ball(text, x=3))
    assert abs(found - value) < 1e-12


@pytest.mark.parametrize("text", ["1/(x - 3)", "ln(x - 3)", "0**(3 - x)", "arg(x - 3)", "csc(x - 3)", "mod(1, x - 3)"])
def test_certainly_no_value(ball, text):
    with pytest.raises(balls.NoValueError) as caught:
        ball(text, x=3)
    assert caught.value.certain


@pytest.mark.parametrize("text", ["1/(sqrt(2)**2 - 2)", "tan(pi/2)", "ln(sin(pi))"])
def test_probably_no_value(ball, text):
    with pytest.raises(balls.NoValueError) as caught:
        ball(text)
    assert not caught.value.certain


@pytest.mark.parametrize(
    "text",
    [
        "oo",
        "y",
        "integral(x, x)",
        "floor(sqrt(2)**2)",
        "max(I, 1)",
        "gcd(x/2, 3)",
        "e**e**e**e**e**e",
        "sum(sum(sin(k*j), k, 1, 900), j, 1, 900)",
        "tan(10**10**10)",
    ],
)
def test_undecided(ball, text):
    with pytest.raises(balls.UndecidedError):
        ball(text, x=3)


def test_the_enclosures_hold_the_value_also_where_a_root_straddles_zero(ball):
    found = ball("root(sqrt(2)**2 - 2, 3)")
    assert found.contains(0)
    assert found.imag == 0
    assert ball("sqrt(sqrt(2)**2 - 2)").contains(0)


def test_real_values_only_where_asked(ball):
    assert ball("sqrt(x)*sqrt(x)", x=-3).overlaps(acb(-3))
    with pytest.raises(balls.NotRealError):
        ball("sqrt(x)*sqrt(x)", real=True, x=-3)


def test_unknown_functions_depend_on_their_arguments_alone(ball):
    assert ball("f(x + 1)", x=5) == ball("f(2*x - 4)", x=5)
    assert ball("f(sqrt(2))") == ball("f(2/sqrt(2))")
    assert not ball("f(x)", x=5).overlaps(ball("f(x)", x=6))


def test_the_precision_is_restored_also_after_an_error_and_each_thread_gets_its_own(tree):
    before = ctx.prec
    with pytest.raises(balls.NoValueError), balls.Precision(999):
        raise balls.NoValueError(certain=True)
    assert ctx.prec == before
    found = []

    def compute(bits: int) -> None:
        for _ in range(200):
            with balls.Precision(bits):
                found.append(
                    balls.Balls({}, balls.Budget()).ball(tree("sqrt(2)")).rel_accuracy_bits() // 100 == bits // 100
                )

    threads = [threading.Thread(target=compute, args=(bits,)) for bits in (120, 520, 920)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 600
    assert ctx.prec == before


def test_spread_measures_what_cancellation_can_use_up(tree):
    def spread(text: str) -> int:
        with balls.Precision(128):
            measuring = balls.Measuring({}, balls.Budget())
            measuring.ball(tree(text))
            return measuring.spread

    # 400 decimal digits are 1329 bits.
    assert 1320 <= spread("sqrt(1 + 10**(-400))") <= 1340
    assert 1440 <= spread("1 + e**(-1000)") <= 1470
    assert spread("sqrt(2)*10**400") <= 4
