"""Long replies as several messages: nothing lost, cut where it reads well, code shown whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.heartflow.splitting import SMALLEST, parts, pause

MANY = 10_000
FENCE = re.compile(r"^[ \t]*(```|~~~)")

words = st.text("abcXYZ019-", min_size=1, max_size=20)
addresses = st.sampled_from(["https://a.io/x?y=1.5", "http://b.cn/c.d!e", "`x = 1. 5`", "e.g.", "3.14", "v2.0.1"])
wide = st.text("我们今天去看雨", min_size=1, max_size=40)
gaps = st.sampled_from([" ", ". ", "! ", "? ", ", ", "\n", "\n\n", "。", "！？", "，", "……", "”\n", ".\n\n"])
prose = st.lists(st.tuples(words | addresses | wide, gaps), min_size=1, max_size=60).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)
code_lines = st.lists(st.text("ab =()。. #`你", max_size=16).filter(lambda line: not FENCE.match(line)), max_size=20)
fences = st.builds(
    lambda marker, info, lines: "\n".join([marker + info, *lines, marker]),
    st.sampled_from(["```", "~~~", "````"]),
    st.sampled_from(["", "python", "sh"]),
    code_lines,
)
documents = st.lists(prose | fences, min_size=1, max_size=6).map("\n\n".join)
sizes = st.integers(SMALLEST, 200)


def ink(text: str) -> str:
    """The text without its whitespace."""
    return "".join(text.split())


def code_of(text: str) -> tuple[list[str], bool]:
    """The lines of code in a text, blank ones left out, and whether its last fence is closed."""
    lines: list[str] = []
    marker = ""
    for line in text.split("\n"):
        found = re.match(r"[ \t]*(`{3,}|~{3,})", line)
        if marker and found and found[1].startswith(marker) and line.strip() == found[1]:
            marker = ""
        elif marker:
            lines.append(line)
        elif found:
            marker = found[1]
    return [line for line in lines if line.strip()], not marker


@given(prose, sizes, st.integers(1, 8))
def test_prose_loses_nothing_and_keeps_to_most_and_limit(text: str, most: int, limit: int) -> None:
    found = parts(text, most=most, limit=limit)
    assert ink("".join(found)) == ink(text)
    assert len(found) <= limit
    assert all(part.strip() for part in found)
    assert all(len(part) <= most for part in found[:-1])
    assert len(found) == limit or len(found[-1]) <= most


@given(prose, sizes)
def test_words_addresses_and_inline_code_stay_whole(text: str, most: int) -> None:
    found = parts(text, most=most, limit=MANY)
    whole = re.compile(r"https?://[!-~]+|`[^`\n]+`|[a-zA-Z0-9-]+")
    assert [word for part in found for word in whole.findall(part)] == whole.findall(text)


@given(documents, sizes, st.integers(1, 12))
def test_every_part_shows_its_code_by_itself(text: str, most: int, limit: int) -> None:
    found = parts(text, most=most, limit=limit)
    assert all(code_of(part)[1] for part in found)
    assert [line for part in found for line in code_of(part)[0]] == code_of(text)[0]
    assert all(len(part) <= most for part in found[:-1])
    assert len(found) == limit or len(found[-1]) <= most


@given(st.text("`~ \n\ta。.b你", max_size=300), sizes, st.integers(1, 6))
def test_rubbish_is_split_too_and_nothing_is_lost(text: str, most: int, limit: int) -> None:
    found = parts(text, most=most, limit=limit)
    assert len(found) <= limit
    assert all(len(part) <= most for part in found[:-1])
    shown = iter(ink("".join(found)))
    assert all(character in shown for character in ink(text)), "an opening line may come again, but nothing is missing"


@given(documents)
def test_a_text_that_fits_is_one_part_as_it_was_written(text: str) -> None:
    assert parts(text, most=len(text) + SMALLEST, limit=5) == ([text.strip()] if text.strip() else [])


@pytest.mark.parametrize(
    "cut",
    [
        "Rain until noon, they say.|Then it clears up. Bring a jacket.",
        "Tea at Dr. Wu's costs 3.14 today!|I was there, e.g. on Monday.",
        "“Is it far from the old bridge?” she|asked. No, it is not.",
        "See Fig. 3 and No. 7 for the details|of it. Ask J. Smith etc. about it.",
        "Read|https://lumia.example/docs?page=2.5|first. Then ask.",
    ],
)
def test_latin_sentences_end_where_a_reader_says(cut: str) -> None:
    assert parts(cut.replace("|", " "), most=36, limit=9) == cut.split("|")


@pytest.mark.parametrize(
    "cut",
    [
        "今天下午可能会下雨，出门记得带伞。晚上就停了！|要不要一起去湖边走走？我请你喝奶茶。",
        "他说：“这本书真的很好看，你一定要读。”|然后就走了，再也没有提起过那本书的名字。",
        "圆周率大约是3.14，版本是v2.0。|文档在https://a.io/b?c=1.2。看完告诉我",
        "真的吗?那太好了!|我们下周六上午九点在东门见面吧 记得带上身份证和学生证",
        "我……真的不知道该怎么跟你说，|反正就是那种一言难尽但是又忍不住想笑的感觉",
    ],
)
def test_chinese_sentences_end_without_a_space(cut: str) -> None:
    assert parts(cut.replace("|", ""), most=SMALLEST, limit=9) == cut.split("|")


def test_paragraphs_go_before_lines_and_lines_before_sentences() -> None:
    text = "One. Two. Three.\n\nFour. Five.\nSix. Seven. Eight. Nine."
    assert parts(text, most=40, limit=9) == ["One. Two. Three.", "Four. Five.\nSix. Seven. Eight. Nine."]
    assert parts("First line. And more.\nSecond line. And more.", most=40, limit=9) == [
        "First line. And more.",
        "Second line. And more.",
    ]


def test_the_number_of_a_list_item_stays_with_the_item() -> None:
    text = "1. Boil the water\n2. Put the leaves in and wait for it"
    assert parts(text, most=32, limit=9) == ["1. Boil the water", "2. Put the leaves in and wait", "for it"]


def test_a_long_fence_is_closed_and_opened_again_at_a_line() -> None:
    code = "\n".join(f"total += values[{n}]" for n in range(6))
    found = parts(f"Like this:\n\n```python\n{code}\n```\nWell.", most=64, limit=9)
    assert found == [
        "Like this:",
        "```python\ntotal += values[0]\ntotal += values[1]\n```",
        "```python\ntotal += values[2]\ntotal += values[3]\n```",
        "```python\ntotal += values[4]\ntotal += values[5]\n```\nWell.",
    ]


def test_a_fence_that_fits_a_part_is_never_cut() -> None:
    fence = "```\na = 1\n\nb = 2\n```"
    found = parts(f"{'Some words before it. ' * 3}\n{fence}\nand some after it", most=36, limit=9)
    assert found == ["Some words before it."] * 3 + [fence, "and some after it"]


def test_a_fence_of_blank_lines_is_one_short_part() -> None:
    blank = "\n" * 100
    assert parts(f"before\n```sh\n{blank}```\nafter", most=SMALLEST, limit=9) == ["before", "```sh\n```", "after"]


def test_a_line_of_code_longer_than_a_part_is_cut() -> None:
    assert parts(f"```\n\n{'x' * 60}\n```", most=40, limit=9) == [f"```\n{'x' * 32}\n```", f"```\n{'x' * 28}\n```"]


def test_a_fence_left_open_is_closed() -> None:
    assert parts("Try\n```sh\nmake test", most=100, limit=3) == ["Try\n```sh\nmake test\n```"]


def test_a_fence_behind_words_gets_a_line_of_its_own() -> None:
    assert parts("请看```python\nprint(1)\n```\n就这样", most=100, limit=3) == [
        "请看\n```python\nprint(1)\n```\n就这样"
    ]


def test_the_last_part_takes_the_rest_with_its_paragraphs() -> None:
    text = "\n\n".join(f"Paragraph number {n} stands alone." for n in range(5))
    found = parts(text, most=40, limit=3)
    assert found[:2] == ["Paragraph number 0 stands alone.", "Paragraph number 1 stands alone."]
    assert found[2] == text.partition("1 stands alone.\n\n")[2]


def test_a_word_longer_than_a_part_is_cut_but_not_inside_an_emoji() -> None:
    assert parts("a" * 80, most=32, limit=9) == ["a" * 32, "a" * 32, "a" * 16]
    family = "👨\u200d👩\u200d👧"
    assert parts("!" * 30 + family * 4, most=32, limit=2) == ["!" * 30, family * 4]


def test_nothing_to_say_is_no_part() -> None:
    assert parts(" \n ", most=100, limit=3) == []


@pytest.mark.parametrize("most, limit", [(SMALLEST - 1, 3), (100, 0)])
def test_sizes_that_cannot_work_are_refused(most: int, limit: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        parts("text", most=most, limit=limit)


@given(st.text(max_size=400), st.text(max_size=20))
def test_a_pause_grows_with_the_part_up_to_five_seconds(part: str, more: str) -> None:
    assert 0 < pause(part) <= pause(part + more) <= 5.0
    assert pause(part) == pause(part)


def test_a_pause_is_as_long_as_the_typing() -> None:
    assert pause("ok") < 1.0
    assert pause("好" * 30) == pause("o" * 60) == pytest.approx(2.6)
    assert pause("o" * 1000) == 5.0
    assert pause("o" * 1000, most=2.0) == 2.0
