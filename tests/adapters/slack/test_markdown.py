"""The Markdown of models as mrkdwn."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.markdown import mrkdwn

PIECES = st.sampled_from(
    ["**", "*", "_", "__", "~~", "`", "```", "\n", "# ", "- ", "> ", "|", "|---|", "[a](", ")", "https://x.y", "<", ">",
     "&", "\\", "word", " ", "中", "!", "[", "]", "1. ", "---", "~~~", "<!channel>", "<@U1>", "***"]
)  # fmt: skip


@pytest.mark.parametrize(
    "markdown, shown",
    [
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("***both***", "*_both_*"),
        ("**bold with *italic* in it**", "*bold with _italic_ in it*"),
        ("~~gone~~", "~gone~"),
        ("`a < b && **c**`", "`a &lt; b &amp;&amp; **c**`"),
        ("``a ` b``", "`a ` b`"),
        ("# Title", "*Title*"),
        ("### **Title** ###", "*Title*"),
        ("- one\n* two\n+ three", "• one\n• two\n• three"),
        ("  - nested", "  • nested"),
        ("1. first\n2. second", "1. first\n2. second"),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done"),
        ("> said **so**", ">said *so*"),
        ("---", "─" * 12),
        ("[the docs](https://a.b/c?d=1&e=2)", "<https://a.b/c?d=1&amp;e=2|the docs>"),
        ('[titled](https://a.b "Title")', "<https://a.b|titled>"),
        ("[wiki](https://en.wikipedia.org/wiki/A_(b))", "<https://en.wikipedia.org/wiki/A_(b)|wiki>"),
        ("![a cat](https://a.b/cat.png)", "<https://a.b/cat.png|a cat>"),
        ("[local](/a/b) [bad](javascript:alert)", "local (/a/b) bad (javascript:alert)"),
        ("<https://a.b/?c&d>", "<https://a.b/?c&amp;d>"),
        ("https://a.b/c_d_e", "https://a.b/c_d_e"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("2*3*4", "2*3*4"),
        (r"\*not bold\*", "*not bold*"),
        ("if a < b & c > d", "if a &lt; b &amp; c &gt; d"),
        ("<!channel> <@U1> <b>", "&lt;!channel&gt; &lt;@U1&gt; &lt;b&gt;"),
        ("```python\nif a < b:\n    **x**\n```", "```\nif a &lt; b:\n    **x**\n```"),
        ("```\nnever closed", "```\nnever closed\n```"),
        ("~~~\n```\n~~~", "```\n`\u200b``\n```"),
        ("| a | bb |\n|---|:-:|\n| 中文 | x\\|y |", "```\na     bb\n----  ---\n中文  x|y\n```"),
        ("no | table", "no | table"),
        ("这是**重要**的", "这是\u200b*重要*\u200b的"),
        ("**a** **b**", "*a* *b*"),
        ("", ""),
    ],
)
def test_it_shows_what_was_meant(markdown: str, shown: str) -> None:
    assert mrkdwn(markdown) == shown


@given(st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join))
def test_nothing_a_model_writes_names_anybody(text: str) -> None:
    shown = mrkdwn(text)
    named = re.findall(r"<([^<>]*)>", shown)
    assert all(name.startswith(("http://", "https://", "mailto:", "tel:")) for name in named)
    left = re.sub(r"<[^<>]*>", "", re.sub(r"(?m)^>", "", shown))
    assert not set("<>") & set(left)
    assert not re.search(r"&(?!(amp|lt|gt);)", shown)


@pytest.mark.parametrize(
    "text", ["*" * 4000, "**a" * 1300, "[a](" * 1000, "`" * 4000, "_a " * 1300, "|-" * 2000 + "\n" + "|-" * 2000]
)
def test_no_text_takes_long(text: str) -> None:
    started = time.perf_counter()
    mrkdwn(text)
    assert time.perf_counter() - started < 2
