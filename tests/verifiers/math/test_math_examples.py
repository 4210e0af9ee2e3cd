"""Answers that are a reference answer and answers that are not, kind by kind."""

from __future__ import annotations

import pytest

import rlvr

# Kind, reference, answers that are it, answers that are not.
# fmt: off
EXAMPLES: list[tuple[str, str, list[str], list[str]]] = [
    # int
    ("int", "17", [
        "17", "+17", "017", "17.", "17.0", "{17}", "$17$", r"\boxed{17}", "34/2", r"\frac{34}{2}", r"\textbf{17}",
        "20-3",
    ], [
        "18", "-17", "170", "1.7", "17.02", "1 7", "17 wrong", r"\ne 17", "17x", "17=18", "16, or rather 18", "17?2",
        "<17",
    ]),
    ("int", "-8", [
        "-8", "−8", r"-\,8", "(-8)", "-(8)",
    ], [
        "8", "--8", "+8", "-80",
    ]),
    ("int", "98765432109876543210", [
        "98765432109876543210", "98,765,432,109,876,543,210",
    ], [
        "98765432109876543211", "9.8765432109876543e19",
    ]),
    # fraction
    ("fraction", r"\frac{5}{8}", [
        "5/8", r"\frac58", "0.625", ".625", r"\dfrac{5}{8}", r"{5\over 8}", r"5\div8", r"\frac{10}{16}", r"62.5\%",
        r"\nicefrac58",
    ], [
        "8/5", "0.62", "0.63", "5.8", "58", "-5/8", r"\frac{5}{9}", "5,8", "5:8 or 8:5",
    ]),
    ("fraction", r"-\frac{7}{3}", [
        r"\frac{-7}{3}", r"\frac{7}{-3}", "-7/3", r"-2\frac13",
    ], [
        "7/3", "-2.33", "-2.333", r"-\frac{3}{7}",
    ]),
    # repeating
    ("repeating", r"\frac{2}{11}", [
        r"0.\overline{18}", "0.(18)", r"0.1818\ldots", r"0.\dot{1}\dot{8}", "0.181818...",
    ], [
        "0.18", "0.1818", "0.18181818", r"0.\overline{81}", r"0.1\overline{8}",
    ]),
    ("repeating", r"0.58\overline{3}", [
        "7/12", r"\frac{7}{12}",
    ], [
        "0.583", "0.58", r"0.\overline{583}",
    ]),
    ("repeating", r"\frac{1}{3}", [
        r"0.\overline{3}", "0.333...", "1/3", r"0.\bar{3}", r"\frac{1}{3}\approx0.333", r"33\frac13\%",
        r"33.\overline{3}\%",
    ], [
        "0.333", "0.33333333", r"33\%", r"33.3\%", ".3",
    ]),
    # rounding
    ("rounding", "2.35", [
        "2.35", "2.350", r"2.35\text{ m}", r"\frac{47}{20}", r"\frac{40}{17}",
    ], [
        "2.4", "2.3", "2.351", "2.349", "2.36", r"\frac{33}{14}",
    ]),
    ("rounding", r"\sqrt{7}", [
        r"\sqrt7", "7^{0.5}",
    ], [
        "2.645751", "2.65", r"\approx 2.65", "2.6457513110645906",
    ]),
    ("rounding", r"\frac{2}{7}", [
        r"\frac27\approx 0.2857",
    ], [
        "0.286", "0.285714", "0.29",
    ]),
    # mixed
    ("mixed", r"4\frac{3}{8}", [
        "4 3/8", r"4\ \frac38", r"4+\frac38", "35/8", "4.375",
    ], [
        "43/8", r"\frac{3}{8}", "4", "12/8", r"4\cdot\frac38",
    ]),
    ("mixed", r"-1\frac{1}{5}", [
        "-6/5", "-1.2", r"-(1+\frac15)",
    ], [
        "-4/5", "6/5", "-0.8",
    ]),
    # radical
    ("radical", r"3\sqrt{5}", [
        r"\sqrt{45}", "3√5", r"\sqrt5\cdot3", "3*sqrt(5)", r"\frac{15}{\sqrt5}", "45^{1/2}",
    ], [
        r"5\sqrt3", r"-3\sqrt5", r"\sqrt{15}", "6.708", r"3\sqrt{5}i", r"3\sqrt[3]{5}",
    ]),
    ("radical", "-3", [
        r"\sqrt[3]{-27}", r"-\sqrt9",
    ], [
        r"\sqrt9", r"\sqrt{-9}",
    ]),
    ("radical", r"\sqrt{3}+\sqrt{7}", [
        r"\sqrt{10+2\sqrt{21}}", r"\sqrt7+\sqrt3",
    ], [
        r"\sqrt{10}", r"\sqrt{10+2\sqrt{22}}",
    ]),
    # power
    ("power", "5^{40}", [
        "25^{20}", "5**40", "(5^{20})^2",
    ], [
        "5^{41}", "5^{20}", "40^5", r"5\cdot40",
    ]),
    ("power", r"\frac{1}{27}", [
        "3^{-3}", "27^{-1}", r"\left(\frac13\right)^3",
    ], [
        "-3^3", "3^3", r"-\frac1{27}",
    ]),
    ("power", "3^{k+2}", [
        r"9\cdot3^k", r"3^k\cdot 3^2",
    ], [
        "3^k+2", "3^{k}+9", "3^{2k}",
    ]),
    ("power", "2^{64}-1", [
        "18446744073709551615", "18,446,744,073,709,551,615", "(2^{32}-1)(2^{32}+1)",
    ], [
        "18446744073709551616", "2^{64}", "2^{63}", "1.8446744073709552e19",
    ]),
    # scientific
    ("scientific", "0.00045", [
        r"4.5\times10^{-4}", "4.5e-4", r"45\cdot10^{-5}", "4.5E-4", "4.5×10⁻⁴",
    ], [
        "4.5e-5", "4.5e4", "0.0045",
    ]),
    ("scientific", r"1.6\times 10^{-19}", [
        "1.6e-19", r"1.6\cdot10^{-19}",
    ], [
        r"1.6\times10^{19}", r"1.6\times10^{-18}", "0",
    ]),
    ("scientific", "4000000", [
        "4 million", r"4\text{ million}", "4e6", r"4\times10^6",
    ], [
        "4", "4 thousand", "4 billion",
    ]),
    # comma
    ("comma", "12345", [
        "12,345", "12{,}345", r"12\,345", r"12,\!345", "12 345",
    ], [
        "12.345", "12, 345", "1,2345",
    ]),
    ("comma", "7, 350", [
        "350, 7", "7 and 350",
    ], [
        "7350",
    ]),
    ("comma", "5,000", [
        "5000", "5,000",
    ], [
        "5", "5.000",
    ]),
    # tuple
    ("tuple", "(3,-4)", [
        "(3, -4)", r"\left(3,-4\right)", "x=3, y=-4", "(x,y)=(3,-4)", r"\langle 3,-4\rangle", r"(\sqrt9,-2^2)",
    ], [
        "(-4,3)", "(3,4)", "3,4", "(3,-4,0)", "(3,-4),(3,-4)", r"\{3,-4\}", "3-4", "x=-4, y=3", "[3,-4]",
    ]),
    ("tuple", "(1,2)", [
        "1,2",
    ], [
        r"\{1,2\}", r"1<x<2 \text{ or } 3",
    ]),
    ("tuple", "(2,3)", [
        "2, 3", "(2;3)", r"\left(2;\ 3\right)", "A(2,3)", r"\begin{pmatrix}2\\3\end{pmatrix}", r"\langle 2,3\rangle",
        "x=2,y=3", r"x=2\text{ and }y=3", "(x,y)=(2,3)", "P=(2,3)", "2<x<3",
    ], [
        "(3,2)", "x=3,y=2", "(2,3]", "[2,3]", "2", "5",
    ]),
    # interval
    ("interval", "(-1,6]", [
        r"-1<x\le 6", r"x\in(-1,6]", r"6\ge x>-1", "]-1,6]",
    ], [
        "[-1,6]", "(-1,6)", "[-1,6)", "(-1,6", "-1,6", "(6,-1]",
    ]),
    ("interval", r"x\ge 4", [
        r"[4,\infty)", r"4\le x", r"[4,+\infty)", r"\{x\mid x\ge4\}",
    ], [
        r"(4,\infty)", "x>4", "4", r"x\le 4", r"y\ge 4",
    ]),
    ("interval", r"(-\infty,0)\cup(3,\infty)", [
        r"x<0\text{ or }x>3", r"\mathbb{R}\setminus[0,3]", r"(3,\infty)\cup(-\infty,0)",
    ], [
        "x<0", "0<x<3", r"(-\infty,0]\cup[3,\infty)", r"(-\infty,3)",
    ]),
    ("interval", r"\mathbb{R}\setminus\{2\}", [
        r"x\ne2", r"(-\infty,2)\cup(2,\infty)",
    ], [
        r"\mathbb{R}", "x=2", "2", r"x\ne 3",
    ]),
    ("interval", r"1 \le x \le 5", [
        "[1,5]", r"x\in[1,5]", r"1\leq x\leq5", r"5\ge x\ge1", r"x\ge 1 \text{ and } x\le 5",
        r"1\leqslant x\leqslant 5",
    ], [
        "(1,5)", "1<x<5", "[1,5)", r"x\ge1", "1,5", r"\{1,5\}", r"1 \le x \le 5 \text{ or } x = 7",
        r"x\ge1\text{ or }x\le5",
    ]),
    ("interval", "x<2", [
        "2>x", r"(-\infty,2)", r"x\in(-\infty,2)", r"\{x : x<2\}", "x < 2",
    ], [
        r"x\le2", "x>2", "2", "y<2", "x<2, x>5",
    ]),
    # set
    ("set", r"\{2,5,9\}", [
        r"\{9,2,5\}", "2,5,9", "5, 2, 9", r"\{2,5\}\cup\{9\}",
    ], [
        r"\{2,5\}", r"\{2,5,9,10\}", "(2,5,9)", "[2,5,9]", "259", r"\{2,5,\ldots\}",
    ]),
    ("set", "x=1, x=-6", [
        "1,-6", r"x=-6\text{ or }x=1", r"x\in\{1,-6\}", r"\{-6,1\}",
    ], [
        "1", "-6", "1,6", "x=1, x=6", r"1\text{ or }-5",
    ]),
    ("set", r"\emptyset", [
        r"\{\}", r"\varnothing",
    ], [
        "0", r"\{0\}", r"\{\emptyset\}",
    ]),
    ("set", r"\{1,2,3,\ldots\}", [
        r"\{1,2,3,\dots\}", r"\{1,2,3,...\}",
    ], [
        r"\{1,2,3\}", r"\{2,4,6,\ldots\}",
    ]),
    # plus-minus
    ("plus-minus", r"\pm\sqrt{6}", [
        r"\sqrt6,-\sqrt6", r"x=\pm\sqrt6", "±√6", r"\{-\sqrt6,\sqrt6\}",
    ], [
        r"\sqrt6", r"-\sqrt6", r"\pm6",
    ]),
    ("plus-minus", r"2\pm i", [
        "2+i, 2-i", r"2-i \text{ and } 2+i",
    ], [
        "2+i", "2-i", r"1\pm i", r"2\pm 1",
    ]),
    ("plus-minus", r"x=\frac{1\pm\sqrt{5}}{2}", [
        r"\frac{1+\sqrt5}{2},\frac{1-\sqrt5}{2}", r"\frac12\pm\frac{\sqrt5}{2}",
        r"x=\frac{1+\sqrt5}{2}\text{ or }x=\frac{1-\sqrt5}{2}",
    ], [
        r"\frac{1+\sqrt5}{2}", r"\frac{1\pm\sqrt3}{2}", r"\frac{-1\pm\sqrt5}{2}",
    ]),
    # equation
    ("equation", "y=3x-2", [
        "3x-2", "y-3x+2=0", "2y=6x-4", "3x-y=2",
    ], [
        "y=3x+2", "y=-3x-2", "x=3y-2", "0=0", "y=y", "3x-2=0",
    ]),
    ("equation", "x=9", [
        "9", "x = 9", "9=x",
    ], [
        "x=8", "x^2=81", "2x=18", "x=x", "0=0", "x=9, x=8",
    ]),
    ("equation", "(x-1)^2+(y+2)^2=9", [
        "x^2-2x+y^2+4y-4=0", "9=(y+2)^2+(x-1)^2",
    ], [
        "(x-1)^2+(y+2)^2=3", "(x+1)^2+(y-2)^2=9", "1=1", "(x-1)^2+(y+2)^2",
    ]),
    ("equation", "2x+3y=6", [
        "4x+6y=12", r"y=-\frac23x+2", "-2x-3y=-6", "2x+3y-6=0", r"\frac x3+\frac y2=1",
    ], [
        "2x+3y=5", "2x-3y=6", "6=6", "2x+3y", "0=0", "x=0",
    ]),
    ("equation", "2x-1", [
        "2x-1", "-1+2x", "y=2x-1", "f(x)=2x-1", r"2(x-\frac12)",
    ], [
        "2x+1", "1-2x", "2x", "2x-1=0", "3",
    ]),
    # system
    ("system", "x=4, y=7", [
        "y=7, x=4", "(x,y)=(4,7)", r"\begin{cases}x=4\\y=7\end{cases}", "(4,7)",
    ], [
        "x=7, y=4", "4", "x=4", "7,4", "x=4, y=8", "x=4, z=7",
    ]),
    ("system", r"x=2,\ y=-1", [
        r"\left(2,-1\right)", r"y=-1\text{ and }x=2", "x = 2 , y = -1",
    ], [
        "2", "x=2", "(−1,2)",
    ]),
    ("system", "a=3,b=4", [
        "(a,b)=(3,4)", "b=4, a=3",
    ], [
        "(b,a)=(3,4)", "3", "b=3,a=4",
    ]),
    # congruence
    ("congruence", r"x\equiv 3\pmod{7}", [
        r"x\equiv 10\pmod 7", r"3\pmod7", "x ≡ 3 (mod 7)",
    ], [
        r"x\equiv3\pmod 8", r"x\equiv4\pmod7", "3", "7", r"y\equiv 3\pmod 7",
    ]),
    # ratio
    ("ratio", "3:4", [
        "3:4", "6:8", "3 : 4", r"\frac34",
    ], [
        "4:3", "3:5", "34", "3,4",
    ]),
    ("ratio", "2:3:5", [
        "4:6:10",
    ], [
        "2:5:3", "2:3", "2:3:5:7",
    ]),
    ("ratio", "4:3", [
        "4:3", "8:6", "4/3", "4 : 3", r"4\text{ to }3",
    ], [
        "3:4", "4:3:1", "7",
    ]),
    # matrix
    ("matrix", r"\begin{pmatrix}2&0\\1&5\end{pmatrix}", [
        r"\begin{bmatrix}2&0\\1&5\end{bmatrix}", r"\begin{pmatrix} 2 & 0 \\ 1 & \frac{10}{2} \end{pmatrix}",
    ], [
        r"\begin{pmatrix}2&1\\0&5\end{pmatrix}", r"\begin{pmatrix}2&0\\1&6\end{pmatrix}", "10",
        r"\begin{pmatrix}2&0&1&5\end{pmatrix}", r"\begin{vmatrix}2&0\\1&5\end{vmatrix}",
    ]),
    ("matrix", r"\begin{pmatrix}1\\2\\3\end{pmatrix}", [
        "(1,2,3)", r"\begin{bmatrix}1\\2\\3\end{bmatrix}", r"\langle1,2,3\rangle",
        r"\begin{pmatrix}1\\2\\3\end{pmatrix}", "(1, 2, 3)",
    ], [
        "(3,2,1)", r"\begin{pmatrix}1\\2\end{pmatrix}", "6", r"\{1,2,3\}",
    ]),
    # complex
    ("complex", "3-2i", [
        "-2i+3", r"3-2\mathrm{i}", r"3-\sqrt{-4}", r"\frac{13}{3+2i}",
    ], [
        "3+2i", "-3+2i", "3-2", "3-2j+1", "2-3i", r"\sqrt{13}",
    ]),
    ("complex", "-1", [
        r"e^{i\pi}", "i^2", "e^{πi}",
    ], [
        "i", "1", "e^{i}",
    ]),
    # transcendental
    ("transcendental", r"\frac{\pi}{6}", [
        r"\arcsin\frac12", r"\frac16\pi", "π/6", r"\tan^{-1}\frac{1}{\sqrt3}", r"30^\circ",
    ], [
        "0.5236", r"\frac{6}{\pi}", r"\frac\pi3", "1/6", r"\frac{22}{42}",
    ]),
    ("transcendental", r"2\ln 3", [
        r"\ln 9", r"\ln3+\ln3", r"\log_e 9",
    ], [
        r"\ln 6", r"\ln 3", r"\ln^2 3", "2.197", r"(\ln3)^2",
    ]),
    ("transcendental", r"\cos 2x", [
        r"2\cos^2x-1", r"1-2\sin^2 x", r"\cos^2x-\sin^2x",
    ], [
        r"2\cos x", r"\cos^2 x", r"\sin 2x", r"1-2\cos^2x",
    ]),
    # algebra
    ("algebra", "x^2-5x+6", [
        "(x-2)(x-3)", "6-5x+x^2", "x(x-5)+6",
    ], [
        "(x+2)(x+3)", "x^2-5x+5", "x^2+5x+6", "x=2, x=3", "y^2-5y+6", "0",
    ]),
    ("algebra", r"\frac{1}{a}+\frac{1}{b}", [
        r"\frac{a+b}{ab}", "1/a+1/b",
    ], [
        r"\frac{2}{a+b}", r"\frac{1}{a+b}", r"\frac{a+b}{a}",
    ]),
    ("algebra", "|a-b|", [
        "|b-a|", r"\sqrt{(a-b)^2}",
    ], [
        "a-b", "b-a", "|a+b|",
    ]),
    ("algebra", r"x+\frac{1}{x}", [
        r"\frac{x^2+1}{x}", "x+x^{-1}", "x^{-1}+x",
    ], [
        r"\frac{x+1}{x}", r"x-\frac1x", "2",
    ]),
    # calculus
    ("calculus", r"\frac{x^3}{3}+C", [
        r"\frac13x^3+C", r"\frac{x^3}{3}+5+C", "C+x^3/3", r"\frac{x^3+1}{3}+c",
    ], [
        r"\frac{x^3}{3}", "x^3+C", r"\frac{x^2}{3}+C", "C", r"\frac{x^3}{3}+x+C",
    ]),
    ("calculus", r"\ln|x|+C", [
        r"C+\ln|x|", r"\ln|2x|+C",
    ], [
        r"\ln|x|", r"2\ln|x|+C", "e^x+C",
    ]),
    ("calculus", "1/3", [
        r"\int_0^1 x^2\,dx", r"\lim_{x\to0}\frac{\sin x}{3x}",
    ], [
        r"\int_0^1 x\,dx",
    ]),
    ("calculus", "x^2+c", [
        "x^2+c",
    ], [
        "x^2",
    ]),
    ("calculus", "x^2+C", [
        "x^2+c", "x^2+K", "y=x^2+C",
    ], [
        "x^2", "x^2+x", "x^2+D x",
    ]),
    ("calculus", r"\frac{1}{2}\sin 2x+C", [
        r"\sin x\cos x+C", r"C+\frac{\sin 2x}{2}",
    ], [
        r"\sin x\cos x", r"\cos 2x+C",
    ]),
    # combinatorics
    ("combinatorics", r"\binom{9}{4}", [
        "126", r"\binom95", r"\frac{9!}{4!5!}", "C(9,4)", r"{9 \choose 4}",
    ], [
        r"\binom{9}{3}", "127", r"\frac94", r"\frac{9!}{4!}",
    ]),
    ("combinatorics", "720", [
        "6!", r"3!\cdot 5!", r"6\cdot5!",
    ], [
        "5!", "6", "(3!)!/2", "7!",
    ]),
    # infinity
    ("infinity", r"-\infty", [
        r"-\infty", "-∞", r"-\text{infinity}",
    ], [
        r"\infty", "0", "-10^{99}", r"\infty-\infty",
    ]),
    ("infinity", "0", [
        "0", "0.0", "-0",
    ], [
        r"\infty", r"\frac{0}{0}", r"\frac10", r"0\cdot\infty", "hello0", r"\text{x}0", "0=0, 1",
    ]),
    ("infinity", r"\infty", [
        r"\infty", r"+\infty", "∞", r"\text{infinity}",
    ], [
        r"-\infty", "10^{10}", r"\text{undefined}", "1/0", r"\text{does not exist}",
    ]),
    # unicode
    ("unicode", r"x^2+\frac12", [
        "x²+½", "x²+1/2", "x² + ½",
    ], [
        "x³+½", "x₂+½", "x²+¼",
    ]),
    ("unicode", "81", [
        "８１", "3⁴", "9²", "81。", "８１",
    ], [
        "18", "８", "3₄",
    ]),
    # unit
    ("unit", r"12\text{ km}", [
        "12", "12 km", "12km", "12000 m", r"12\,\mathrm{km}", "12 kilometers",
    ], [
        "12 m", "12 cm", "12 kg", "12 hours", "12 km/h", "12 km^2", "1.2 km",
    ]),
    ("unit", "40", [
        "40 km", "40 km/h", "40 students", r"40\text{ cm}^2", "40 units", r"40\text{ square units}",
    ], [
        "40 million", "40 dozen", "40 wrong", "40 or 41", r"40\text{ is not right}", "40 thousand",
    ]),
    ("unit", r"36\text{ cm}^2", [
        "36", r"36\text{ square cm}", "36 cm^2", "36 sq cm", r"0.0036\text{ m}^2",
    ], [
        "36 cm", r"36\text{ cm}^3", "36 m^2", "6 cm^2",
    ]),
    ("unit", r"15 \text{ apples}", [
        "15", "15 apples", "15 apple",
    ], [
        "15 oranges", "14 apples", "apples",
    ]),
    ("unit", "90 mph", [
        "90", "90 miles per hour", r"90\text{ miles/hour}", "90 mi/h",
    ], [
        "90 km/h", "90 m/s", "90 miles",
    ]),
    ("unit", r"60 \text{ km/h}", [
        "60", "60 kmh", "60 km per hour", "60 kilometers per hour", r"60\,\text{km}\cdot\text{h}^{-1}",
    ], [
        "60 m/s", "60 km", "60 h",
    ]),
    ("unit", r"9.8\text{ m/s}^2", [
        "9.8", "9.8 m/s^2", r"9.8\,\mathrm{m\,s^{-2}}", "9.8 meters per second squared",
    ], [
        "9.8 m/s", "98", "9.81",
    ]),
    ("unit", "20 years", [
        "20", "20 yrs",
    ], [
        "20 months", "20 days", "200",
    ]),
    ("unit", r"\sqrt{2}\text{ cm}", [
        r"\sqrt2", r"\sqrt{2}\text{ cm}", "√2 cm",
    ], [
        "1.41", "1.414 cm", "2 cm", r"\sqrt2\text{ m}",
    ]),
    # unit versus variable
    ("unit versus variable", "3m", [
        "3m", r"m\cdot3", "3*m",
    ], [
        "3", "3n", "m", "3 m + 1",
    ]),
    ("unit versus variable", "4s+t", [
        "t+4s",
    ], [
        "4+t", "4s", "4", "4s+1",
    ]),
    ("unit versus variable", "7", [
        "7 m", "7 s", r"7\text{ g}",
    ], [
        "7n", "7x", "7t", "7k",
    ]),
    # degree
    ("degree", r"45^\circ", [
        "45", "45°", r"45^{\circ}", "45 degrees", r"\frac{\pi}{4}", r"\angle B=45^\circ",
    ], [
        "44", "4.5°", r"45\text{ radians}", r"\frac{\pi}{3}", "45 m",
    ]),
    ("degree", r"32^\circ\text{F}", [
        "32°F",
    ], [
        "32°C", "0°C",
    ]),
    # money
    ("money", r"\$12.50", [
        "12.5", "$12.50", r"\$12.5", "12.50 dollars", "1250 cents", "USD 12.50", "12.50 USD",
    ], [
        "12.05", "$1250", r"\$12", "12.50 euros", "€12.50", r"\$12.50\text{ million}",
    ]),
    ("money", r"\$3.5\text{ million}", [
        "3500000", r"\$3,500,000", "3.5 million", "3.5 million dollars",
    ], [
        "3.5", r"\$3.5", "35",
    ]),
    # percent
    ("percent", r"25\%", [
        "25", "25%", "0.25", r"\frac14", "25 percent", r"25\text{ percent}",
    ], [
        "2.5", "2500", "250%", "0.25%", "0.0025", "24",
    ]),
    ("percent", "0.08", [
        r"8\%", "8/100", "0.08",
    ], [
        "8", "80%", "0.8", "0.8%",
    ]),
    ("percent", r"\frac{3}{4}", [
        r"75\%", r"\frac{3}{4}\text{ cups}", "0.75", ".75",
    ], [
        "0.74", r"7.5\%", "75", "3/4 wrong", "4/3",
    ]),
    ("percent", "75", [
        r"75\%", "75 percent", "75%",
    ], [
        "0.75", "3/4", "7500",
    ]),
    # time
    ("time", "7:45", [
        "7:45", "07:45", "7:45 AM", "7:45 p.m.",
    ], [
        "7:46", "8:45", "745", "7.45", r"\frac{7}{45}", "45:7",
    ]),
    ("time", "3:30 PM", [
        "3:30 PM", "3:30 p.m.", "15:30", r"3{:}30\text{ PM}", "3:30",
    ], [
        "3:30 AM", "3:31 PM", "330",
    ]),
    ("time", "90 minutes", [
        "90", "1.5 hours", "1 hour 30 minutes", r"1\text{ hour and }30\text{ minutes}",
    ], [
        "90 hours", "1 hour", "90 seconds", "1.5",
    ]),
    ("time", "10:15 AM", [
        "10:15", "10:15 a.m.", "10:15AM", "10:15 am",
    ], [
        "10:15 PM", "10:16 AM",
    ]),
    # base
    ("base", "1101_2", [
        "1101_2", "1101_{2}", r"1101_{\text{two}}", "(1101)_2",
    ], [
        "1101_3", "1011_2", "13_3",
    ]),
    ("base", "1F_{16}", [
        "1F_{16}", "1f_{16}",
    ], [
        "1F_{17}", "1E_{16}", "1F",
    ]),
    # text
    ("text", r"\text{Paris}", [
        "Paris", "paris", r"\textbf{Paris}", r"\text{Paris}.", r"\text{the Paris}", r"\mathrm{Paris}",
    ], [
        "London", r"\text{Paris or London}", r"\text{not Paris}", "Par is", "5",
    ]),
    ("text", r"\text{Yes}", [
        "yes", "YES", r"\text{yes}.",
    ], [
        "no", "yes and no", r"\text{not yes}", "true", "1",
    ]),
    ("text", r"\text{no solution}", [
        "no solution", r"\emptyset", "No solutions", r"\text{no real solutions}",
    ], [
        "0", r"\text{one solution}", "solution", r"\text{infinitely many solutions}",
    ]),
    ("text", r"\text{parallelogram}", [
        "a parallelogram", "Parallelogram",
    ], [
        "rectangle", r"\text{parallelogram and square}",
    ]),
    ("text", "even", [
        "even", r"\text{even}",
    ], [
        "odd", "even and odd", "neither even", "not even", "evens or odds",
    ]),
    ("text", r"\text{Monday}", [
        "monday", "Monday.", "MONDAY",
    ], [
        "Tuesday", "Monday or Tuesday", "Sunday",
    ]),
    ("text", r"\text{DNE}", [
        "does not exist", r"\text{does not exist}", "DNE", "dne",
    ], [
        "0", r"\infty", "exists",
    ]),
    # choice
    ("choice", "B", [
        "B", "(B)", "b", r"\text{B}", r"\textbf{(B)}\ 17", "B) 17", "B. seventeen", "Option B", r"\text{(B) }17",
    ], [
        "A", "D", "AB", "A, B", r"\text{A or B}", r"\text{not B}", "(A) B", "17", r"\text{B is wrong}", "A and B",
        "ABCDE",
    ]),
    ("choice", "A, D", [
        "D, A", r"\text{A and D}",
    ], [
        "A", "D", "A, B, D", "A, C",
    ]),
    ("choice", r"\text{A}", [
        "A", "(A)", "A.", "a", r"\textbf{A}", "A: 5",
    ], [
        "B", "An apple", "A or B", "not A", "A, B", "Apple",
    ]),
    ("choice", "E", [
        "E", "(E)", r"\text{(E)}", r"\textbf{(E) }25",
    ], [
        "2.718", r"\text{(D)}", "exp(1)",
    ]),
    ("choice", r"\text{C}", [
        "C", r"\text{C. }3x+1", "(C) 3x+1",
    ], [
        "C+1", "x+C", r"\text{C or D}", r"\text{All of A, B, C}",
    ]),
    # identity
    ("identity", "f(5)=26", [
        "26", "f(5)=26", "f(5) = 26",
    ], [
        "27", "f(5)=25", "0=1", "5", "f(5)=5",
    ]),
    # list
    ("list", r"\frac12, 3, -4", [
        "3, -4, 0.5", r"-4,\frac12,3",
    ], [
        r"\frac12,3", r"\frac12,3,4", "0.5, 3, -4, 1", "123",
    ]),
    # zero
    ("zero", "0", [
        r"0\text{ apples}",
    ], [
        "0hello", "hello 0", "abc0", r"\text{hello}\cdot 0", "x0",
    ]),
    # wrappers and noise
    ("wrappers and noise", "5", [
        "5",
    ], [
        "5 am wrong", "5 NaN", "5 nan", "5.5.5", "5 5", "5/5/5", "5 at most", r"5\text{ or more}",
        r"\text{at least }5", "5+", "+", "5=", "=5=6", "5!=5", "5~6", "5..6", "5-", "5 minus", "5 less", r"5\times",
        "(5", "5)", r"\frac{5}", r"\frac{5}{}", "5^", "5_", "5_2", "5&6", r"5\\6", "5|6", "5;6", "5 6/7",
        "five or six", "5i", "5e", r"5\pi", "5 pi", "5+0i+j", "5 C", "-5", "|−5|x",
    ]),
    ("wrappers and noise", "5", [
        "|-5|", "=5", "x=5", "5.", "5,", "5;", "(5)", "[5]", "5.0", "5.00", "five", "+5", r"\{5\}", r"5\approx 5.0",
        "2+3=5", "10/2", r"\sqrt{25}", r"\lfloor 5.9\rfloor", "$5$", r"\$5", "5°", r"5\%",
    ], [
    ]),
    ("wrappers and noise", "42", [
        r"\text{The final answer is } 42", "Answer: 42", "= 42", r"\therefore 42", r"42\text{ ways}", "42 ways",
        "42 different ways", "n=42", r"\text{Total} = 42", r"\text{Area}=42\text{ cm}^2", r"6\cdot7=42", "6*7 = 42",
        r"\mathbf{42}", r"\bf 42", r"\color{red}{42}", r"\textcolor{red}{42}", r"\underline{42}", r"\fbox{42}",
        "**42**", "`42`", "\"42\"", r"\mathrm{42}", r"\phantom{x}42", r"42\ ", "~42", r"\ 42", "42^1", "42",
    ], [
        r"6\cdot7=43", "43=42", "7=42", r"\cancel{42}43", "42 = 43", r"\text{not }42", r"\neg 42", "42 ?? 43",
    ]),
    # family
    ("family", r"\frac{\pi}{4}+k\pi", [
        r"\frac{\pi}{4}+k\pi, k\in\mathbb{Z}", r"x=\frac\pi4+k\pi", r"\frac{(4k+1)\pi}{4}",
    ], [
        r"\frac{\pi}{4}", r"\frac{\pi}{4}+2k\pi",
    ]),
]
# fmt: on

