r"""Expressions: from tokens to the trees of `nodes`, by recursive descent.

    sum     = [sign] product { (+ | - | \pm | \mp) product }
    product = unary { (\cdot | \times | * | / | \div | \bmod | nothing) unary }
    unary   = sign unary | power
    power   = postfix [ ^ exponent ]
    postfix = primary { ! | !! | % | ^\circ }

Trees from here may hold four operations that evaluators do not know and `quantities` resolves: `pm(x)`, `mp(x)`,
`degree(x)` and `percent(x)`.
"""

from __future__ import annotations

from fractions import Fraction

from .calculus import derivative, integral, limit, series
from .nodes import Apply, Constant, Expr, Number, Symbol
from .tokens import Token, Unreadable, plain
from .trees import determinant, multiplied, negated
from .vocabulary import (
    ACCENTS,
    FUNCTIONS,
    GREEK,
    INVERSES,
    LONGEST_PRODUCT_OF_LETTERS,
    MANY_ARGUMENTS,
    NUMBER_WORDS,
    UNKNOWN_FUNCTIONS,
)

# A level of nesting takes up to eight frames of the stack, of which Python allows a thousand.
MAX_DEPTH = 80

_LONGEST_NAME = max(map(len, FUNCTIONS))

ZERO, ONE, TWO = Number(Fraction(0)), Number(Fraction(1)), Number(Fraction(2))


