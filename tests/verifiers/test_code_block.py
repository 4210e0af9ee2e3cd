from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers.code_block import fenced_blocks, solution_code
from rlvr.verifiers.code_lines import defined_names, is_statement, is_whole, stubs

ADD = "def add(a, b):\n    return a + b"


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{ADD}\n```",
        f"Here it is:\n```py\n{ADD}\n```\nIt adds.",
        f"```\n{ADD}\n```",
        f"~~~python\n{ADD}\n~~~\nbye",
        f"````python\n{ADD}\n````",
        f"```{{.python}}\n{ADD}\n```",
        f"``` Python3 \n{ADD}\n```",
        f"```python\r\n{ADD}\r\n```".replace("\n    ", "\r\n    "),
        "1. First:\n   ```python\n   def add(a, b):\n       return a + b\n   ```\n",
        f"```python\n{ADD}",
        "Code: ```python\ndef add(a, b):\n    return a + b```",
        f"```markdown\n# Solution\n```python\n{ADD}\n```\n```\n",
        f"````md\n```python\n{ADD}\n```\n````\n",
        ADD,
        f"Sure! The function is:\n\n{ADD}\n\nThis works because plus is plus.",
        f"<answer>\n{ADD}\n</answer>",
        f"```python\n{ADD}\n```\nUsage:\n```python\nprint(add(1, 2))\n```\nOutput:\n```\n3\n```",
        f"```python\n{ADD}\n```\n```text\ndef add(a, b): wrong\n```",
        f"```bash\npip install numpy\n```\n```python\n{ADD}\n```",
        f"```python\ndef add(a, b):\n    return a - b\n```\nNo, that is wrong.\n```python\n{ADD}\n```",
        f"```python\n{ADD}\n```\nFaster:\n```python\ndef add(a, b):\n    return sum((a",
        f"```python\n{ADD}\n```\n>>> session:\n```\n>>> add(1, 2)\n3\n```",
        f"```python\nprint(1)\n```python\n{ADD}\n```",
        f"```\n{ADD}\n```\n```python\nprint(add(1, 2))\n```",
        f"```python\n{ADD}\n```\nUsage:\n```python\nfrom solution import add\nprint(add(1, 2))\n```",
        f"```python\n\ufeff{ADD}\n```",
        f"```python\n{ADD}\n```\nIts signature:\n```python\ndef add(a: int, b: int) -> int: ...\n```",
        f"> Sure:\n>\n> ```python\n> {ADD.replace(chr(10), chr(10) + '> ')}\n> ```\n> Bye.",
        f"> ```python\n> def add(a, b):\n>     pass\n> ```\nwas asked for, so:\n```python\n{ADD}\n```",
        "```python\n>>> def add(a, b):\n...     return a + b\n... \n```",
        f"```python\n%%time\n%matplotlib inline\n!pip install numpy\n{ADD}\n```",
        "```python\nIn [1]: def add(a, b):\n   ...:     return a + b\n   ...: \n\nIn [2]: %time\nOut[2]: 3\n```",
        f"\ufeff```python\n{ADD.replace('    ', 4 * chr(160)).replace(' + ', chr(160) + '+ ')}\n```",
    ],
)
def test_what_a_careful_reader_takes(text: str) -> None:
    assert solution_code(text, ("add",)) == ADD


@pytest.mark.parametrize(
    ("code", "is_stub"),
    [
        ("def f(a): ...", True),
        ("async def f(a) -> int: pass  # later", True),
        ("@cache\ndef f(\n    a: int,\n) -> int:\n    # Hm.\n    raise NotImplementedError('f')\nprint(3)", True),
        ('def f(a):\n    """Does.\n\n    return 1\n    """\n    ...', True),
        ("class f:\n    def g(self): ...\n    @property\n    def h(self) -> int:\n        pass", True),
        ("class f:\n    def g(self): ...\n    def h(self): return 1", False),
        ("class f:\n    x: int", False),
        ("def f(a): return ...", False),
        ("def f(\n    a,\n): return a", False),
        ("def f(a):\n    if a:\n        pass\n    return g(\n    ...)", False),
        ("def f(a):\n    x = [\n    ...]\n    pass", False),
        ("f = ...", False),
        ("def g(): ...\nx = f", False),
    ],
)
def test_a_stub_does_nothing(code: str, is_stub: bool) -> None:
    assert ("f" in stubs(code)) is is_stub


def test_a_stub_is_taken_where_there_is_nothing_else() -> None:
    assert solution_code("```python\ndef add(a, b):\n    pass\n```", ("add",)) == "def add(a, b):\n    pass"


def test_a_fence_in_a_docstring_ends_nothing() -> None:
    code = 'def add(a, b):\n    """Adds.\n\n    ```python\n    add(1, 2)\n    ```\n    """\n    return a + b'
    assert solution_code(f"```python\n{code}\n```\nDone.", ("add",)) == code


