"""Real HTTP to an OpenAI-compatible server: answers, faults, fallbacks, keys, structured output, embeddings."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from lumia.errors import ModelConfigError, ModelError, ModelOutputError
from lumia.models import Models, Usage, providers
from lumia.models.messages import Message
from lumia.models.providers import history_of
from lumia.models.roles import resolve
from tests.peers.openai_server import Fault, OpenAIServer, vector_of
from tests.support.wait import until

HELLO = [{"role": "user", "content": "hello"}]
KEY = "sk-verysecret-0123456789"


class Verdict(BaseModel):
    score: float
    mood: Literal["good", "bad"]


class Endless(BaseModel):
    text: str


def models(server: OpenAIServer, environ: dict[str, str] | None = None, **table: Any) -> Models:
    """A bot whose main model is on `server`."""
    return Models({"main": {"model": "openai-chat:first", "base_url": server.url, **table}}, environ or {})


def asked_models(server: OpenAIServer) -> list[str]:
    return [request.body["model"] for request in server.requests]


def test_a_server_is_asked_and_its_usage_counted(server: OpenAIServer) -> None:
    reply = models(server).chat("main", HELLO)
    assert (reply.output, reply.text, reply.model, reply.offline) == ("hello", "hello", "openai-chat:first", False)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.requests) == (11, 7, 1)
    assert reply.attempts == ()
    assert reply.ms > 0


def test_the_whole_chat_is_sent_with_names_and_instructions(server: OpenAIServer) -> None:
    messages = [
        {"role": "system", "content": "You are Lumia."},
        {"role": "user", "content": "hi", "name": "Ann"},
        {"role": "assistant", "content": "hello Ann"},
        {"role": "user", "content": "and me?", "name": "Bob"},
    ]
    models(server).chat("main", messages, system="Be brief.")
    assert server.requests[0].body["messages"] == [
        {"role": "system", "content": "Be brief.\n\nYou are Lumia."},
        {"role": "user", "content": "Ann: hi"},
        {"role": "assistant", "content": "hello Ann"},
        {"role": "user", "content": "Bob: and me?"},
    ]


def test_a_chat_that_ends_with_the_bots_own_words_is_asked_to_go_on(server: OpenAIServer) -> None:
    models(server).chat("main", [*HELLO, {"role": "assistant", "content": "well…"}])
    assert server.requests[0].body["messages"][-1]["role"] == "user"


def test_a_system_line_in_the_middle_stays_in_its_place() -> None:
    history, instructions = history_of([Message("user", "a"), Message("system", "b"), Message("user", "c")], None)
    assert instructions is None
    assert len(history) == 3


def test_nul_and_half_characters_never_reach_the_wire(server: OpenAIServer) -> None:
    text = models(server).chat("main", [{"role": "user", "content": "a\x00b\ud800c"}]).text
    assert text == "ab\ufffdc"


def test_half_characters_in_an_answer_are_cleaned(server: OpenAIServer) -> None:
    server.script("a\udfffb\x00")
    assert models(server).chat("main", HELLO).text == "a\ufffdb"


def test_settings_of_the_role_and_of_the_call_are_sent(server: OpenAIServer) -> None:
    bot = models(server, settings={"temperature": 0.1, "max_tokens": 9})
    bot.chat("main", HELLO, settings={"temperature": 0.9})
    body = server.requests[0].body
    assert body["temperature"] == 0.9
    assert 9 in (body.get("max_tokens"), body.get("max_completion_tokens"))


@pytest.mark.parametrize("way", ["tool", "native", "prompted"])
def test_structured_output_comes_back_as_its_type(server: OpenAIServer, way: str) -> None:
    server.output = {"score": 0.25, "mood": "good"}
    if way != "tool":
        server.script('{"score": 0.25, "mood": "good"}')
    reply = models(server, structured=way).chat("main", HELLO, output_type=Verdict)
    assert reply.output == Verdict(score=0.25, mood="good")
    assert Verdict.model_validate_json(reply.text) == reply.output
    assert ("tools" in server.requests[0].body) == (way == "tool")


def test_a_structured_answer_that_does_not_fit_is_asked_for_once_more(server: OpenAIServer) -> None:
    server.output = {"score": "very"}
    with pytest.raises(ModelError, match="no model answered"):
        models(server).chat("main", HELLO, output_type=Verdict)
    assert len(server.requests) == 2


def test_answers_that_nobody_can_use_tell_what_they_came_to(server: OpenAIServer) -> None:
    server.output = {"score": "very"}
    with pytest.raises(ModelOutputError) as raised:
        models(server).chat("main", HELLO, output_type=Verdict)
    assert (raised.value.usage, raised.value.cost) == (Usage(22, 14, 2), None)


def test_unusable_answers_of_several_models_are_summed_up(server: OpenAIServer) -> None:
    server.output = {"score": "very"}
    with pytest.raises(ModelOutputError) as raised:
        models(server, fallback=["second"]).chat("main", HELLO, output_type=Verdict)
    assert asked_models(server) == ["first", "first", "second", "second"]
    assert raised.value.usage == Usage(44, 28, 4)


def test_an_endless_value_was_paid_for_all_the_same(server: OpenAIServer) -> None:
    server.output = {"text": "x" * (providers.MOST_CHARS + 1)}
    with pytest.raises(ModelOutputError, match="characters, more than") as raised:
        models(server).chat("main", HELLO, output_type=Endless)
    assert raised.value.usage == Usage(11, 7, 1)


def test_unusable_answers_have_the_price_of_their_model_and_not_of_the_chat_before_them(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced: list[Any] = []

    def price(answer: Any, candidate: Any) -> float:
        priced.append(answer)
        return 0.25

    monkeypatch.setattr(providers, "_price", price)
    server.output = {"score": "very"}
    said = [*HELLO, {"role": "assistant", "content": "hi"}, *HELLO]
    with pytest.raises(ModelOutputError) as raised:
        models(server).chat("main", said, output_type=Verdict)
    assert (raised.value.cost, len(priced)) == (0.5, 2)


def test_a_server_that_tells_nothing_costs_nothing(server: OpenAIServer) -> None:
    server.script(Fault.garbage())
    with pytest.raises(ModelError) as raised:
        models(server).chat("main", HELLO)
    assert getattr(raised.value, "usage", None) is None


@pytest.mark.parametrize(
    "fault,said",
    [
        (Fault.status(429, retry_after=7), "HTTP 429, retry after 7 s"),
        (Fault.status(500), "HTTP 500"),
        (Fault.status(503), "HTTP 503"),
        (Fault.status(408), "HTTP 408"),
        (Fault.status(402), "HTTP 402"),
        (Fault.garbage(), "JSON"),
        (Fault.truncated(), "JSON"),
        (Fault.empty(), "Invalid response"),
    ],
)
def test_a_passing_fault_goes_to_the_fallback_model(
    server: OpenAIServer, fault: Fault, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(fault)
    with caplog.at_level(logging.WARNING, "lumia.models"):
        reply = models(server, fallback=["openai-chat:second"]).chat("main", HELLO)
    assert reply.model == "openai-chat:second"
    assert asked_models(server) == ["first", "second"]
    assert said in reply.attempts[0]
    assert said in caplog.text


def test_a_time_out_goes_to_the_fallback_model(server: OpenAIServer) -> None:
    bot = models(server, fallback=["openai-chat:second"], timeout=0.3)
    bot.chat("main", HELLO)  # the library is loaded: from here on only the server's time counts
    server.script(Fault.hang())
    began = time.monotonic()
    reply = bot.chat("main", HELLO)
    assert time.monotonic() - began < 5
    assert reply.model == "openai-chat:second"
    assert "no answer within 0.3 s" in reply.attempts[0]


def test_a_time_limit_of_the_client_itself_counts_as_a_time_out(server: OpenAIServer) -> None:
    bot = models(server, fallback=["offline"], settings={"timeout": 0.2})
    server.script(Fault.hang())
    reply = bot.chat("main", HELLO)
    assert (reply.offline, len(server.requests)) == (True, 1)
    assert "timed out" in reply.attempts[0]


def test_a_server_that_is_not_there_goes_to_the_fallback_model(server: OpenAIServer) -> None:
    with OpenAIServer() as gone:
        url = gone.url
    settings = {"main": {"model": "dead", "base_url": url, "fallback": ["alive"]}}
    bot = Models({**settings, "alive": {"model": "second", "base_url": server.url}}, {})
    assert bot.chat("main", HELLO).model == "second"


def test_a_connection_that_breaks_once_is_simply_tried_again(server: OpenAIServer) -> None:
    server.script(Fault.broken())
    reply = models(server).chat("main", HELLO)
    assert (reply.text, reply.attempts) == ("hello", ())
    assert len(server.requests) == 2


def test_the_offline_model_can_be_the_last_resort(server: OpenAIServer) -> None:
    server.script(Fault.status(500))
    reply = models(server, fallback=["offline"]).chat("main", HELLO)
    assert (reply.text, reply.model, reply.offline) == ("Hello!", "offline", True)
    assert "HTTP 500" in reply.attempts[0]


def test_when_no_model_answers_every_attempt_is_listed(server: OpenAIServer) -> None:
    server.script(Fault.status(500), Fault.status(429))
    with pytest.raises(ModelError) as caught:
        models(server, fallback=["openai-chat:second"]).chat("main", HELLO)
    assert not isinstance(caught.value, ModelConfigError)
    text = str(caught.value)
    assert "role main" in text
    assert "openai-chat:first" in text
    assert "HTTP 500" in text
    assert "openai-chat:second" in text
    assert "HTTP 429" in text


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refused_request_explains_itself_and_asks_nobody_else(server: OpenAIServer, status: int) -> None:
    server.script(Fault.status(status, "no"))
    with pytest.raises(ModelConfigError, match=rf"role main .*openai-chat:first .*HTTP {status}: no"):
        models(server, fallback=["openai-chat:second"]).chat("main", HELLO)
    assert asked_models(server) == ["first"]


def test_a_refused_fallback_is_told_with_what_came_before(server: OpenAIServer) -> None:
    server.script(Fault.status(500), Fault.status(401))
    with pytest.raises(ModelError, match=r"HTTP 500.*HTTP 401") as caught:
        models(server, fallback=["openai-chat:second"]).chat("main", HELLO)
    assert not isinstance(caught.value, ModelConfigError)


def test_a_refused_key_names_its_variable_and_never_the_key(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(Fault.status(401, f"Incorrect API key provided: {KEY}"))
    with caplog.at_level(logging.DEBUG), pytest.raises(ModelConfigError) as caught:
        models(server, {"MY_KEY": KEY}, api_key_env="MY_KEY").chat("main", HELLO)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "MY_KEY" in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert KEY not in caplog.text


def test_a_plain_word_as_key_is_hidden_too(server: OpenAIServer) -> None:
    server.script(Fault.status(500, "key swordfish is tired"))
    bot = models(server, {"MY_KEY": "swordfish"}, api_key_env="MY_KEY")
    with pytest.raises(ModelError) as caught:
        bot.chat("main", HELLO)
    assert "swordfish" not in str(caught.value)


def test_an_openai_key_is_not_sent_to_another_server(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    models(server, {"OPENAI_API_KEY": KEY}).chat("main", HELLO)
    assert KEY not in str(server.requests[0].headers)


def test_the_environment_alone_is_enough(server: OpenAIServer) -> None:
    environ = {"LUMIA_MODEL": "openai-chat:any", "LUMIA_MODEL_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
    assert Models({}, environ).chat("small", HELLO).text == "hello"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "model,environ,host",
    [
        ("openai-chat:x", {"OPENAI_API_KEY": KEY}, "api.openai.com"),
        ("openai:x", {"OPENAI_API_KEY": KEY}, "api.openai.com"),
        ("deepseek:x", {"DEEPSEEK_API_KEY": KEY}, "api.deepseek.com"),
        ("moonshotai:x", {"MOONSHOTAI_API_KEY": KEY}, "api.moonshot.ai"),
    ],
)
def test_a_known_provider_is_built_with_the_bots_own_key(model: str, environ: dict[str, str], host: str) -> None:
    (candidate,) = resolve("main", {"main": {"model": model}}, environ).candidates
    provider = providers._provider(candidate)
    assert host in provider.base_url
    assert provider.client.api_key == KEY


def test_an_unknown_provider_explains_itself() -> None:
    with pytest.raises(ModelConfigError, match="no model provider 'brand-new'"):
        Models({"main": {"model": "brand-new:x"}}, {}).chat("main", HELLO)


def test_a_provider_that_takes_no_base_url_explains_itself(server: OpenAIServer) -> None:
    table = {"model": "deepseek:x", "base_url": server.url, "api_key_env": "K"}
    with pytest.raises(ModelConfigError, match="openai-chat:x"):
        Models({"main": table}, {"K": "k"}).chat("main", HELLO)


def test_a_provider_without_its_package_names_the_pip_command() -> None:
    with pytest.raises(ModelConfigError, match=r"pip install .pydantic-ai-slim\[anthropic\]"):
        Models({"main": {"model": "anthropic:x"}}, {"ANTHROPIC_API_KEY": "k"}).chat("main", HELLO)


def test_a_fallback_without_its_key_says_so_when_it_is_needed(server: OpenAIServer) -> None:
    bot = models(server, fallback=["deepseek:x"])
    assert bot.chat("main", HELLO).text == "hello"
    server.script(Fault.status(500))
    with pytest.raises(ModelError, match=r"HTTP 500.*DEEPSEEK_API_KEY"):
        bot.chat("main", HELLO)


def test_a_known_providers_price_is_known_and_a_private_servers_is_not(server: OpenAIServer) -> None:
    assert Models({"main": {"model": "gpt-4o-mini", "base_url": server.url}}, {}).chat("main", HELLO).cost is None


def test_the_price_list_gives_the_cost_of_a_known_model() -> None:
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.usage import RequestUsage

    from lumia.models.providers import _cost
    from lumia.models.roles import Candidate

    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    answer = ModelResponse([TextPart("x")], usage=usage, model_name="gpt-4o-mini", provider_name="openai")
    cost = _cost([answer, answer], Candidate("openai:gpt-4o-mini", "openai", "gpt-4o-mini"))
    assert cost is not None
    assert 0 < cost < 10
    unknown = ModelResponse([TextPart("x")], usage=usage, model_name="nobody-knows", provider_name="nobody")
    assert _cost([answer, unknown], Candidate("openai:gpt-4o-mini", "openai", "gpt-4o-mini")) is None


def embedder(server: OpenAIServer, **table: Any) -> Models:
    return Models({"embedding": {"model": "openai:vectors", "base_url": server.url, **table}}, {})


def test_embeddings_come_from_the_server_in_order(server: OpenAIServer) -> None:
    texts = [f"text {number}" for number in range(300)]
    vectors = embedder(server).embed(texts)
    assert [len(vector) for vector in vectors] == [8] * 300
    assert vectors[299] == pytest.approx(vector_of("text 299"), rel=1e-6)
    assert [len(request.body["input"]) for request in server.requests] == [256, 44]


def test_an_empty_text_is_embedded_and_no_texts_ask_nobody(server: OpenAIServer) -> None:
    bot = embedder(server)
    assert len(bot.embed(["", "a"])) == 2
    assert server.requests[0].body["input"] == [" ", "a"]
    assert bot.embed([]) == []
    assert len(server.requests) == 1


def test_too_few_vectors_are_not_taken_for_an_answer(server: OpenAIServer) -> None:
    one = {"object": "embedding", "index": 0, "embedding": [1.0]}
    server.script(lambda body: {"object": "list", "model": "m", "data": [one], "usage": None})
    with pytest.raises(ModelError, match="1 vectors came back for 2 texts"):
        embedder(server).embed(["a", "b"])


def test_an_embedding_falls_back_to_another_server_of_the_same_model(server: OpenAIServer) -> None:
    server.script(Fault.status(500))
    with OpenAIServer() as mirror:
        settings = {
            "embedding": {"model": "openai:vectors", "base_url": server.url, "fallback": ["mirror"]},
            "mirror": {"model": "openai:vectors", "base_url": mirror.url},
        }
        assert len(Models(settings, {}).embed(["a"])) == 1
        assert (len(server.requests), len(mirror.requests)) == (1, 1)


def test_async_calls_work_from_any_loop_with_the_same_clients(server: OpenAIServer) -> None:
    bot = models(server)
    vectors = embedder(server)

    async def both() -> tuple[str, int]:
        replies = await asyncio.gather(*(bot.achat("main", HELLO) for _ in range(5)))
        return "".join(reply.text for reply in replies), len(await vectors.aembed(["a"]))

    assert asyncio.run(both()) == ("hello" * 5, 1)
    assert asyncio.run(both()) == ("hello" * 5, 1)


def test_cancelling_an_async_call_ends_it(server: OpenAIServer) -> None:
    bot = models(server)
    bot.chat("main", HELLO)
    server.script(Fault.hang())

    async def cancelled() -> None:
        call = asyncio.create_task(bot.achat("main", HELLO))
        await asyncio.to_thread(until, lambda: len(server.requests) == 2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())
    assert bot.chat("main", HELLO).text == "hello"