class Parser:
    """A cursor over tokens that reads expressions from them."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = list(tokens)
        self.at = 0
        self.depth = 0
        self.bars = 0

    def whole(self) -> Expr:
        """All the tokens as one expression.

        Raises:
            Unreadable: they are not one.
        """
        if len(self.tokens) == 1 and self.tokens[0].kind == "number":
            return _number(self.tokens[0])
        expr = self.sum()
        if self.at < len(self.tokens):
            raise Unreadable(f"{self.tokens[self.at].text!r} stands where an expression should end")
        return expr

    def peek(self, offset: int = 0) -> Token | None:
        """The token ahead, or None."""
        at = self.at + offset
        return self.tokens[at] if at < len(self.tokens) else None

    def looking_at(self, *texts: str) -> bool:
        """Whether the next token is a sign or command with one of these texts."""
        token = self.peek()
        return token is not None and token.kind in ("sign", "command") and token.text in texts

    def take(self) -> Token:
        """The next token, which is passed."""
        token = self.peek()
        if token is None:
            raise Unreadable("the expression ends too early")
        self.at += 1
        return token

    def _at_word(self, *words: str) -> bool:
        token = self.peek()
        return token is not None and token.kind == "word" and token.text.casefold() in words

    def expect(self, text: str) -> None:
        """Pass the sign or command `text`."""
        if not self.looking_at(text):
            token = self.peek()
            raise Unreadable(
                f"{text!r} is missing before {token.text!r}" if token else f"{text!r} is missing at the end"
            )
        self.at += 1

    def sum(self) -> Expr:
        """A sum of products."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"brackets are nested more than {MAX_DEPTH} deep")
        terms = [self._signed_product()]
        while self.looking_at("+", "-", "pm", "mp"):
            terms.append(self._signed_product())
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Apply("add", tuple(terms))

    def _signed_product(self) -> Expr:
        signs: list[str] = []
        while self.looking_at("+", "-", "pm", "mp") or self._at_word("minus", "negative"):
            token = self.take()
            signs.append("-" if token.kind == "word" else token.text)
            if len(signs) > MAX_DEPTH:
                raise Unreadable("there are too many signs in a row")
        product = self.product()
        for sign in reversed(signs):
            if sign != "+":
                product = negated(product) if sign == "-" else Apply(sign, (product,))
        return product

    def product(self) -> Expr:
        """A product of powers, with or without signs between them."""
        left = self.power()
        while True:
            token = self.peek()
            if token is None:
                return left
            if self.looking_at("cdot", "times", "*"):
                self.at += 1
                left = multiplied(left, self._unary())
            elif self.looking_at("/", "div"):
                self.at += 1
                left = Apply("div", (left, self._unary()))
            elif self.looking_at("bmod") or (token.kind == "word" and token.text == "mod" and self.peek(1) is not None):
                self.at += 1
                left = Apply("mod", (left, self._unary()))
            elif self._starts_factor(token):
                left = self._juxtaposed(left, token)
            else:
                return left

    def _unary(self) -> Expr:
        if self.looking_at("+", "-", "pm", "mp"):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise Unreadable("there are too many signs in a row")
            sign = self.take().text
            operand = self._unary()
            self.depth -= 1
            return operand if sign == "+" else negated(operand) if sign == "-" else Apply(sign, (operand,))
        return self.power()

    def _juxtaposed(self, left: Expr, token: Token) -> Expr:
        before = self.tokens[self.at - 1]
        if token.kind == "number" or (token.kind == "command" and token.text == "frac"):
            mixed = self._mixed_number(left, before, token)
            if mixed is not None:
                return mixed
        if token.kind == "number" and before.text not in (")", "}", "!", "rbrace", "|", "]", "pi"):
            raise Unreadable(f"the number {token.text!r} follows {before.text!r} without a sign between them")
        if token.kind == "number" and before.text == "}" and isinstance(left, Number):
            raise Unreadable(f"the number {token.text!r} follows a number without a sign between them")
        return multiplied(left, self.power())

    def _mixed_number(self, left: Expr, before: Token, token: Token) -> Expr | None:
        r"""`3\frac{1}{2}` or `3 1/2`: a whole number and a proper fraction of whole numbers right after it."""
        if before.kind != "number" or before.value is None or before.value.denominator != 1 or before.places:
            return None
        start = self.at
        if token.kind == "command":
            fraction = self.primary()
        else:
            slash, below = self.peek(1), self.peek(2)
            if slash is None or below is None or slash.text not in ("/", "div") or below.kind != "number":
                return None
            fraction = Apply("div", (Number(token.value or Fraction(0)), Number(below.value or Fraction(0))))
            self.at += 3
        parts = fraction.args if isinstance(fraction, Apply) and fraction.op == "div" else ()
        if len(parts) == 2 and all(isinstance(p, Number) and p.value.denominator == 1 and p.value >= 0 for p in parts):
            if isinstance(left, Number):
                return self._postfix_on(Apply("add", (left, fraction)))
            if isinstance(left, Apply) and left.op in ("neg", "mul") and left.args[-1] == Number(before.value):
                inner = Apply("add", (left.args[-1], fraction))
                return Apply(left.op, (*left.args[:-1], inner))
        self.at = start
        return None

    def _starts_factor(self, token: Token) -> bool:
        if token.kind == "number":
            return True
        if token.kind == "word":
            return not token.in_text and token.text not in ("mod", "and", "or", "if", "choose")
        if token.kind == "sign":
            return token.text in ("(", "[", "{") or (token.text == "|" and not self.bars)
        if token.text in ("lfloor", "lceil", "frac", "sqrt", "usqrt", "ucbrt", "binom", "pi", "infty", "sum", "prod"):
            return True
        return token.text in FUNCTIONS or token.text in GREEK or token.text in ACCENTS or token.text in (
            "int", "lim", "overline", "bar", "i", "j", "begin:vmatrix", "det", "angle", "triangle", "hash",
        )  # fmt: skip

    def power(self) -> Expr:
        """A postfix expression and what it is raised to."""
        base = self.postfix()
        if self.looking_at("^"):
            self.at += 1
            exponent = self._exponent()
            return base if exponent is None else self._postfix_on(Apply("pow", (base, exponent)))
        return base

    def _exponent(self) -> Expr | None:
        """What follows `^`; None for an ordinal's ending, as in `12^{\text{th}}`."""
        if self.looking_at("{"):
            token = self.peek(1)
            if token is not None and token.kind == "word" and token.text in ("th", "st", "nd", "rd"):
                self.at += 3
                return None
            return self.braced()
        if self.looking_at("+", "-"):
            sign = self.take().text
            operand = self._exponent() or ONE
            return operand if sign == "+" else negated(operand)
        base = self.postfix()
        if self.looking_at("^"):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise Unreadable("powers are nested too deep")
            self.at += 1
            exponent = self._exponent()
            self.depth -= 1
            return base if exponent is None else Apply("pow", (base, exponent))
        return base

    def braced(self) -> Expr:
        """A group in braces, which may be a fraction or a binomial in TeX's own notation."""
        self.expect("{")
        inside, end = self.peek(), self.peek(1)
        if inside is not None and inside.kind == "number" and end is not None and end.text == "}":
            self.at += 2
            return _number(inside)
        expr = self.sum()
        if self.looking_at("choose"):
            self.at += 1
            expr = Apply("binom", (expr, self.sum()))
        elif self.looking_at("over"):
            self.at += 1
            expr = Apply("div", (expr, self.sum()))
        self.expect("}")
        return expr

    def postfix(self) -> Expr:
        """A primary expression and the marks after it."""
        return self._postfix_on(self.primary())

    def _postfix_on(self, expr: Expr) -> Expr:
        while True:
            following = self.peek(1)
            if self.looking_at("!"):
                self.at += 1
                double = self.looking_at("!") and not (isinstance(expr, Apply) and expr.op == "factorial")
                self.at += 1 if double else 0
                expr = Apply("double_factorial" if double else "factorial", (expr,))
            elif self.looking_at("%"):
                self.at += 1
                expr = Apply("percent", (expr,))
            elif self.looking_at("degree"):
                self.at += 1
                expr = Apply("degree", (expr,))
            elif self.looking_at("^") and following is not None and following.text in ("circ", "degree"):
                self.at += 2
                expr = Apply("degree", (expr,))
            elif self._at_braced_degree():
                self.at += 4
                expr = Apply("degree", (expr,))
            else:
                return expr

    def _at_braced_degree(self) -> bool:
        texts = [token.text for token in self.tokens[self.at : self.at + 4]]
        return texts in (["^", "{", "circ", "}"], ["^", "{", "degree", "}"])

    def primary(self) -> Expr:
        """A number, a name, a group or a command with its arguments."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"brackets are nested more than {MAX_DEPTH} deep")
        expr = self._primary()
        self.depth -= 1
        return expr

    def _primary(self) -> Expr:
        token = self.take()
        if token.kind == "number":
            return self._based(_number(token))
        if token.kind == "word":
            return self._word(token)
        if token.kind == "sign":
            return self._group(token)
        return self._command(token)

    def _based(self, number: Number) -> Expr:
        if self.looking_at("_"):
            raise Unreadable("a number has a subscript")
        return number

    def _group(self, token: Token) -> Expr:
        if token.text == "{":
            self.at -= 1
            return self.braced()
        if token.text in ("(", "["):
            bars, self.bars = self.bars, 0
            expr = self.sum()
            self.bars = bars
            self.expect(")" if token.text == "(" else "]")
            return expr
        if token.text == "|":
            self.bars += 1
            expr = self.sum()
            self.bars -= 1
            self.expect("|")
            return Apply("abs", (expr,))
        raise Unreadable(f"{token.text!r} stands where a value should")

    def _word(self, token: Token) -> Expr:
        word = token.text
        if token.in_text and len(word) > 1:
            return self._text_word(word)
        if word in FUNCTIONS:
            return self._function(FUNCTIONS[word])
        if word in ("pi", "Pi"):
            return Constant("pi")
        if word.casefold() in ("infinity", "infinite", "inf", "infty", "oo"):
            return Constant("infinity")
        if word == "C" and self.looking_at("("):
            return self._combinations()
        if len(word) == 1:
            return self._letter(word)
        if word in GREEK:
            return self._subscripted(word)
        return self._letters(word, token)

    def _text_word(self, word: str) -> Expr:
        lowered = word.casefold()
        if lowered in ("infinity", "infinite"):
            return Constant("infinity")
        if lowered in NUMBER_WORDS:
            return Number(Fraction(NUMBER_WORDS[lowered]))
        if lowered == "pi":
            return Constant("pi")
        if lowered in ("constant", "const"):
            return Symbol("C")
        raise Unreadable(f"the word {word!r} stands where a value should")

    def _letters(self, word: str, token: Token) -> Expr:
        lowered = word.casefold()
        if lowered in NUMBER_WORDS:
            return Number(Fraction(NUMBER_WORDS[lowered]))
        for length in range(min(len(word) - 1, _LONGEST_NAME), 1, -1):
            # A name in front of letters, as in `sinx` or `pir`, where nothing separates the two.
            if word[:length] in FUNCTIONS or word[:length] == "pi":
                self.at -= 1
                rest = plain(token, text=word[length:], spaced=False)
                self.tokens[self.at : self.at + 1] = [plain(token, text=word[:length]), rest]
                self.at += 1
                return self._word(self.tokens[self.at - 1])
        if len(word) > LONGEST_PRODUCT_OF_LETTERS:
            raise Unreadable(f"{word!r} is a word")
        self.at -= 1
        self.tokens[self.at : self.at + 1] = [
            plain(token, text=letter, spaced=token.spaced and index == 0) for index, letter in enumerate(word)
        ]
        self.at += 1
        return self._letter(word[0])

    def _letter(self, letter: str) -> Expr:
        if letter == "e" and not self.looking_at("_"):
            return Constant("e")
        if letter == "i" and not self.looking_at("_"):
            return Constant("i")
        return self._subscripted(letter)

    def _subscripted(self, name: str) -> Expr:
        """A variable with its subscript and primes, or an unknown function with its arguments."""
        base = name
        if self.looking_at("_"):
            self.at += 1
            name += "_" + self._subscript()
        primes = 0
        while self.looking_at("'"):
            self.at += 1
            primes += 1
        name += "'" * primes
        if (base in UNKNOWN_FUNCTIONS or primes) and self.looking_at("("):
            return Apply(f"call:{name}", self._arguments())
        if base in UNKNOWN_FUNCTIONS and self._at_inverse():
            self.at += 5
            return Apply(f"call:{name}^-1", self._arguments())
        return Symbol(name)

    def _at_inverse(self) -> bool:
        texts = [token.text for token in self.tokens[self.at : self.at + 6]]
        return texts == ["^", "{", "-", "1", "}", "("]

    def _subscript(self) -> str:
        if not self.looking_at("{"):
            token = self.take()
            if token.kind == "word" and len(token.text) > 1:
                self.at -= 1
                self.tokens[self.at : self.at + 1] = [
                    plain(token, text=token.text[0]),
                    plain(token, text=token.text[1:], spaced=False),
                ]
                self.at += 1
                return token.text[0]
            return token.text
        depth, texts = 0, list[str]()
        while True:
            token = self.take()
            depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
            if depth == 0:
                return "".join(texts[1:])
            texts.append(token.text)

    def _arguments(self) -> tuple[Expr, ...]:
        self.expect("(")
        bars, self.bars = self.bars, 0
        args = [self.sum()]
        while self.looking_at(",", ";", "mid"):
            self.at += 1
            args.append(self.sum())
        self.bars = bars
        self.expect(")")
        return tuple(args)

    def _combinations(self) -> Expr:
        start = self.at
        args = self._arguments()
        if len(args) == 2:
            return Apply("binom", args)
        self.at = start
        return Symbol("C")

    def _command(self, token: Token) -> Expr:
        name = token.text
        if name in FUNCTIONS and name not in ("sqrt", "binom"):
            return self._function(FUNCTIONS[name])
        if name in ("pi", "infty"):
            return Constant("pi" if name == "pi" else "infinity")
        if name == "frac":
            return self._fraction()
        if name == "sqrt":
            return self._root()
        if name in ("usqrt", "ucbrt"):
            return Apply("root", (self.postfix(), TWO if name == "usqrt" else Number(Fraction(3))))
        if name == "binom":
            return Apply("binom", (self.argument(), self.argument()))
        if name in ("lfloor", "lceil"):
            expr = self.sum()
            self.expect("rfloor" if name == "lfloor" else "rceil")
            return Apply("floor" if name == "lfloor" else "ceil", (expr,))
        if name in ("sum", "prod"):
            return series(self, name)
        if name == "int":
            return integral(self)
        if name == "lim":
            return limit(self)
        if name in GREEK:
            return self._subscripted(name)
        if name in ("i", "j"):
            return Constant("i")
        if name in ("overline", "bar"):
            return Apply("conj", (self.argument(),))
        if name in ACCENTS:
            return self._accented(name)
        if name == "begin:vmatrix":
            return determinant(self.rows("vmatrix"))
        if name == "norm":
            expr = self.sum()
            self.expect("norm")
            return Apply("call:norm", (expr,))
        raise Unreadable(f"the command \\{name} is unknown here")

    def _accented(self, name: str) -> Expr:
        if self.looking_at("{"):
            depth, texts = 0, []
            while True:
                token = self.take()
                depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
                if depth == 0:
                    break
                texts.append(token.text)
            return Symbol(f"{name}({''.join(texts[1:])})")
        return Symbol(f"{name}({self.take().text})")

    def argument(self) -> Expr:
        r"""A command's argument: a group, or else one token, of a number one digit (`\frac12`)."""
        if self.looking_at("{"):
            return self.braced()
        token = self.peek()
        if token is not None and token.kind in ("number", "word") and len(token.text) > 1:
            first, rest = token.text[0], token.text[1:]
            if token.kind == "number":
                if not token.text.isdigit():
                    raise Unreadable(f"the argument {token.text!r} has no braces")
                self.tokens[self.at : self.at + 1] = [
                    plain(token, text=first, value=Fraction(int(first))),
                    plain(token, text=rest, value=Fraction(int(rest)), spaced=False),
                ]
            elif token.text not in ("pi", *FUNCTIONS):
                self.tokens[self.at : self.at + 1] = [plain(token, text=first), plain(token, text=rest, spaced=False)]
        if self.looking_at("+", "-"):
            sign = self.take().text
            operand = self.argument()
            return operand if sign == "+" else negated(operand)
        return self.primary()

    def _fraction(self) -> Expr:
        found = derivative(self)
        if found is not None:
            return found
        above = self.argument()
        return Apply("div", (above, self.argument()))

    def _root(self) -> Expr:
        degree: Expr = TWO
        if self.looking_at("["):
            self.at += 1
            degree = self.sum()
            self.expect("]")
        return Apply("root", (self.argument(), degree))

    def _function(self, op: str) -> Expr:
        if op in ("sqrt", "cbrt"):
            operand = self._arguments()[0] if self.looking_at("(") else self._argument_of_root()
            return Apply("root", (operand, TWO if op == "sqrt" else Number(Fraction(3))))
        base: Expr | None = None
        if self.looking_at("_"):
            self.at += 1
            base = self._log_base()
        exponent: Expr | None = None
        if self.looking_at("^"):
            self.at += 1
            exponent = self._exponent()
        if exponent == negated(ONE) and op in INVERSES:
            op, exponent = INVERSES[op], None
        result = self._applied(op, base)
        return result if exponent is None else Apply("pow", (result, exponent))

    def _argument_of_root(self) -> Expr:
        return self.braced() if self.looking_at("{") else self.postfix()

    def _log_base(self) -> Expr:
        token = self.peek()
        if token is not None and token.kind == "number" and len(token.text) > 1:
            following = self.peek(1)
            if following is None or not (self._starts_factor(following)):
                return self.argument()
            self.at += 1
            return Number(token.value or Fraction(0))
        return self.argument()

    def _applied(self, op: str, base: Expr | None) -> Expr:
        if op in MANY_ARGUMENTS:
            args = self._many_arguments()
            if op == "binom" and len(args) != 2:
                raise Unreadable("a binomial needs two numbers")
            return Apply(op, args)
        operand = self._operand()
        if op == "exp":
            return Apply("pow", (Constant("e"), operand))
        if op == "lg":
            return Apply("log", (Number(Fraction(10)), operand))
        if op == "log":
            return Apply("ln", (operand,)) if base is None else Apply("log", (base, operand))
        if base is not None:
            raise Unreadable(f"{op} has a subscript")
        return Apply(op, (operand,))

    def _many_arguments(self) -> tuple[Expr, ...]:
        if self.looking_at("lbrace"):
            self.at += 1
            args = [self.sum()]
            while self.looking_at(","):
                self.at += 1
                args.append(self.sum())
            self.expect("rbrace")
            return tuple(args)
        return self._arguments()

    def _operand(self) -> Expr:
        r"""The argument of a function: a group in brackets, or else all factors up to a sign or another function."""
        if self.looking_at("("):
            return self._group(self.take())
        if self.looking_at("+", "-"):
            sign = self.take().text
            operand = self._operand()
            return operand if sign == "+" else negated(operand)
        operand = self.power()
        while True:
            token = self.peek()
            if token is None or not self._starts_factor(token):
                if self.looking_at("/") and isinstance(operand, Number | Symbol | Constant):
                    self.at += 1
                    return Apply("div", (operand, self.power()))
                return operand
            if token.text in FUNCTIONS or token.text in ("(", "|", "sum", "prod", "int", "lim"):
                return operand
            operand = self._juxtaposed(operand, token)

    def rows(self, kind: str) -> list[list[Expr]]:
        r"""The entries of a matrix up to its `\end`.

        Raises:
            Unreadable: the rows have different lengths.
        """
        rows: list[list[Expr]] = [[]]
        while not self.looking_at(f"end:{kind}"):
            if self.looking_at("newline"):
                self.at += 1
                if not self.looking_at(f"end:{kind}"):
                    rows.append([])
            elif self.looking_at("&") or self.looking_at("hline"):
                self.at += 1
            else:
                rows[-1].append(self.sum())
        self.at += 1
        if not rows[0] or any(len(row) != len(rows[0]) for row in rows):
            raise Unreadable("the rows of a matrix have different lengths")
        return rows


def _number(token: Token) -> Number:
    return Number(token.value or ZERO.value, token.places)
