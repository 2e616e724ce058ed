"""Models that answer rubbish, nothing, too much, too late or not at all, on a real server: bounded cost, a reason in
the trace, no exception in the chat."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import PLUGINS, msg
from tests.peers.openai_server import Fault, OpenAIServer

THOUGHT = {"reply_bias": {"intent": "help", "key_points": ["It is in Lisbon."]}, "focus": "Lisbon"}
MEGABYTE = "rubbish " * 131_072


@contextmanager
def served(root: Path, *roles: str, timeout: float = 20.0, **config: Any) -> Iterator[tuple[Bot, OpenAIServer]]:
    """A bot whose `roles` are one real server's; the others are offline."""
    with OpenAIServer(output=THOUGHT) as server:
        tables = [
            f'[models.{role}]\nmodel = "openai-chat:any"\nbase_url = "{server.url}"\ntimeout = {timeout}\n'
            for role in roles
        ]
        (root / "config").mkdir()
        (root / "config" / "lumia.toml").write_text("\n".join(tables), encoding="utf-8")
        with Bot(*PLUGINS, root=root, clock=ManualClock(), config={"heartflow": {"burst_wait": 0, **config}}) as bot:
            yield bot, server


def details(handler: str) -> dict[str, Any]:
    """Return what the newest step of a handler noted."""
    steps = [
        entry for entry in lumia.runs.tail("0") if entry.kind == "step" and entry.handler == f"heartflow.{handler}"
    ]
    return dict(steps[-1].detail)


