"""The offline embedding: alike texts lie near each other, on every machine and in every process."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.models.vectors import DIMENSIONS, embed

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


def near(left: str, right: str) -> float:
    a, b = embed([left, right])
    return sum(x * y for x, y in zip(a, b, strict=True))


@given(anything)
def test_every_text_gets_a_unit_vector(text: str) -> None:
    (vector,) = embed([text])
    assert len(vector) == DIMENSIONS
    assert math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-9)
    assert embed([text]) == [vector]


@pytest.mark.parametrize(
    "text,like,unlike",
    [
        ("the cat sat on the mat", "a cat is sitting on the mats", "stock markets fell on Monday"),
        ("I like green tea", "green tea is what I like best", "the server was restarted"),
        ("我喜欢喝绿茶", "他也喜欢绿茶", "服务器昨天重启了"),
        ("会议改到星期五", "星期五的会议", "我家的猫很可爱"),
        ("お茶が好きです", "緑のお茶が好き", "会議は金曜日"),
        ("Das Treffen ist am Freitag", "am Freitag gibt es ein Treffen", "Mein Hund heißt Rex"),
        ("café", "CAFE", "coffin"),
    ],
)
def test_shared_wording_brings_texts_together(text: str, like: str, unlike: str) -> None:
    assert near(text, like) > near(text, unlike) + 0.15


def test_texts_of_common_words_only_still_differ() -> None:
    assert near("who are you", "who are you") == pytest.approx(1)
    assert near("who are you", "what was that") < 0.9


def test_texts_without_a_letter_share_one_vector_of_their_own() -> None:
    assert embed([""]) == embed([" "])
    assert near("", "tea") < 0.5


def test_vectors_do_not_depend_on_the_hash_seed() -> None:
    script = "import json; from lumia.models.vectors import embed; print(json.dumps(embed(['hello wörld', '你好'])))"
    for seed in ("1", "2"):
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, check=True, timeout=60)
        assert json.loads(done.stdout) == embed(["hello wörld", "你好"])
