"""The whole plugin on an in-memory bot: what is observed and learned, and that nobody ever waits for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest

import lumia
from handlers.memory_graph.observing import chat_of, lane_of
from lumia.checks import findings
from lumia.testing import Bot, ManualClock
from tests.handlers.memory_graph.samples import Words
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


def test_somebody_whose_id_is_self_is_told_from_the_bot(bot: Bot) -> None:
    bot.send("what can you do about my blue bicycle?", sender="self", group="g")
    bot.settle()
    assert rows(bot, "SELECT kind, sender FROM memory_instances ORDER BY seq") == [
        ("message", "~self"), ("reply", "self"),
    ]  # fmt: skip
    memory = lumia.services.get("memory")
    assert {(one.kind, one.sender) for one in memory.recall("blue bicycle", CHAT).instances} == {
        ("message", "self"), ("reply", "self"),
    }  # fmt: skip
    assert (memory.profile("self", CHAT).messages, memory.profile("~self", CHAT).messages) == (1, 0)
    assert memory.forget_person("self").records == 1
    assert rows(bot, "SELECT kind FROM memory_instances") == [("reply",)]


def test_a_reply_that_only_repeats_a_memory_is_none_itself(bot: Bot) -> None:
    assert bot.send("my sister lives in Lisbon", group="g").replies == ["Noted: my sister lives in Lisbon"]
    bot.settle()
    assert rows(bot, "SELECT kind FROM memory_instances") == [("message",)]


def test_a_command_and_its_answer_are_not_remembered(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory(postgres_url, schema, monkeypatch, HANDLERS / "chat_commands") as bot:
        bot.url, bot.schema = postgres_url, schema  # type: ignore[attr-defined]
        assert bot.send("/memory", sender="ann").replies == ["I remember nothing of you here."]
        bot.send("my sister lives in Lisbon", sender="ann")
        bot.settle()
        assert rows(bot, "SELECT content FROM memory_instances") == [("my sister lives in Lisbon",)]
        told = bot.send("/memory", sender="ann").replies[0].splitlines()
        assert told[0] == "You are ann; messages of yours that I know here: 1."
        assert told[-1].endswith("“my sister lives in Lisbon”")
        bot.settle()
        assert rows(bot, "SELECT count(*) FROM memory_instances") == [(1,)]


def test_who_wants_to_be_forgotten_is_in_this_chat_and_alone(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory(postgres_url, schema, monkeypatch, HANDLERS / "chat_commands") as bot:
        bot.url, bot.schema = postgres_url, schema  # type: ignore[attr-defined]
        for sender, group in (("ann", "g"), ("ann", "g"), ("bob", "g"), ("ann", "other")):
            bot.send(f"{sender} likes tea in {group}", sender=sender, group=group)
        bot.settle()
        stay = "The last lines of this chat stay until /reset."
        told = f"I have forgotten what I remembered of you here (records: {{}}). {stay}"
        assert bot.send("/memory forget", sender="ann", group="g").replies == [told.format(2)]
        assert bot.send("/memory", sender="ann", group="g").replies == ["I remember nothing of you here."]
        assert bot.send("/memory forget", sender="ann", group="new").replies == [told.format(0)]
        kept = rows(bot, "SELECT sender, chat FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id "
                         "WHERE kind = 'message' ORDER BY sender DESC")  # fmt: skip
        assert kept == [("bob", CHAT), ("ann", "console:console:group:other")]


def test_a_reply_goes_out_before_it_is_observed(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    adapter = tmp_path / "zulu"
    adapter.mkdir()
    manifest = {"name": "zulu", "display_name": "Zulu", "description": "Loaded after the memory", "author": "Test",
                "license": "MIT", "main": "plugin.py", "min_core_version": "0.2.0"}  # fmt: skip
    (adapter / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    (adapter / "plugin.py").write_text(
        "import lumia\n@lumia.event.consumer_re('msg.send, dest=1.*')\n"
        "def deliver(src: str, content: lumia.Box):\n    'Deliver.'\n"
    )
    with memory(postgres_url, schema, monkeypatch, adapter) as bot:
        bot.send("hello", group="g")
        steps = [one for one in bot.transport.tail("0", 0, 10_000) if one.kind == "step"]
    sent = [one.handler for one in steps if one.id.startswith("msg.send")]
    assert sent == ["zulu.deliver", "heartflow.hear_own", "memory_graph.observe_reply"]


def test_the_memory_uses_the_scope_of_heartflows_history(bot: Bot) -> None:
    bot.send("hello", group="g")
    assert lumia.store.of("heartflow").items("lines", scope=CHAT)


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


# --- with another embedder


def changed(embedder: Any = None) -> None:
    """Let the memory's vectors be those of another embedder, without one of that which is configured."""
    engine, reembed = (import_module(f"handlers.memory_graph.{name}") for name in ("engine", "reembed"))
    work = engine.Engine(engine.stored(), embedder) if embedder else engine.current()
    for _ in reembed.rebuild(work.database, work.embedder):
        pass


