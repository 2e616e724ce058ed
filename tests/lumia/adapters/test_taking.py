"""What a platform sent is accepted as it is fit to be kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import lumia
from lumia.adapters import taking
from lumia.errors import BoxTooLargeError
from lumia.testing import Bot

LINK = "https://cdn.discordapp.com/attachments/1/2/cat.png?ex=66f1&is=66f0&hm=0f3a9c1de2b4f5a69788"


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What is submitted; a raw twin with a key "large" is too large."""
    found: list[tuple[Any, Any]] = []

    async def submit(adapter: str, msg: Any, raw: Any = None, *, meta: Any = None) -> str:
        if raw and "large" in raw:
            raise BoxTooLargeError("too large")
        found.append((msg, raw))
        return "r1"

    monkeypatch.setattr(taking, "submit", submit)
    return found


def test_links_are_sealed_and_a_twin_that_is_too_large_is_left_behind(submitted: list[tuple[Any, Any]]) -> None:
    msg = lumia.payloads.message(
        platform="toy", account="main", chat={"kind": "group", "id": "7"}, sender={"id": "5"}, message_id="m1",
        text="look", media=[{"kind": "image", "url": LINK}],
    )  # fmt: skip
    with Bot():
        for raw in ({"url": LINK}, {"large": LINK}):
            assert asyncio.run(lumia.adapters.take("toy", msg, raw)) == "r1"
        (first, twin), (second, none) = submitted
        assert first == second and none is None and twin["url"].endswith("hm=***")
        assert lumia.media.link(first["media"][0]) == LINK and "0f3a9c1de2b4" not in str(submitted)