@pytest.mark.parametrize("comment", ["# like ```", "x = 3  # like ```"])
def test_a_comment_that_ends_in_a_fence_ends_nothing(comment: str) -> None:
    code = f"{comment}\n{ADD}"
    assert solution_code(f"```python\n{code}\n```\nDone.", ("add",)) == code


def test_a_docstring_that_never_ends_hides_no_later_block() -> None:
    text = f'```python\ndef add(a, b):\n    """Adds.\n```\nOops:\n```python\n{ADD}\n```'
    assert solution_code(text, ("add",)) == ADD


TAILS = [
    "print(add(1,",
    "prin",
    "print('1 + 2",
    "def test(): assert add(1, 2",
    "def check(candidate):\n    assert candidate(",
    "def check(candidate)",
    "def check(candidate):\n    # Now the tests.",
    'if __name__ == "__main__"',
    'if __name__ == "__main__":\n    for n in range(3)',
    "@pytest.mark.parametrize(\n    'a', [1])\n@pytest.mark.skip",
    "class Test:\n    def test(self):\n        assert add(1, 2) ==",
    'def add(a, b):\n    """Adds, but',
    "import",
]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("before", ["```python\n", "```\n```python\n", "Sure:\n\n", ""])
def test_what_breaks_off_after_the_solution_is_left_out(tail: str, before: str) -> None:
    assert solution_code(f"{before}{ADD}\n\n\n{tail}", ("add",)) == ADD
    # The body of a function, which goes on with its header.
    assert solution_code(f"{before}    return a + b\n\n\n{tail}", ("add",)) == "    return a + b"


@pytest.mark.parametrize(
    "code",
    [
        f"{ADD}\n\nprint(add(1, 2))",
        f"{ADD}\n\nprint(add(1, 2))  # is",
        "def add(a, b):\n    return sum(",
        "def add(a, b):\n    return double(a) + b\n\nx = add(1, 2)\nadd = cache(\n    add)\n# The end:",
    ],
)
def test_nothing_else_that_is_not_closed_is_left_out(code: str) -> None:
    assert solution_code(f"```python\n{code}", ("add",)) == code
    assert solution_code(f"```python\n{ADD}\n\nprint(add(1,\n```", ("add",)) == f"{ADD}\n\nprint(add(1,"
    assert solution_code("```python\nprint(input())\nprint(", reads_stdin=True) == "print(input())\nprint("


def test_only_lines_that_are_commands_of_a_notebook_are_left_out() -> None:
    code = 'MOD = 10 \\\n% 7\nx = (MOD\n%3)\ns = """\n!\n%%time\n"""\n' + ADD
    assert solution_code(f"```python\n%%time\n{code}\n!ls\n```", ("add",)) == code


def test_helpers_from_other_blocks_come_along() -> None:
    helper = "def double(x):\n    return 2 * x"
    main = "def add(a, b):\n    return double(a) + b"
    assert solution_code(f"```python\n{helper}\n```\nand\n```python\n{main}\n```", ("add",)) == f"{helper}\n\n{main}"
    assert solution_code(f"```python\n{main}\n```\nwith\n```python\n{helper}\n```", ("add",)) == f"{helper}\n\n{main}"
    assert solution_code(f"```python\n{helper}\n```\nand\n```python\n{ADD}\n```", ("add",)) == ADD


def test_imports_and_constants_of_an_earlier_block_come_along() -> None:
    context = "import math\nfrom re import (\n    sub,\n    match as m,\n)\nBASE = 3\nMOD = BASE ** 2"
    main = "def add(a, b):\n    return m(math.pi) + MOD"
    text = f"```python\n{context}\nunused = 2\nprint(add(1, 2))\n```\nthen\n```python\n{main}\n```"
    assert solution_code(text, ("add",)) == f"{context}\n\n{main}"
    future = "from __future__ import annotations\n"
    assert (solution_code(text.replace("def add(", f"{future}def add("), ("add",)) or "").startswith(f"{future}import")


@pytest.mark.parametrize("usage", ["a = add(1, 2)", "b = 3", "x = input()", "for x in a:\n    b = 3", "import os"])
def test_nothing_else_of_a_usage_example_comes_along(usage: str) -> None:
    main = "def add(a,\n    b):\n    return [x + b for x in a]"
    assert solution_code(f"```python\n{usage}\n```\n```python\n{main}\n```", ("add",)) == main


def test_a_class_gets_the_names_of_typing_and_no_others() -> None:
    code = "class Solution:\n    def add(self, a: List[int]) -> Optional[int]:\n        return Counter(a)"
    text = f"```python\n{code}\n```"
    assert solution_code(text, ("Solution",)) == f"from typing import List, Optional\n\n{code}"
    given = f"from typing import (\n    List,\n    Optional,\n)\n{code}"
    assert solution_code(f"```python\n{given}\n```", ("Solution",)) == given


def test_the_functions_of_several_blocks_are_taken_together() -> None:
    text = "```python\ndef f():\n    return 1\n```\n```python\ndef g():\n    return 2\n```"
    assert defined_names(solution_code(text, ("f", "g")) or "") == {"f", "g"}


