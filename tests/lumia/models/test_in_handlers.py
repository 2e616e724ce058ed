"""Models as a handler meets them: the bot's config, the step's ledger, a retry that costs no second call."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from lumia.testing import Bot, ManualClock
from tests.peers.openai_server import OpenAIServer

seen: list[Any] = []


@lumia.pipe.on(id="ask")
def ask(content: lumia.Box[Any]) -> None:
    """Ask, remember the answer, and fail the first time."""
    seen.append(lumia.models.chat("main", [{"role": "user", "content": content.into()}]).text)
    if len(seen) == 1:
        raise RuntimeError("after the model answered")


@lumia.pipe.on(id="ask.async")
async def ask_async(content: lumia.Box[Any]) -> None:
    """Ask without blocking the loop, and embed."""
    reply = await lumia.models.achat("small", [{"role": "user", "content": content.into()}])
    seen.append((reply.text, reply.offline, len((await lumia.models.aembed(["a"]))[0])))


def test_a_retried_step_gets_its_recorded_answer(server: OpenAIServer) -> None:
    seen.clear()
    server.script("first answer", "second answer")
    table = {"models.main.model": "openai-chat:m", "models.main.base_url": server.url}
    with Bot(ask, config={"lumia": table}, clock=ManualClock()) as bot:
        bot.start("ask", "hello")
        bot.settle(300)
    assert seen == ["first answer", "first answer"]
    assert len(server.requests) == 1


@pytest.mark.parametrize("model,dimensions", [("", 384), ("offline", 256)])
def test_an_async_handler_needs_no_key_to_ask_and_to_embed(model: str, dimensions: int) -> None:
    seen.clear()
    with Bot(ask_async, config={"lumia": {"models.embedding.model": model}}) as bot:
        assert bot.start("ask.async", "hello").outcome == "done"
    assert seen == [("Hello!", True, dimensions)]
