"""The names that mean something in mathematics without a definition: functions, Greek letters, number words."""

from __future__ import annotations

FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "cosec": "csc",
    "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan", "arccot": "arccot", "arcsec": "arcsec",
    "arccsc": "arccsc", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "coth": "coth", "sech": "sech", "csch": "csch", "arcsinh": "arcsinh", "arccosh": "arccosh",
    "arctanh": "arctanh", "ln": "ln", "exp": "exp", "log": "log", "lg": "lg", "abs": "abs", "floor": "floor",
    "ceil": "ceil", "gcd": "gcd", "lcm": "lcm", "max": "max", "min": "min", "Re": "re", "Im": "im", "arg": "arg",
    "sgn": "sign", "sign": "sign", "sqrt": "sqrt", "cbrt": "cbrt", "tg": "tan", "ctg": "cot", "arctg": "arctan",
    "factorial": "factorial", "binom": "binom", "binomial": "binom", "conj": "conj",
}  # fmt: skip
MANY_ARGUMENTS = {"gcd", "lcm", "max", "min", "binom"}
INVERSES = {
    "sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec", "csc": "arccsc",
    "sinh": "arcsinh", "cosh": "arccosh", "tanh": "arctanh",
}  # fmt: skip
GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar aleph nabla partial".split()
)
NUMBER_WORDS = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split(),
        range(21),
        strict=True,
    )
)
# Letters that stand for functions where brackets follow; any other letter there is a factor.
UNKNOWN_FUNCTIONS = frozenset("f g h F G H P Q phi psi".split())
ACCENTS = frozenset({"vec", "hat", "tilde", "overrightarrow", "widehat", "widetilde", "check", "breve", "mathring"})
LONGEST_PRODUCT_OF_LETTERS = 4