def test_a_program_that_reads_its_input_is_preferred_to_an_example() -> None:
    program = "a, b = map(int, input().split())\nprint(a + b)"
    text = f"```python\n{program}\n```\nFor example:\n```python\nprint(1 + 2)\n```\n```\n3\n```"
    assert solution_code(text, reads_stdin=True) == program


READ = "import sys\ninput = sys.stdin.readline\ndef read():\n    return map(int, input().split())"
SUM = "a, b = read(); print(a + b)"
MAIN = "def main():\n    a, b = read()\n    print(a + b)"


@pytest.mark.parametrize(
    ("blocks", "program"),
    [
        ([READ, SUM], f"{READ}\n\n{SUM}"),
        ([READ, MAIN, "main()"], f"{READ}\n\n{MAIN}\n\nmain()"),
        ([f"{READ}\n{SUM}", "print(read())"], f"{READ}\n{SUM}"),
        ([f"{READ}\n{SUM}", "def read():\n    return input()"], f"{READ}\n{SUM}"),
        ([f"{READ}\n{MAIN}\nmain()", "import io\nsys.stdin = io.StringIO('1 2')\nmain()"], f"{READ}\n{MAIN}\nmain()"),
        ([f"{READ}\n{SUM}", "with patch('builtins.input', lambda: '1 2'):\n    main()"], f"{READ}\n{SUM}"),
        (["print(input())", f"sys.stdin = open(0)\n{READ}\n{SUM}"], f"sys.stdin = open(0)\n{READ}\n{SUM}"),
        (["print(input())", "'''The sum.'''\nx = 3\nn = input()"], "print(input())"),
    ],
)
def test_what_only_defines_or_feeds_an_example_is_no_program(blocks: list[str], program: str) -> None:
    text = "\nThen:\n".join(f"```python\n{block}\n```" for block in blocks)
    assert solution_code(text, reads_stdin=True) == program


def test_the_body_of_a_function_is_code() -> None:
    body = "    for x in xs:\n        return x\n    return None"
    assert solution_code(f"{body}\n\nThat is all.") == body


@pytest.mark.parametrize(
    "text",
    ["", "I cannot do that.", "```python\n```", "```bash\nls\n```", "The answer is 3.", "```py\n!ls\n```"],
)
def test_there_is_no_code(text: str) -> None:
    assert solution_code(text, ("add",)) is None


def test_blocks_know_their_language_and_whether_they_are_closed() -> None:
    blocks = fenced_blocks("```python\na = 1\n```\n~~~\nb\n~~~\n```json\n{}")
    assert [(block.tag, block.code, block.closed) for block in blocks] == [
        ("python", "a = 1", True),
        ("", "b", True),
        ("json", "{}", False),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import os", True),
        ("from a.b import c", True),
        ("x = 3", True),
        ("x: int = 3", True),
        ("@cache", True),
        ("for x in xs:", True),
        ("print('a')", True),
        ("This is = not code, is it?", False),
        ("For example, add(1, 2) is 3.", False),
        ("if you want, run it", False),
        ("import the library first", False),
        ("add(1, 2) returns 3.", False),
    ],
)
def test_statements_and_prose(line: str, expected: bool) -> None:
    assert is_statement(line) is expected


def test_code_that_breaks_off_is_not_whole() -> None:
    assert is_whole("def f(x):\n    return (x +\n        1)")
    for whole in ("def f(x):\n    pass", "return", "x = y", "if x: y", "x = 'it\\'s'", 'x = "a" # "', "x = 'a\\\nb'"):
        assert is_whole(whole)
    broken = ["def f(x):", "def f(x)", "x = (1,", "x = 1 +", 's = """a', "s = 'a", "x = not", "x", "import", "@cache"]
    for code in broken:
        assert not is_whole(code)


@given(st.text(alphabet="`~\n pydef:(\"'#=x", max_size=200))
def test_any_text_is_read(text: str) -> None:
    code = solution_code(text, ("x",))
    assert code is None or code.strip()


@pytest.mark.parametrize(
    "piece",
    [
        "```python\n",
        "'''\n```\n",
        "```python\n'''\n```\n",
        "for x" + " " * 50,
        '"\\',
        "```a ",
        "x(",
        "def f():\n",
        "```\nx = x\n```\n",
        "> ```\n",
        ">>> f()\n",
        " ",
        " #`",
        "'a'",
        "'''a",
        "@x\n",
        "if ",
        "stdin= patch ",
        "%\n",
    ],
)
def test_megabytes_are_read_in_one_pass(piece: str) -> None:
    # A quadratic reader would take hours over these.
    text = piece * (500_000 // len(piece))
    solution_code(f"```python\ndef f():{text}x\n", ("f",))
    solution_code(text, ("f",), reads_stdin=True)
    solution_code(f"{text}\n```\n```python\nclass f:\n    a: List = x\n", ("f",))
