"""The whole plugin on an in-memory bot: what is observed and learned, and that nobody ever waits for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import lumia
from handlers.memory_graph.observing import chat_of, lane_of
from lumia.checks import findings
from lumia.testing import Bot, ManualClock
from tests.tasks.supervise.test_doctor import named

pytestmark = pytest.mark.services

HANDLERS = Path(lumia.__file__).parents[1] / "handlers"
NOWHERE = "postgresql://lumia:x@127.0.0.1:9/lumia"
GROUP = {"kind": "group", "id": "g"}
CHAT = "console:console:group:g"
SETTINGS = {"lumia": {"models.embedding.model": "offline"}}


@contextmanager
def memory(url: str, schema: str, monkeypatch: pytest.MonkeyPatch, *more: Any, **config: Any) -> Iterator[Bot]:
    """A bot with heartflow and the memory; its vectors are made of words, so no model is loaded."""
    monkeypatch.setenv("LUMIA_DATABASE_URL", url)
    settings = {**SETTINGS, "memory-graph": {"schema": schema, **config}}
    with Bot(HANDLERS / "heartflow", HANDLERS / "memory_graph", *more, config=settings, clock=ManualClock()) as bot:
        yield bot


@pytest.fixture
def bot(postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    with memory(postgres_url, schema, monkeypatch) as found:
        found.url, found.schema = postgres_url, schema  # type: ignore[attr-defined]
        yield found


def rows(bot: Any, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(bot.url, autocommit=True, options=f"-c search_path={bot.schema},public") as connection:
        return connection.execute(query.encode()).fetchall()


def origin(**more: Any) -> dict[str, Any]:
    where = {"platform": "console", "account": "console", "chat": GROUP, "sender": {"id": "ann", "name": "Ann"}}
    return {**where, "run_id": "run", **more}


# --- observing


def test_a_message_and_its_reply_are_remembered_in_order(bot: Bot) -> None:
    reply = bot.send("what can you do?", sender="ann", group="g").replies
    bot.settle()
    assert rows(bot, "SELECT kind, content, sender FROM memory_instances ORDER BY seq") == [
        ("message", "what can you do?", "ann"), ("reply", reply[0], "self"),
    ]  # fmt: skip
    assert rows(bot, "SELECT bot, chat FROM memory_scopes") == [("Lumia", CHAT)]
    assert bot.dead == []


def test_a_reply_that_only_repeats_a_memory_is_none_itself(bot: Bot) -> None:
    assert bot.send("my sister lives in Lisbon", group="g").replies == ["Noted: my sister lives in Lisbon"]
    bot.settle()
    assert rows(bot, "SELECT kind FROM memory_instances") == [("message",)]


def test_the_memory_uses_the_scope_of_heartflows_history(bot: Bot) -> None:
    bot.send("hello", group="g")
    assert lumia.store.of("heartflow").items("history", scope=CHAT)


def test_what_the_filter_drops_is_not_remembered(postgres_url: str, schema: str, monkeypatch: Any) -> None:
    with memory(postgres_url, schema, monkeypatch) as bot:
        lumia.config.get("heartflow").blacklist = ["spammer"]
        bot.send("buy this", sender="spammer", group="g")
        assert [step.handler for step in bot.send("hi", sender="spammer", group="g").steps] == [
            "heartflow.filter_message"
        ]


def test_a_message_that_is_delivered_again_is_remembered_once(bot: Bot) -> None:
    for _ in range(2):
        bot.send("hello", group="g", message_id="same")
    bot.settle()
    assert rows(bot, "SELECT count(*) FROM memory_instances WHERE kind = 'message'") == [(1,)]


def test_half_a_million_characters_are_answered_and_remembered_cut(bot: Bot) -> None:
    assert bot.send("x" * 500_000, group="g").outcome == "done"
    bot.settle()
    ((length, end),) = rows(
        bot, "SELECT length(content), right(content, 17) FROM memory_instances WHERE kind = 'message'"
    )
    assert length < 21_000
    assert end.endswith("more characters]")


@pytest.mark.parametrize("off", ["observe", "observe_replies", "enabled"])
def test_each_part_can_be_switched_off(postgres_url: str, schema: str, monkeypatch: Any, off: str) -> None:
    with memory(postgres_url, schema, monkeypatch, **{off: False}) as bot:
        bot.url, bot.schema = postgres_url, schema  # type: ignore[attr-defined]
        bot.send("hello you", group="g")
        bot.settle()
        if off == "enabled":
            with pytest.raises(psycopg.errors.UndefinedTable):
                rows(bot, "SELECT kind FROM memory_instances")
        else:
            left = "reply" if off == "observe" else "message"
            assert rows(bot, "SELECT kind FROM memory_instances") == [(left,)]


@pytest.mark.parametrize(
    "payload", [{"text": "x"}, {"text": "x", "chat": 7, "sender": {"id": "a"}}, "text", None, {"text": None}]
)
def test_a_payload_of_another_shape_passes(postgres_url: str, schema: str, monkeypatch: Any, payload: Any) -> None:
    reached: list[Any] = []

    @lumia.pipe.on("msg", priv=20)
    def then(content: lumia.Box[Any]) -> None:
        reached.append(content.into())

    monkeypatch.setenv("LUMIA_DATABASE_URL", postgres_url)
    settings = {**SETTINGS, "memory-graph": {"schema": schema}}
    with Bot(HANDLERS / "memory_graph", then, config=settings) as bot:
        assert bot.start("msg", payload).outcome == "done"
        assert bot.dead == []
    assert reached == [payload]


def test_the_lane_of_observations_is_a_name_whatever_the_chat_is_called() -> None:
    for id in ("g", "x" * 300, "a\nb", "\x00"):
        name = lane_of(chat_of("qq", "me" * 100, "group", id))
        assert name.isprintable() and len(name) <= 512


# --- learning


def test_what_a_model_learns_is_there_when_its_event_has_ended(bot: Bot) -> None:
    update = {"topic": "Ann", "content": "Ann plays the cello", "importance": 0.8, "origin": origin()}
    for _ in range(2):
        assert bot.event("memory.update", update).outcome == "done"
    assert rows(bot, "SELECT kind, content, importance, run_id, seen FROM memory_instances")[0][:3] == (
        "fact", "Ann plays the cello", 0.8,
    )  # fmt: skip
    assert rows(bot, "SELECT count(*), max(seen) FROM memory_instances") == [(1, 2)]
    bot.event("memory.update", {"action": "forget", "topic": "ann", "origin": origin()})
    assert rows(bot, "SELECT count(*) FROM memory_instances") == [(0,)]


def test_a_topic_without_a_text_is_noted(bot: Bot) -> None:
    bot.event("memory.update", {"topic": "Lisbon", "origin": origin()})
    assert rows(bot, "SELECT topic_name FROM memory_topics") == [("Lisbon",)]


def test_relations_are_kept_and_told_by_the_service(bot: Bot) -> None:
    bot.send("hello", sender="ann", group="g")
    relation = {"from": "ann", "to": "self", "type": "friend", "weight_delta": 0.25, "origin": origin()}
    assert bot.event("relation.update", relation).outcome == "done"
    bot.settle()
    found = lumia.services.get("memory").profile("ann", CHAT)
    assert "friend of the bot (0.25)" in found.relation_summary


def test_faded_memories_go_once_a_day(bot: Bot) -> None:
    bot.event("memory.update", {"topic": "tea", "content": "tea is hot", "origin": origin()})
    assert isinstance(bot.clock, ManualClock)
    bot.clock.move(40 * 86400)
    bot.event("cron.1d", {})
    assert rows(bot, "SELECT count(*) FROM memory_instances") == [(0,)]
    assert rows(bot, "SELECT count(*) FROM memory_recycled WHERE source_table = 'memory_instances'") == [(1,)]


# --- without a database


def test_without_a_database_the_chain_answers_and_nothing_is_tried(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory("", schema, monkeypatch) as bot:
        result = bot.send("hello", group="g")
        assert (result.outcome, len(result.replies)) == ("done", 1)
        assert bot.event("memory.update", {"topic": "x", "content": "y", "origin": origin()}).outcome == "done"
        assert bot.transport.next_due() is None
        assert bot.dead == []


def test_a_database_that_is_away_stops_nobody_and_gets_everything_when_it_is_back(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with memory(NOWHERE, schema, monkeypatch) as bot, caplog.at_level(logging.INFO, "lumia.memory"):
        for number in range(3):
            result = bot.send(f"hello number {number}", group="g")
            assert (result.outcome, len(result.replies)) == ("done", 1)
        bot.settle(5)
        warned = [one for one in caplog.records if one.levelno == logging.WARNING and one.name == "lumia.memory"]
        assert len(warned) == 1
        assert "the memory is away" in warned[0].message
        monkeypatch.setenv("LUMIA_DATABASE_URL", postgres_url)
        bot.settle(600)
        bot.url, bot.schema = postgres_url, schema  # type: ignore[attr-defined]
        found = rows(bot, "SELECT content FROM memory_instances WHERE kind = 'message' ORDER BY seq")
        assert found == [(f"hello number {number}",) for number in range(3)]
        assert bot.dead == []


def test_a_database_that_stays_away_leaves_dead_letters_that_hold_the_text(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory(NOWHERE, schema, monkeypatch, observe_replies=False) as bot:
        bot.send("hello", group="g")
        bot.settle(7200)
        assert [letter.id for letter in bot.dead] == ["memory.observe"]
        assert "does not answer" in bot.dead[0].error


# --- lumia doctor


def told(bot: Bot) -> list[tuple[str, str]]:
    assert bot.runtime.plugins is not None
    return [
        (one.level, f"{one.message} → {one.fix}")
        for name, one in findings(bot.runtime.plugins)
        if name == "memory-graph"
    ]


def test_doctor_says_what_the_memory_holds(bot: Bot) -> None:
    assert told(bot) == [("ok", "its tables are made by the first message → ")]
    bot.send("what can you do?", group="g")
    bot.settle()
    assert told(bot) == [("ok", "2 instances, vectors of offline (256 numbers) → ")]


def test_doctor_says_why_there_is_no_memory(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    bot.send("hello", group="g")
    bot.settle()
    with psycopg.connect(bot.url, autocommit=True) as connection:  # type: ignore[attr-defined]
        connection.execute(f"DROP TABLE {bot.schema}.memory_terms".encode())  # type: ignore[attr-defined]
    ((level, line),) = told(bot)
    assert level == "risk"
    assert "damaged" in line and "memory_terms" in line and "restore a dump" in line
    for url, why in ((NOWHERE, "does not answer"), ("", "lumia up"), ("mysql://x", "no database URL")):
        monkeypatch.setenv("LUMIA_DATABASE_URL", url)
        assert why in told(bot)[0][1]
    monkeypatch.setenv("LUMIA_DATABASE_URL", f"{bot.url}?options=-c%20default_transaction_read_only%3Don")  # type: ignore[attr-defined]
    assert "read-only" in told(bot)[0][1]
    lumia.config.get("memory-graph").enabled = False
    assert "switched off" in told(bot)[0][1]


def test_doctor_itself_shows_the_memorys_finding(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.supervise import doctor

    monkeypatch.setenv("LUMIA_ROOT", str(bot_root))
    monkeypatch.setenv("LUMIA_DATABASE_URL", NOWHERE)
    (finding,) = named(doctor.examine(), "memory-graph")
    assert finding.level == "risk"
    assert "answered without memory" in finding.message
