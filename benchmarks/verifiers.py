"""`rlvr/math-v1` beside Math-Verify: verdicts a second, latency, and how many of the verdicts are right.

    python benchmarks/verifiers.py                                 # everything, in some minutes
    python benchmarks/verifiers.py --kinds integers radicals --repeats 9 --json verdicts.json

Both grade the same cases in one process on one core and take turns, block by block. The cases are made here from a
seed: of each kind as many right answers as wrong ones, new ones in every block, so that nobody is paid for
remembering. Every verdict is compared with its label: speed is not to be bought with wrong ones.

Each is measured with the gold answer known (ours from its cache; Math-Verify with `parse(gold)` done beforehand), as
when a group of completions answers one task, and with the gold answer new (ours with its cache emptied before each
verdict; Math-Verify as its README has it, `verify(parse(gold), parse(answer))`). A ratio is between equals.
Math-Verify runs in the main thread with its own settings and time limits (5 s, SIGALRM), golds and bare answers in
`$...$`. Ours gets a bare answer with `fallback="whole"`; what it hands over to the pool is computed on the same core.

Rates are medians over the blocks; p50, p99 and worst are those of all verdicts with the gold answer known. On a machine
with other work, `--cpu-time` counts the processor time of this process in place of the time on the clock, for both
sides alike; what goes to the pool is computed by other processes, so that its kinds stay with the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from rlvr.verifiers.math.reading import read_reference
from rlvr.verifiers.math.verdict import math as math_v1
from rlvr.verifiers.pool import Pool, default_preload, shared_pool
from rlvr.verifiers.registry import averify, get_verifier, verify, verify_many

NAME = math_v1.name
FORMS = {"bare": "Bare answers", "whole": "Whole completions"}
KNOWN, NEW = "gold known", "gold new"
CASES, WARM_UP, CASES_OF_FORMS, JOBS = 200, 8, 32, 500
WORDS = ("Evelyn", "Maria", "Tuesday", "parabola", "ellipse", "equilateral", "Saturn", "west", "Ahmed", "hexagon")


def main() -> None:
    arguments = parse()
    report: dict[str, Any] = {"core": pin(), "repeats": arguments.repeats, "seconds": arguments.seconds}
    report["clock"] = "processor" if arguments.cpu_time else "wall"
    sides = our_sides() + math_verify_sides()
    tools = list(dict.fromkeys(side.tool for side in sides))
    console = Console(width=None if sys.stdout.isatty() else 120)
    if len(tools) == 1:
        console.print("math-verify is not installed, so rlvr/math-v1 runs alone (pip install math-verify).")
    for form, title in FORMS.items():
        results = {kind: measure(kind, form, sides, arguments) for kind in arguments.kinds}
        console.print(rate_table(f"{title}: verdicts a second", results, tools))
        console.print(latency_table(f"{title}: milliseconds, and right verdicts", results, tools))
        report[form] = {
            kind: {", ".join(side): found.summary() for side, found in each.items()} for kind, each in results.items()
        }
    here = [kind for kind in arguments.kinds if KINDS[kind] not in GROUPS["in the pool"]]
    report["forms"] = measure_forms(here or arguments.kinds, arguments.repeats)
    report["pool_ms"] = measure_pool()
    console.print(small_table("Forms of calling, whole completions, all kinds mixed", "a second", report["forms"]))
    console.print(small_table("The pool, jobs with nothing to do", "ms", report["pool_ms"]))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="blocks of each kind, form and side")
    parser.add_argument("--seconds", type=float, default=0.5, help=f"a block ends then, or after {CASES} cases")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--cpu-time", action="store_true", help="count processor time, not the clock's")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    return parser.parse_args()


def pin() -> int | None:
    """Keep this process, and the workers that it will start, on one core; its number where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


# The cases. A kind is a function from a random generator to a gold answer, right ones and wrong ones.

Problem = tuple[str, Sequence[str], Sequence[str]]


@dataclass(frozen=True)
class Case:
    """One answer to grade, bare and at the end of a whole completion."""

    kind: str
    gold: str
    bare: str
    whole: str
    right: bool


def integers(draw: Random) -> Problem:
    n = draw.choice((draw.randint(2, 99), draw.randint(100, 999), draw.randint(1000, 99999)))
    return f"{n}", (f"{n}", f"{n:,}", f"{n}.0", f"+{n}"), (f"{n + draw.choice((-1, 1, 10))}", f"-{n}", f"{n}0")