def called(name: str, arguments: str) -> Fault:
    """A completion that calls the output tool with these arguments, whatever they are."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "any", "choices": [choice], "usage": usage}
    return Fault(headers={"Content-Type": "application/json"}, raw=json.dumps(body).encode())


def test_a_good_thought_is_spoken(tmp_path: Path) -> None:
    with served(tmp_path, "main") as (bot, server):
        assert bot.start("msg", msg("where is it?", mentions_bot=True)).replies == ["It is in Lisbon."]
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "bad",
    [
        "I will not answer in JSON.",
        called("final_result", "{"),
        called("final_result", json.dumps({"reply_bias": {"key_points": "not a list"}})),
        called("final_result", json.dumps({"reply_bias": 7, "memory_updates": [{"importance": 99}]})),
        called("no_such_tool", "{}"),
        MEGABYTE,
    ],
    ids=["prose", "half an object", "a wrong type", "wrong everywhere", "another tool", "a megabyte"],
)
def test_a_thought_that_cannot_be_used_is_mended_once_by_the_model(tmp_path: Path, bad: Any) -> None:
    with served(tmp_path, "main") as (bot, server):
        server.script(bad)
        assert bot.start("msg", msg("where is it?", mentions_bot=True)).replies == ["It is in Lisbon."]
        assert len(server.requests) == 2
        assert "degraded" not in details("think")


@pytest.mark.parametrize("bad", ["no JSON", called("final_result", "{")], ids=["prose", "half an object"])
def test_one_that_stays_unusable_becomes_plain_words(tmp_path: Path, bad: Any) -> None:
    with served(tmp_path, "main") as (bot, server):
        server.script(bad, bad, "Lisbon, I think.")
        assert bot.start("msg", msg("where is it?", mentions_bot=True)).replies == ["Lisbon, I think."]
        assert len(server.requests) == 3
        found = details("think")
        assert found["degraded"].startswith("no usable thought, asked for plain words")
        assert found["calls"] == {"main": 2}
        counted = lumia.store.of("heartflow").fields(f"spent:{today()}", scope="console:me:group:g-1")
        assert counted["L3.tokens"] == found["tokens_in"] + found["tokens_out"] > 18 + 2 * 10 - 1
        assert counted["L3.calls"] == 2


def test_a_thought_that_was_paid_for_in_vain_is_charged_once_although_the_step_is_tried_again(tmp_path: Path) -> None:
    with served(tmp_path, "main") as (bot, server):
        prose = "I will not answer in JSON."
        server.script(prose, prose, Fault.status(500), "Lisbon, I think.")
        run = bot.start("msg", msg("where is it?", mentions_bot=True))
        bot.settle(600)
        assert (lumia.runs.result(run.run_id) or run).replies == ["Lisbon, I think."]
        assert len(server.requests) == 4
        counted = lumia.store.of("heartflow").fields(f"spent:{today()}", scope="console:me:group:g-1")
        assert (counted["L3.calls"], counted["L3.tokens"]) == (2, 3 * 18)


def today() -> str:
    """Return the day of the budget."""
    return str(sys.modules["handlers.heartflow.budget"].today(lumia.config.get("heartflow")))


@pytest.mark.parametrize(
    "fault, tries",
    [
        (Fault.status(429, retry_after=7), 3), (Fault.status(500), 3), (Fault.garbage(), 3), (Fault.truncated(), 3),
        (Fault.broken(), 6), (Fault.status(401), 1), (Fault.status(404), 1),
    ],
    ids=["429", "500", "garbage", "half a stream", "a cut connection", "401", "404"],
)  # fmt: skip
def test_a_main_model_that_is_not_there_is_a_dead_letter_and_the_chat_is_told_nothing(
    tmp_path: Path, fault: Fault, tries: int
) -> None:
    with served(tmp_path, "main") as (bot, server):
        server.script(*[fault] * 20)
        run = bot.start("msg", msg("where is it?", mentions_bot=True))
        bot.settle(3600)
        result = lumia.runs.result(run.run_id)
        assert result is not None and (result.outcome, result.replies) == ("failed", [])
        assert bot.dead[0].handler == "heartflow.think" and "main" in bot.dead[0].error
        assert len(server.requests) <= 2 * tries
        server._script.clear()
        assert bot.start("msg", msg("and now?", mentions_bot=True, message_id="m2")).replies == ["It is in Lisbon."]


def test_a_main_model_that_hangs_is_given_up_on_in_time(tmp_path: Path) -> None:
    with served(tmp_path, "main", timeout=0.2) as (bot, server):
        server.script(*[Fault.hang()] * 3)
        run = bot.start("msg", msg("where is it?", mentions_bot=True))
        bot.settle(600)
        assert (lumia.runs.result(run.run_id) or run).outcome == "failed"
        assert "no answer within 0.2 s" in bot.dead[0].error


@pytest.mark.parametrize(
    "bad", ["no score", called("final_result", '{"relevance_score": 7}'), Fault.status(429), Fault.garbage(), MEGABYTE]
)
def test_a_small_model_that_gives_no_score_keeps_the_bot_silent_in_groups(tmp_path: Path, bad: Any) -> None:
    with served(tmp_path, "small") as (bot, server):
        server.script(*[bad] * 4)
        result = bot.start("msg", msg("how long does bread dough keep in the fridge?", platform="qq"))
        assert (result.outcome, result.replies, bot.dead) == ("stopped", [], [])
        assert result.reason is not None and result.reason.startswith("no score: ")
        assert len(server.requests) <= 2
        assert bot.start("msg", msg("@Lumia hello", platform="qq", mentions_bot=True)).outcome == "done"


@pytest.mark.parametrize("bad", ["no route", Fault.status(500), called("final_result", '{"route": "fly"}')])
def test_a_planner_that_fails_costs_the_answer_nothing_but_its_help(tmp_path: Path, bad: Any) -> None:
    with served(tmp_path, "planner") as (bot, server):
        server.script(*[bad] * 4)
        assert bot.start("msg", msg("why is the sky blue?", mentions_bot=True)).replies
        assert "planner_failed" in details("plan")
        assert bot.dead == []


@pytest.mark.parametrize("bad", [Fault.status(429), Fault.status(401), Fault.garbage(), " \n"])
def test_without_polish_the_key_points_are_sent_as_they_are(tmp_path: Path, bad: Any) -> None:
    with served(tmp_path, "main", "polish") as (bot, server):
        server.script(lambda body: None, bad, bad)
        assert bot.start("msg", msg("where is it?", mentions_bot=True)).replies == ["It is in Lisbon."]


def test_a_polish_of_a_megabyte_is_cut_and_bounded_in_messages(tmp_path: Path) -> None:
    with served(tmp_path, "main", "polish") as (bot, server):
        server.script(lambda body: None, MEGABYTE)
        run = bot.start("msg", msg("where is it?", mentions_bot=True))
        bot.settle(60)
        replies = (lumia.runs.result(run.run_id) or run).replies
    assert 1 <= len(replies) <= 4
    assert sum(map(len, replies)) < 4_100


@pytest.mark.parametrize("dimensions", [1, 8, 5000])
def test_vectors_of_another_size_make_the_pre_filter_pass_and_move_nothing(tmp_path: Path, dimensions: int) -> None:
    with served(tmp_path) as (bot, _):
        scope = "qq:me:group:g-1"
        kept = {"vector": module_state().packed([0.1] * dimensions), "model": module_state().embedding_model()}
        lumia.store.of("heartflow").set("planner", kept, scope=scope)
        result = bot.start("msg", msg("Lumia, what is two plus two?", platform="qq"))
        assert result.outcome == "done", result.reason
        assert "similarity" not in details("perceive")
        moved = lumia.store.of("heartflow").get("planner", scope=scope)
        assert len(module_state().unpacked(moved["vector"])) not in (0, dimensions)


def module_state() -> Any:
    """Return the plugin's module `state`."""
    return sys.modules["handlers.heartflow.state"]
