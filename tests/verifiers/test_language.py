from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers import UserError, verify
from rlvr.verifiers.scripts import script_of

GERMAN = "Wir berechnen zuerst die Fläche des Kreises. Danach addieren wir die beiden Werte."
ENGLISH = "First we compute the area of the circle. After that we add the two values together."
CHINESE = "我们先计算圆的面积，然后把两个数相加。"


def grade(completion, target, **options):
    return verify("rlvr/language-v1", completion=completion, target=target, **options)


@pytest.mark.parametrize(
    ("completion", "target", "share"),
    [
        ("abcd", "Latin", None),
        ("word", "Latin", 1.0),
        ("слово", "Latin", 0.0),
        ("слово word", "Cyrillic", 5 / 9),
        ("слово word", "cyrillic", 5 / 9),
        # 3 Han letters, 5 Latin ones.
        ("汉字好 hello", "Han", 3 / 8),
        ("ひらカタ漢字", "Kana", 4 / 6),
        ("ひらカタ漢字", "Japanese", 1.0),
        ("한국어", "Hangul", 1.0),
        ("العربية", "Arabic", 1.0),
        # Full-width letters are Latin, and é may be two code points.
        ("ｗｏｒｄ", "Latin", 1.0),
        ("cafe\u0301", "Latin", 1.0),
    ],
)
def test_scripts(completion, target, share):
    verdict = grade(completion, target)
    assert verdict.score == pytest.approx(1.0 if share is None else share)
    assert verdict.passed is (verdict.score >= 0.9)


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "1 + 2 = 3 !?",
        "$x^2 + y = z$",
        r"\begin{align} \alpha \end",
        r"\[ \text{area} = 3 \]",
        r"\( \text{area} = 3 \)",
        "$$ area $$",
        "```python\nprint(value)\n```",
        "```python\nprint(value)",
        "Since `value` x = 3, ABC: https://example.com/some/page".replace("Since", ""),
        "<think></think><answer>3</answer>",
    ],
)
def test_what_is_no_prose_is_in_no_wrong_language(completion):
    verdict = grade(completion, "Han")
    assert (verdict.score, verdict.passed) == (1.0, True), verdict.detail


@pytest.mark.parametrize("around", ["${}$", "```\n{}\n```", "`{}`", r"\text{{{}}}", r"\[{}\]", "<{}>"])
def test_another_script_cannot_hide_in_code_or_formulas(around):
    assert grade("The area. " + around.format("面积"), "Latin").score == pytest.approx(7 / 9)


def test_languages_with_a_script_of_their_own():
    assert grade(CHINESE, "zh").passed
    assert grade("设 x 等于 3，三角形 ABC 的面积是 $xy$。", "zh").score == 1.0
    assert not grade(ENGLISH, "zh").score
    assert grade("円の面積を計算します。答えは三です。", "ja").score == 1.0
    assert grade(CHINESE, "ja").score < 0.5
    assert grade("円の面積を計算します。", "zh").score < 0.7
    assert grade("원의 넓이를 계산한다.", "ko").score == 1.0
    assert grade("Вычислим площадь круга.", "ru").score == 1.0
    assert grade("Обчислимо площу круга і її периметр.", "ru").score == 0.0


def test_languages_of_one_script():
    assert grade(ENGLISH, "en").score == 1.0
    assert grade(GERMAN, "de").score == 1.0
    assert grade(GERMAN, "en").score == 0.0
    assert grade(ENGLISH, "de").score == 0.0
    assert grade("Wait. Let me check. Okay, so we get 4.", "en").passed
    assert grade("Nous calculons d'abord la surface du cercle.", "fr").score == 1.0
    assert grade("Обчислимо площу круга.", "uk", rivals=["ru", "en"]).score == 1.0


def test_mixed_reasoning():
    letters = sum(character.isalpha() for character in ENGLISH), sum(character.isalpha() for character in CHINESE)
    mixed = grade(f"<think>{ENGLISH} {CHINESE}</think> The answer is three.", "en", part="reasoning")
    assert mixed.score == pytest.approx(letters[0] / sum(letters), abs=0.02)
    assert not mixed.passed
    assert grade(f"<think>{ENGLISH} {GERMAN}</think>", "en", part="reasoning").score == pytest.approx(0.5, abs=0.1)


def test_a_part_alone():
    completion = f"<think>{CHINESE}</think>{ENGLISH}"
    assert grade(completion, "Latin", part="answer").score == 1.0
    assert grade(completion, "Latin", part="reasoning").score == 0.0
    assert 0 < grade(completion, "Latin").score < 1


def test_minimum():
    assert grade("слово word", "Cyrillic", minimum=0.5).passed
    assert not grade("слово word", "Cyrillic", minimum=0.6).passed


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"target": "Latn"}, "'Latin'"),
        ({"target": "xx"}, "'xx'"),
        ({"target": "Latin", "minimum": 2}, "minimum=2"),
        ({"target": "Latin", "part": "thought"}, "no part"),
        ({"target": "en", "rivals": []}, "rivals"),
        ({"target": "en", "rivals": ["qq"]}, "'qq'"),
    ],
)
def test_mistakes(options, named):
    with pytest.raises(UserError, match=named):
        verify("rlvr/language-v1", completion="word", **options)


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lingua", None)
    with pytest.raises(UserError, match=r"rlvr\[language\]"):
        grade("Ett ord till.", "sv")
    assert grade(CHINESE, "zh").passed


@pytest.mark.parametrize(
    "text", [r"\[ " * 300_000, "$a " * 300_000, "<a" * 400_000, "`" * 1_000_000, "a." * 300_000, "汉" * 1_000_000]
)
@pytest.mark.parametrize("target", ["en", "ja", "Latin"])
def test_megabytes(text, target):
    assert 0 <= grade(text, target).score <= 1


@given(st.text())
def test_any_text_has_a_share(text):
    for target in ("Latin", "zh", "ja", "ru", "en"):
        assert 0 <= grade(text, target).score <= 1


def test_scripts_of_letters():
    assert [script_of(c) for c in "aéßЖ漢々〇ひカー한ἄ𝐀ª1 _́"] == [
        *["Latin"] * 3,
        "Cyrillic",
        *["Han"] * 2,
        None,
        "Hiragana",
        "Katakana",
        "Katakana",
        "Hangul",
        "Greek",
        "Latin",
        "Latin",
        *[None] * 4,
    ]