def fractions(draw: Random) -> Problem:
    b = draw.choice((4, 5, 8, 16, 20, 25, 40))
    a = draw.choice([a for a in range(1, 200) if Fraction(a, b).denominator == b])
    right = (f"{a}/{b}", rf"\dfrac{{{a}}}{{{b}}}", rf"\frac{{{3 * a}}}{{{3 * b}}}", f"{a / b}")
    return rf"\frac{{{a}}}{{{b}}}", right, (rf"\frac{{{b}}}{{{a}}}", rf"\frac{{{a + 1}}}{{{b}}}", f"{(a + b) / b}")


def money(draw: Random) -> Problem:
    cents = 10 * draw.randint(101, 99999) + 5 * draw.randint(0, 1)
    value = f"{cents / 100:.2f}"
    right = (value, rf"\${value}", f"{cents / 100:,.2f}", rf"{value}\text{{ dollars}}")
    return rf"\${value}", right, (rf"\${cents / 100 + 1:.2f}", f"{cents / 100 + 0.1:.2f}", rf"\${cents}")


def percent(draw: Random) -> Problem:
    p = draw.randint(11, 9999)
    gold = f"{p / 100:g}" if p > 999 else f"{p}"
    return rf"{gold}\%", (rf"{gold}\%", f"{gold}", f"{gold} \\%"), (rf"{gold}1\%", f"{float(gold) + 1:g}", f"1{gold}")


def units(draw: Random) -> Problem:
    n, unit, other = draw.randint(2, 9999), *draw.sample(("cm", "kg", "hours", "m", "miles", "seconds"), 2)
    right = (rf"{n}\text{{ {unit}}}", rf"{n}\ \mathrm{{{unit}}}", f"{n}", f"{n} {unit}")
    return rf"{n}\text{{ {unit}}}", right, (rf"{n + 1}\text{{ {unit}}}", rf"{n}\text{{ {other}}}", f"{n - 1}")


def text(draw: Random) -> Problem:
    name, other = draw.sample(WORDS, 2)
    right = (rf"\text{{{name}}}", name, rf"\textbf{{{name}}}", name.lower())
    return rf"\text{{{name}}}", right, (rf"\text{{{other}}}", other, rf"\text{{not {name}}}")


def choice(draw: Random) -> Problem:
    letter, other = draw.sample("ABCDE", 2)
    return letter, (letter, f"({letter})", rf"\text{{{letter}}}", rf"\textbf{{({letter})}}"), (other, f"({other})")


def radicals(draw: Random) -> Problem:
    a, b = draw.randint(2, 40), draw.choice((2, 3, 5, 6, 7, 10, 11, 13))
    right = (rf"\sqrt{{{a * a * b}}}", rf"\frac{{{a * b}}}{{\sqrt{{{b}}}}}", rf"{a}\cdot {b}^{{1/2}}")
    wrong = (rf"\sqrt{{{a * b}}}", rf"{a + 1}\sqrt{{{b}}}", f"{a * b**0.5:.4f}")
    return rf"{a}\sqrt{{{b}}}", right, wrong


def algebra(draw: Random) -> Problem:
    a, b, k = draw.randint(1, 30), draw.randint(1, 30), draw.randint(2, 9)
    right = (rf"{k}(x+{a})(x-{b})", rf"{k}x^2+{k}({a}-{b})x-{k * a * b}", rf"{k}(x-{b})\left(x+{a}\right)")
    wrong = (rf"{k}(x-{a})(x+{b + 1})", rf"{k}x^2+{k * (a - b)}x-{k * a * b + 1}", rf"(x+{a})(x-{b})")
    return rf"{k}x^2{k * (a - b):+d}x-{k * a * b}".replace("+0x", ""), right, wrong


def transcendental(draw: Random) -> Problem:
    a, b = draw.randint(3, 40), draw.randint(3, 40)
    if draw.random() < 0.5:
        right = (rf"\ln {a}+\ln {b}", rf"\ln({a})+\ln({b})", rf"\frac{{\ln({(a * b) ** 2})}}{{2}}")
        return rf"\ln({a * b})", right, (rf"\ln({a + b})", rf"\ln {a}\ln {b}", rf"\ln({a * b + 1})")
    right = (rf"2\sin({a}x)\cos({a}x)+{b}", rf"{b}+\sin({a}x+{a}x)", rf"2\cos({a}x)\sin({a}x)+{b}")
    return rf"\sin({2 * a}x)+{b}", right, (rf"2\sin({a}x)+{b}", rf"\cos({2 * a}x)+{b}", rf"\sin({2 * a + 1}x)+{b}")