def test_what_is_said_under_another_model_waits_for_the_rebuild_and_is_written_once(bot: Bot) -> None:
    bot.send("hello number 0", group="g")
    bot.settle()
    changed(Words("other", 48))
    for number in (1, 2):
        assert bot.send(f"hello number {number}", group="g").outcome == "done"
    update = {"topic": "Ann", "content": "Ann plays the cello", "origin": origin()}
    assert bot.event("memory.update", update).outcome == "done", "the message's lane is not held up"
    bot.settle(7200)
    assert bot.dead == []
    assert rows(bot, "SELECT count(*) FROM memory_instances WHERE kind <> 'reply'") == [(1,)]
    ((level, line),) = told(bot)
    assert level == "risk"
    assert "vectors of other (48 numbers), but the configured embedder is offline" in line
    assert "what is said waits" in line
    changed()
    bot.settle(901)
    found = rows(bot, "SELECT content FROM memory_instances WHERE kind <> 'reply' ORDER BY content")
    assert found == [("Ann plays the cello",), *((f"hello number {number}",) for number in range(3))]
    bot.settle(7200)
    assert rows(bot, "SELECT sum(seen) FROM memory_instances WHERE kind <> 'reply'") == [(4,)]
    assert bot.dead == []


def test_what_waits_for_a_key_is_written_when_there_is_one_and_its_text_is_never_lost(
    bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bot.runtime.config is not None
    bot.runtime.config.set_path("models.embedding.model", "openai:text-embedding-3-small")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    bot.send("what can you do?", group="g")
    bot.settle(7200)
    assert bot.dead == []
    bot.runtime.config.set_path("models.embedding.model", "offline")
    bot.settle(901)
    assert rows(bot, "SELECT kind FROM memory_instances ORDER BY kind") == [("message",), ("reply",)]


def test_what_has_waited_for_a_month_is_a_dead_letter_that_holds_the_text(bot: Bot) -> None:
    lumia.config.get("memory-graph").observe_replies = False
    bot.send("hello", group="g")
    bot.settle()
    changed(Words("other", 48))
    bot.send("hello again", group="g")
    bot.settle()
    assert isinstance(bot.clock, ManualClock)
    bot.clock.move(31 * 86400)
    bot.settle(7200)
    assert [letter.id for letter in bot.dead] == ["memory.later"]
    assert "the configured embedder is offline" in bot.dead[0].error


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


def test_doctor_tells_a_change_of_the_embedder_that_was_not_finished(bot: Bot) -> None:
    bot.send("hello there", group="g")
    bot.settle()
    engine, reembed = (import_module(f"handlers.memory_graph.{name}") for name in ("engine", "reembed"))
    change = reembed.rebuild(engine.current().database, Words("other", 48), batch=1)
    for _ in range(2):
        next(change)
    change.close()
    assert bot.runtime.config is not None
    bot.runtime.config.set_path("models.embedding.model", "openai:other")
    (_, first), (_, second) = told(bot)
    assert "but the configured embedder is openai:other" in first
    assert "a change to other is not finished: 1 of" in second


def test_doctor_tells_that_a_server_has_no_pgvector(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = psycopg.Connection.execute

    def without(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        plain = query.decode() if isinstance(query, bytes) else str(query)
        return execute(self, plain.replace("'vector'", "'no_such_thing'"), *args, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", without)
    ((level, line),) = told(bot)
    assert level == "risk"
    assert "the database server has no pgvector" in line


def test_doctor_itself_shows_the_memorys_finding(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.supervise import doctor

    monkeypatch.setenv("LUMIA_ROOT", str(bot_root))
    monkeypatch.setenv("LUMIA_DATABASE_URL", NOWHERE)
    (finding,) = named(doctor.examine(), "memory-graph")
    assert finding.level == "risk"
    assert "answered without memory" in finding.message


# --- a memory for a trial


@pytest.mark.parametrize("temporary", [True, False])
def test_a_temporary_memory_is_gone_with_its_bot_and_another_one_stays(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch, temporary: bool
) -> None:
    with memory(postgres_url, schema, monkeypatch, temporary=temporary) as bot:
        bot.send("my sister moved to Lisbon", group="g")
        bot.settle()
        assert bot.dead == []
    with psycopg.connect(postgres_url) as connection:
        left = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall()
    assert bool(left) is not temporary


def test_the_schema_public_is_dropped_for_no_trial(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_DATABASE_URL", postgres_url)
    settings: dict[str, dict[str, Any]] = {**SETTINGS, "memory-graph": {"temporary": True}}
    with Bot(HANDLERS / "memory_graph", config=settings, clock=ManualClock()):
        pass
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'public'").fetchall() == [(1,)]
