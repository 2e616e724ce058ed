"""`Models`: roles, the effect ledger, live settings, and the functions a handler calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

import lumia
from lumia.errors import ModelConfigError, ModelError, ModelOutputError
from lumia.models import ROLES, Models, Usage
from tests.lumia.models.conftest import Ledger
from tests.peers.openai_server import Fault, OpenAIServer

HELLO = [{"role": "user", "content": "hello"}]


class Verdict(BaseModel):
    score: float


def test_without_settings_the_offline_model_answers_and_says_so() -> None:
    reply = Models({}, {}).chat("main", HELLO)
    assert (reply.output, reply.model, reply.offline, reply.cost) == ("Hello!", "offline", True, 0.0)


def test_building_and_describing_ask_nobody() -> None:
    settings = {"main": {"model": "x", "base_url": "http://192.0.2.1/v1"}, "small": {"model": "deepseek:x"}}
    described = {info.role: info for info in Models(settings, {}).describe()}
    assert tuple(described) == ROLES
    assert described["main"].problem is None
    assert "DEEPSEEK_API_KEY" in str(described["small"].problem)
    assert described["polish"].offline


def test_describe_tells_what_a_plugins_choice_would_be() -> None:
    models = Models({"main": {"model": "offline", "fallback": ["ollama:qwen3"]}}, {"OPENAI_API_KEY": "sk-test"})
    named = {"main": "openai-chat:gpt-4o", "small": "deepseek:deepseek-chat", "polish": ""}
    described = {info.role: info for info in models.describe(named)}
    assert (described["main"].model, described["main"].fallback) == ("openai-chat:gpt-4o", ("ollama:qwen3",))
    assert "DEEPSEEK_API_KEY" in str(described["small"].problem)
    assert described["polish"].model == described["thinker"].model == "offline"


def test_settings_are_read_at_every_call(server: OpenAIServer) -> None:
    settings: dict[str, Any] = {}
    bot = Models(settings, {})
    assert bot.chat("main", HELLO).offline
    settings["main"] = {"model": "m", "base_url": server.url}
    assert not bot.chat("main", HELLO).offline


def test_a_retry_gets_the_recorded_answer_without_another_call(server: OpenAIServer, ledger: Ledger) -> None:
    server.output = {"score": 0.5}
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {}, effect=ledger)
    first = bot.chat("main", HELLO, output_type=Verdict)
    again = bot.chat("main", HELLO, output_type=Verdict)
    assert first == again
    assert again.output == Verdict(score=0.5)
    assert len(server.requests) == 1
    ((key, policy, kind), _) = ledger.calls
    assert key.startswith("model:main:")
    assert (policy, kind) == ("retry", "model")
    assert json.loads(ledger.records[key])["usage"]["input_tokens"] == 11


def test_answers_that_were_paid_for_in_vain_are_recorded_so_that_a_retry_knows(
    server: OpenAIServer, ledger: Ledger
) -> None:
    server.output = {"score": "very"}
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {}, effect=ledger)
    raised = []
    for ask in (bot.chat, bot.chat, lambda *args, **given: asyncio.run(bot.achat(*args, **given))):
        with pytest.raises(ModelOutputError, match="no model answered") as found:
            ask("main", HELLO, output_type=Verdict)
        raised.append((str(found.value), found.value.usage, found.value.cost))
    assert len(server.requests) == 2
    assert raised[0] == raised[1] == raised[2]
    assert raised[0][1] == Usage(22, 14, 2)


def test_async_answers_that_were_paid_for_in_vain_are_recorded_too(server: OpenAIServer, ledger: Ledger) -> None:
    server.output = {"score": "very"}
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {}, effect=ledger)
    for _ in range(2):
        with pytest.raises(ModelOutputError):
            asyncio.run(bot.achat("main", HELLO, output_type=Verdict))
    assert len(server.requests) == 2


def test_an_unusable_answer_that_cost_nothing_is_asked_for_anew(server: OpenAIServer, ledger: Ledger) -> None:
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {}, effect=ledger)
    server.script(Fault.garbage())
    with pytest.raises(ModelError):
        bot.chat("main", HELLO)
    assert bot.chat("main", HELLO).text == "hello"


def test_async_calls_use_the_same_record(server: OpenAIServer, ledger: Ledger) -> None:
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {}, effect=ledger)
    assert asyncio.run(bot.achat("main", HELLO)) == bot.chat("main", HELLO)
    assert len(server.requests) == 1


def test_the_key_follows_whatever_changes_the_answer_and_nothing_else(ledger: Ledger) -> None:
    settings: dict[str, Any] = {"main": {"model": "offline"}}
    bot = Models(settings, {}, effect=ledger)
    bot.chat("main", HELLO)
    bot.chat("main", HELLO)
    settings["main"] = {"model": "offline", "timeout": 5}
    bot.chat("main", HELLO)
    assert len(ledger.records) == 1
    bot.chat("small", HELLO)
    bot.chat("main", [{"role": "user", "content": "hello", "name": "Ann"}])
    bot.chat("main", HELLO, system="x")
    bot.chat("main", HELLO, output_type=bool)
    bot.chat("main", HELLO, settings={"temperature": 1})
    bot.chat("main", HELLO, key="mine")
    settings["main"] = {"model": "offline", "fallback": ["offline"]}
    bot.chat("main", HELLO)
    assert len(ledger.records) == 8
    assert "mine" in ledger.records


def test_embeddings_are_recorded_small_and_come_back_exactly(ledger: Ledger) -> None:
    bot = Models({}, {}, effect=ledger)
    first = bot.embed(["tea", "coffee"])
    assert bot.embed(["tea", "coffee"]) == first
    assert asyncio.run(bot.aembed(["tea", "coffee"])) == first
    assert Models({}, {}).embed(["tea", "coffee"]) == first
    assert len(ledger.records) == 1
    assert len(next(iter(ledger.records.values()))) < 4700  # two vectors of 384 float32


def test_a_failed_call_is_not_recorded(ledger: Ledger) -> None:
    bot = Models({"main": {"model": "brand-new:x"}}, {}, effect=ledger)
    with pytest.raises(ModelConfigError):
        bot.chat("main", HELLO)
    assert ledger.records == {}


@pytest.mark.parametrize("role", ["embedding", "painter", ""])
def test_an_unknown_role_is_named(role: str) -> None:
    with pytest.raises(ModelConfigError, match="the roles are small, planner"):
        Models({}, {}).chat(role, HELLO)


def test_embedding_is_for_its_own_role_and_for_lists() -> None:
    with pytest.raises(ModelConfigError, match="'main'"):
        Models({}, {}).embed(["a"], "main")
    with pytest.raises(ModelError, match="a list of texts"):
        Models({}, {}).embed("abc")


def test_vectors_of_a_model_that_is_not_configured_any_more_are_asked_of_nobody() -> None:
    models = Models({"embedding": {"model": "offline"}}, {})
    assert len(models.embed(["a"], model="offline")[0]) == 256
    with pytest.raises(ModelConfigError, match="vectors of openai:text-a are wanted and offline is configured"):
        models.embed(["a"], model="openai:text-a")
    with pytest.raises(ModelConfigError, match="are wanted"):
        asyncio.run(models.aembed(["a"], model="openai:text-a"))


def test_a_broken_table_is_told_at_the_call() -> None:
    with pytest.raises(ModelConfigError, match=r"role main .*timeout is 0"):
        Models({"main": {"timeout": 0}}, {}).chat("main", HELLO)


def test_a_plugins_model_takes_the_place_of_the_roles(server: OpenAIServer) -> None:
    bot = Models({"main": {"model": "big", "base_url": server.url}}, {})
    assert bot.chat("main", HELLO, plugin_override="other").model == "other"
    assert bot.chat("main", HELLO, plugin_override="").model == "big"
    assert bot.chat("main", HELLO, plugin_override="offline").offline


def test_offline_answers_can_be_awaited() -> None:
    assert asyncio.run(Models({}, {}).achat("main", HELLO)).text == "Hello!"


class Bot:
    """Stands for a runtime: only its models are asked for."""

    def __init__(self, models: Models | None) -> None:
        self.models = models


def test_handlers_reach_the_active_bots_models(monkeypatch: pytest.MonkeyPatch) -> None:
    from lumia import runtime

    monkeypatch.setattr(runtime, "current", lambda: Bot(Models({}, {})))
    assert lumia.models.chat("main", HELLO).text == "Hello!"
    assert asyncio.run(lumia.models.achat("main", HELLO)).text == "Hello!"
    assert lumia.models.embed(["a"]) == asyncio.run(lumia.models.aembed(["a"]))


def test_a_bot_without_models_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from lumia import runtime

    monkeypatch.setattr(runtime, "current", lambda: Bot(None))
    with pytest.raises(lumia.errors.NotRunningError, match="open_bot"):
        lumia.models.chat("main", HELLO)