def complex_numbers(draw: Random) -> Problem:
    a, b, c, d = (draw.randint(1, 20) for _ in range(4))
    real, imaginary = a * c - b * d, a * d + b * c
    right = (rf"({a}+{b}i)({c}+{d}i)", f"{imaginary}i{real:+d}", rf"({c}+{d}i)({b}i+{a})")
    wrong = (f"{real}-{imaginary}i", f"-{imaginary}{real:+d}i", f"{real}+{imaginary + 1}i")
    return f"{real}+{imaginary}i", right, wrong


def sets(draw: Random) -> Problem:
    a, b, c = sorted(draw.sample(range(-50, 50), 3))
    right: Sequence[str]
    if draw.random() < 0.5:
        right = (rf"\{{{c},{a},{b}\}}", rf"\left\{{{b}, {c}, {a}\right\}}", rf"\{{{a},{b}\}}\cup\{{{c}\}}")
        return rf"\{{{a},{b},{c}\}}", right, (rf"\{{{a},{b}\}}", rf"\{{{a},{b},{c + 1}\}}", f"({a},{b},{c})")
    right = (rf"\left[{a},{b}\right)\cup\left[{c},\infty\right)", rf"[{c},\infty)\cup[{a},{b})")
    wrong = (rf"[{a},{b}]\cup[{c},\infty)", rf"[{a},{b})", rf"[{a},{b})\cup[{c + 1},\infty)")
    return rf"[{a},{b})\cup[{c},\infty)", right, wrong


def matrices(draw: Random) -> Problem:
    entries = [draw.randint(-20, 20) for _ in range(4)]

    def matrix(a: object, b: object, c: object, d: object) -> str:
        return rf"\begin{{pmatrix}}{a}&{b}\\{c}&{d}\end{{pmatrix}}"

    a, b, c, d = entries
    right = (matrix(rf"\frac{{{2 * a}}}{{2}}", b, c, d), matrix(a, b, c, f"{d}.0"), matrix(a, f"{b - 1}+1", c, d))
    return matrix(*entries), right, (matrix(a, b, c, d + 1), matrix(a, b - 1, c, d), matrix(d + 50, c, b, a))


def integrals(draw: Random) -> Problem:
    n, top, k = draw.randint(2, 5), draw.randint(1, 9), draw.randint(2, 9)
    value = Fraction(k * top ** (n + 1), n + 1)
    right = (rf"\frac{{{value.numerator}}}{{{value.denominator}}}", f"{value}")
    return rf"\int_0^{{{top}}} {k}x^{{{n}}}\,dx", right, (f"{value + 1}", f"{value / 2}")


def limits(draw: Random) -> Problem:
    a, b = draw.choice((3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29)), draw.choice((2, 4, 5, 8))
    value = Fraction(a, b)
    right = (f"{value}", f"{a / b}", rf"\frac{{{3 * a}}}{{{3 * b}}}")
    return rf"\lim_{{x\to 0}}\frac{{\sin({a}x)}}{{{b}x}}", right, (f"{1 / value}", f"{value + 1}", "0", r"\infty")


GROUPS: dict[str, Sequence[Callable[[Random], Problem]]] = {
    "typical": (integers, fractions, money, percent, units, text, choice),
    "symbolic": (radicals, algebra, transcendental, complex_numbers, sets, matrices),
    "in the pool": (integrals, limits),
}
KINDS = {make.__name__: make for group in GROUPS.values() for make in group}


def make_cases(kind: str, count: int, seed: str) -> list[Case]:
    draw = Random(f"{seed} {kind}")
    cases = []
    for index in range(count):
        gold, right, wrong = KINDS[kind](draw)
        bare = draw.choice(wrong if index % 2 else right)
        cases.append(Case(kind, gold, bare, completion(bare, draw), index % 2 == 0))
    return cases


