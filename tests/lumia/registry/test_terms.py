"""Words are cut as the worker cuts them, and rank as they do there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.registry.index import BROAD, Index
from lumia.registry.terms import as_name, asked, indexed

VECTORS = Path(__file__).resolve().parents[3] / "registry-worker" / "test" / "vectors"
TERMS = json.loads((VECTORS / "terms.json").read_text("utf-8"))
RANKING = json.loads((VECTORS / "ranking.json").read_text("utf-8"))


def summary(name: str, **more: Any) -> dict[str, Any]:
    texts = {"display_name": "", "description": "", "author": ""}
    return {"name": name, **texts, "git_url": f"https://x/{name}", "latest_tag": "v1", "stars": 0, **more}


@pytest.mark.parametrize("vector", TERMS, ids=lambda vector: vector["text"] or "empty")
def test_words_are_those_of_the_worker(vector: dict[str, Any]) -> None:
    assert (indexed(vector["text"]), asked(vector["text"])) == (vector["indexed"], vector["asked"])


@pytest.mark.parametrize("search", RANKING["searches"], ids=lambda search: search["why"])
def test_the_order_is_the_workers(search: dict[str, Any]) -> None:
    index = Index(summary(**one) for one in RANKING["plugins"])
    found, total = index.search(search["q"])
    assert [one["name"] for one in found] == search["found"]
    assert total == len(search["found"])


@given(st.text(max_size=60))
def test_no_text_is_a_query_language(text: str) -> None:
    found, total = _SMALL.search(text)
    assert len(found) <= total


_SMALL = Index([summary("dice", description="rolls dice"), summary("weather", description="天气")])


def test_a_word_that_nearly_all_have_goes_by_names_and_stars_and_every_page_counts_once() -> None:
    many = [summary(f"lot-{number}", description="crowd") for number in range(BROAD + 1)]
    index = Index([*many, summary("crowd-control"), summary("calm", description="crowd", stars=9)])
    pages = [index.search("crowd", page)[0] for page in range(1, 33)]
    names = [one["name"] for page in pages for one in page]
    assert names[:2] == ["crowd-control", "calm"]
    assert len(set(names)) == len(names) == BROAD + 3


def test_a_name_may_be_typed_in_any_way() -> None:
    assert {as_name(" Memory Graph"), as_name("memory_graph"), as_name("MEMORY-GRAPH")} == {"memory-graph"}
