"""LaTeX commands by what becomes of them: fonts, spaces, and the names that several commands share."""

from __future__ import annotations

TEXT_FONTS = frozenset(
    "text textrm textnormal textsf texttt mbox hbox textup textmd mathrm operatorname rm roman intertext textsc textsl".split()  # noqa: E501
)
# Fonts that are put on a bold number or a vector's letter as much as on words: the words keep their kind.
PLAIN_FONTS = frozenset(
    "textbf textit emph mathbf mathit mathsf mathtt mathcal mathscr mathfrak boldsymbol bm pmb underline boxed fbox "
    "bold bf it mathnormal ensuremath displaylines tag* hl cancel enclose".split()
)
IGNORED = frozenset(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm middle displaystyle textstyle "
    "scriptstyle scriptscriptstyle limits nolimits quad qquad hfill hskip hspace vspace phantom hphantom vphantom "
    "thinspace enspace medspace thickspace negthinspace nonumber notag allowbreak nobreak noindent mathstrut strut "
    "small large Large normalsize footnotesize scriptsize tiny bfseries itshape protect smallskip medskip bigskip "
    "relax centering checkmark blacksquare square Box qed Huge huge LARGE "
    "rm bf it sf tt sl mathop mathrel mathbin mathord mathopen mathclose".split()
)
IGNORED_WITH_ARGUMENT = frozenset(
    {"hspace", "vspace", "phantom", "hphantom", "vphantom", "hskip", "label", "color", "tag"}
)
TWO_ARGUMENTS_KEEP_LAST = frozenset({"textcolor", "colorbox", "fcolorbox"})
ALIASES = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "sfrac": "frac", "nicefrac": "frac", "xfrac": "frac",
    "dbinom": "binom", "tbinom": "binom",
    "leq": "le", "leqslant": "le", "leqq": "le", "geq": "ge", "geqslant": "ge", "geqq": "ge", "neq": "ne",
    "lt": "<", "gt": ">", "lbrace": "{", "rbrace": "}", "lbrack": "[", "rbrack": "]",
    "lvert": "|", "rvert": "|", "vert": "|",
    "lVert": "norm", "rVert": "norm", "Vert": "norm", "|": "norm",
    "dots": "ldots", "cdots": "ldots", "dotsc": "ldots", "dotsb": "ldots", "vdots": "ldots", "ddots": "ldots",
    "varnothing": "emptyset", "empty": "emptyset", "smallsetminus": "setminus", "backslash": "setminus",
    "land": "and", "wedge": "and", "lor": "or", "vee": "or", "rightarrow": "to", "longrightarrow": "to",
    "Rightarrow": "implies", "Longrightarrow": "implies", "Leftrightarrow": "iff",
    "ast": "cdot", "star": "cdot", "cdotp": "cdot", "bullet": "cdot", "deg": "degree",
    "arsinh": "arcsinh", "arcosh": "arccosh", "artanh": "arctanh", "tg": "tan", "ctg": "cot",
    "cotg": "cot", "arctg": "arctan", "lg": "lg", "varphi": "phi", "varepsilon": "epsilon", "vartheta": "theta",
    "varrho": "rho", "varsigma": "sigma", "varpi": "pi", "cong": "approx", "simeq": "approx",
    "thickapprox": "approx", "doteq": "=", "coloneqq": "=", "ce": "text", "bigcup": "cup", "bigcap": "cap",
    "uplus": "cup", "textdollar": "$", "dollar": "$", "texteuro": "euro", "pounds": "pounds",
    "textsterling": "pounds", "textdegree": "degree", "textpercent": "%", "prime": "'", "colon": ":", "imath": "i",
    "pod": "pmod", "mod": "bmod", "slash": "/", "lnot": "neg", "perthousand": "permille",
}  # fmt: skip
NEGATED = {"=": "ne", "in": "notin", "equiv": "nequiv"}