def completion(answer: str, draw: Random) -> str:
    """Some hundred characters of reasoning with numbers and formulas in it, and an answer in a box."""
    a, b, c = draw.randint(2, 99), draw.randint(2, 99), draw.randint(2, 9)
    steps = [
        f"We start from what is given, ${a}$ and ${b}$, and add them: ${a} + {b} = {a + b}$.",
        rf"Multiplying by {c} gives \({c * (a + b)}\), which is $\frac{{{c * (a + b)}}}{{1}}$ of course.",
        f"Wait, let me check that again: {a} * {c} = {a * c}, and {b} * {c} = {b * c}. Yes, it is {c * (a + b)}.",
        rf"Now the condition $x^2 - {a}x + {b} = 0$ is used, so that $x = \sqrt{{{a * a}}}$ cannot hold.",
        "Putting the pieces together, only one possibility is left over.",
    ]
    draw.shuffle(steps)
    thought, told = "\n".join(steps[:3]), " ".join(steps[3:])
    return f"<think>\n{thought}\n</think>\n\n{told}\n\nSo the final answer is $\\boxed{{{answer}}}$."


# The sides. What `prepare` does is not timed; its result is handed to `grade`.


@dataclass(frozen=True)
class Side:
    """A tool with the gold answer known to it or new."""

    tool: str
    gold: str
    prepare: Callable[[Case], Any]
    grade: Callable[[Case, str, Any], bool]


def our_sides() -> list[Side]:
    def grade(case: Case, form: str, _: Any) -> bool:
        return verify(NAME, **row(case, form)).passed is True

    return [
        Side("rlvr", KNOWN, lambda case: read_reference(case.gold), grade),
        Side("rlvr", NEW, lambda _: read_reference.cache_clear(), grade),
    ]


def row(case: Case, form: str) -> dict[str, str]:
    fallback = "whole" if form == "bare" else "none"
    return {"completion": getattr(case, form), "answer": case.gold, "fallback": fallback}


def math_verify_sides() -> list[Side]:
    try:
        from math_verify import parse
        from math_verify import verify as compare
    except ImportError:
        return []
    logging.getLogger("math_verify").setLevel(logging.ERROR)

    def gold(case: Case) -> Any:
        return parse(f"${case.gold}$")

    def answer(case: Case, form: str) -> Any:
        return parse(case.whole if form == "whole" else f"${case.bare}$")

    return [
        Side("Math-Verify", KNOWN, gold, lambda case, form, known: compare(known, answer(case, form))),
        Side("Math-Verify", NEW, lambda _: None, lambda case, form, _: compare(gold(case), answer(case, form))),
    ]


# Measuring.


@dataclass
class Found:
    """What one side did with one kind: verdicts a second by block, seconds by verdict, and right verdicts."""

    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    right: int = 0

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def summary(self) -> dict[str, float]:
        rates = {"verdicts_per_second": self.rate, "slowest_block": min(self.rates), "fastest_block": max(self.rates)}
        return {**rates, **quantiles(self.seconds), "verdicts": len(self.seconds), "right": self.right}


Results = dict[str, dict[tuple[str, str], Found]]


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """The median, the 99th percentile and the worst, in milliseconds."""
    ordered = sorted(seconds)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "worst_ms": 1.0}
    return {name: 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)] for name, share in shares.items()}


def measure(kind: str, form: str, sides: Sequence[Side], arguments: argparse.Namespace) -> dict[tuple[str, str], Found]:
    results = {(side.tool, side.gold): Found() for side in sides}
    in_process = KINDS[kind] not in GROUPS["in the pool"]
    clock = time.process_time if arguments.cpu_time and in_process else time.perf_counter
    for side in sides:
        run_block(side, make_cases(kind, WARM_UP, "warm-up"), form, arguments.seconds, clock, Found())
    for block in range(arguments.repeats):
        # A tool gets other cases with the gold answer new, for it remembers the known ones (sympy has caches).
        cases = {gold: make_cases(kind, CASES, f"{form}, {gold}, {block}") for gold in (KNOWN, NEW)}
        for turn in range(len(sides)):
            side = sides[(block + turn) % len(sides)]
            run_block(side, cases[side.gold], form, arguments.seconds, clock, results[side.tool, side.gold])
    return results


def run_block(
    side: Side, cases: Sequence[Case], form: str, limit: float, clock: Callable[[], float], found: Found
) -> None:
    done, spent = 0, 0.0
    while done < len(cases) and spent < limit:
        case = cases[done]
        prepared = side.prepare(case)
        started = clock()
        passed = side.grade(case, form, prepared)
        found.seconds.append(clock() - started)
        spent += found.seconds[-1]
        found.right += bool(passed) is case.right
        done += 1
    found.rates.append(done / spent)