SPELLED_BY_NOBODY = (
    "nan", r"\frac00", "True", "None", r"\frac{1}{0}", "zoo", r"\text{nan}", "lambda: 5", "__import__('os')",
    "x.__class__", "", " ", "?", r"\foo", "{", "}", r"\boxed{}", "$", "()", r"\text{}", r"\frac", "=", "< >",
)  # fmt: skip


def graded(answer: str, reference: str) -> bool | None:
    """Whether a completion with this box passes."""
    return rlvr.verify("rlvr/math-v1", completion=rf"So the result is \boxed{{{answer}}}.", answer=reference).passed


@pytest.mark.parametrize(
    ("kind", "reference", "right", "wrong"), EXAMPLES, ids=[f"{kind}-{gold}" for kind, gold, *_ in EXAMPLES]
)
def test_answers(kind: str, reference: str, right: list[str], wrong: list[str]) -> None:
    assert [answer for answer in right if graded(answer, reference) is not True] == [], kind
    assert [answer for answer in wrong if graded(answer, reference) is not False] == [], kind


@pytest.mark.parametrize("reference", ["5", "0", "x", r"\{1, 2\}", r"\text{yes}", "B", "[0, 1)"])
def test_what_says_nothing_is_no_answer(reference: str) -> None:
    assert [answer for answer in SPELLED_BY_NOBODY if graded(answer, reference) is not False] == []


def test_there_are_examples_of_every_kind() -> None:
    kinds = {kind for kind, *_ in EXAMPLES}
    assert kinds >= set(
        "int fraction repeating rounding mixed radical power scientific comma tuple interval set plus-minus equation "
        "system congruence ratio matrix complex transcendental algebra calculus combinatorics infinity unicode unit "
        "degree money percent time base text choice".split()
    ) | {"unit versus variable"}