def measure_forms(kinds: Sequence[str], repeats: int) -> dict[str, float]:
    """Verdicts a second for each way of calling, golds known."""

    async def gathered(rows: list[dict[str, str]]) -> None:
        await asyncio.gather(*(averify(NAME, **each) for each in rows))

    grader = get_verifier(NAME)
    forms: dict[str, Callable[[list[dict[str, str]]], Any]] = {
        "the function itself": lambda rows: [math_v1(**each) for each in rows],
        "verify, one by one": lambda rows: [verify(NAME, **each) for each in rows],
        "Verifier.grade_many": lambda rows: grader.grade_many(rows),
        "verify_many": lambda rows: verify_many(NAME, rows),
        "averify, gathered": lambda rows: asyncio.run(gathered(rows)),
    }
    rates: dict[str, list[float]] = {name: [] for name in forms}
    for block in range(repeats):
        rows = [row(case, "whole") for kind in kinds for case in make_cases(kind, CASES_OF_FORMS, f"forms {block}")]
        Random(block).shuffle(rows)
        for each in rows:
            read_reference(each["answer"])
        for turn in range(len(forms)):
            name, call = list(forms.items())[(block + turn) % len(forms)]
            started = time.perf_counter()
            call(rows)
            rates[name].append(len(rows) / (time.perf_counter() - started))
    return {name: statistics.median(each) for name, each in rates.items()}


def measure_pool() -> dict[str, float]:
    """Milliseconds of a new pool's first job, which waits for its processes, and of a job in the running pool."""
    seconds = []
    for _ in range(JOBS + 1):
        started = time.perf_counter()
        shared_pool().run(abs, -1, timeout=5)
        seconds.append(time.perf_counter() - started)
    with Pool(1, preload=default_preload()) as pool:
        started = time.perf_counter()
        pool.run(abs, -1, timeout=5)
        first = time.perf_counter() - started
    later = {f"then, {name.removesuffix('_ms')}": value for name, value in quantiles(seconds[1:]).items()}
    return {"first job of a new pool": 1000 * first, **later}


# Tables.


def rate_table(title: str, results: Results, tools: Sequence[str]) -> Table:
    alone = len(tools) == 1
    columns = [f"{tool}\n{gold}" for gold in (KNOWN, NEW) for tool in (*tools, *(() if alone else ("ratio",)))]
    table = empty_table(title, columns)

    def add(label: str, rates: dict[tuple[str, str], float]) -> None:
        cells = []
        for gold in (KNOWN, NEW):
            cells += [f"{rates[tool, gold]:,.0f}" for tool in tools]
            cells += [] if alone else [f"{rates[tools[0], gold] / rates[tools[1], gold]:.1f}"]
        table.add_row(label, *cells)

    for group, makers in GROUPS.items():
        kinds = [kind for kind in results if KINDS[kind] in makers]
        for kind in kinds:
            add(kind, {side: found.rate for side, found in results[kind].items()})
        sides = results[kinds[0]] if len(kinds) > 1 else {}
        # The harmonic mean is the rate of a mix with as many of each kind; the geometric one gives each kind its say.
        for name, mean in (("mixed", statistics.harmonic_mean), ("geometric mean", statistics.geometric_mean)):
            if sides:
                add(f"{group}, {name}", {side: mean([results[kind][side].rate for kind in kinds]) for side in sides})
        table.add_section()
    return table


def latency_table(title: str, results: Results, tools: Sequence[str]) -> Table:
    table = empty_table(title, [f"{tool}\n{name}" for tool in tools for name in ("p50", "p99", "worst", "right")])
    for kind, found in results.items():
        cells = []
        for tool in tools:
            cells += [f"{value:.2f}" for value in quantiles(found[tool, KNOWN].seconds).values()]
            both = [found[tool, gold] for gold in (KNOWN, NEW)]
            cells += [f"{sum(each.right for each in both)}/{sum(len(each.seconds) for each in both)}"]
        table.add_row(kind, *cells)
    return table


def small_table(title: str, column: str, rows: dict[str, float]) -> Table:
    table = empty_table(title, [column])
    for name, value in rows.items():
        table.add_row(name, f"{value:,.0f}" if value > 100 else f"{value:.3f}")
    return table


def empty_table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", min_width=len(title))
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left")
    return table


if __name__ == "__main__":
    main()
