"""The inbox: what was accepted before it was planned is started once, in order, and nothing overtakes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import lumia
from lumia import inbox, revival
from lumia.cli.app import build
from lumia.dead import DeadFilter
from lumia.errors import BackendUnavailableError
from lumia.ports import Kept, RunRecord, RunRequest
from lumia.system import new_id
from tasks import inbox as module
from tasks.letter_text import as_json, as_lines
from tasks.supervise import check_inbox as check
from tasks.supervise.check_inbox import check_inbox
from tasks.supervise.resp import connect as connected
from tests.support import servers
from tests.support.accepting import Bot, fresh, rooted
from tests.support.wait import until


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rooted(tmp_path_factory.mktemp("bot"))


@pytest.fixture
def bot(root: Path, valkey_server: servers.Server) -> Iterator[Bot]:
    with fresh(root, valkey_server) as found:
        yield found


class TestKeeping:
    def test_what_is_kept_is_started_in_order_and_leaves(self, bot: Bot) -> None:
        runs = bot.keep(*(bot.asked(n) for n in range(5)))
        assert bot.transport.inbox.waiting()[0] == 5 and bot.heard() == []
        assert bot.take() == 5
        bot.work()
        assert bot.heard() == [0, 1, 2, 3, 4] and bot.transport.inbox.waiting() == (0, 0.0)
        assert [bot.transport.run(run).outcome for run in runs] == ["done"] * 5
        assert not bot.redis.exists("lumia:kept", "lumia:inbox")

    def test_a_duplicate_gets_the_first_ones_run(self, bot: Bot) -> None:
        first, again = bot.keep(bot.asked(1)), bot.keep(bot.asked(1), bot.asked(2))
        assert again[0] == first[0] != again[1]
        assert bot.start(1) == first[0], "nor does a start beside the inbox make it twice"
        bot.take()
        assert bot.keep(bot.asked(1)) == first, "nor one that comes after it was started"
        assert bot.transport.inbox.waiting()[0] == 0
        bot.work()
        assert bot.heard() == [1, 2]

    def test_sent_again_it_gives_the_same_answer(self, bot: Bot) -> None:
        kept = [bot.asked(n).kept(bot.runtime) for n in range(2)]
        kept.append(Kept(new_id(), "", kept[0].text))
        first = bot.transport.inbox.keep(kept)[1]
        assert bot.transport.inbox.keep(kept)[1] == first == [one.run_id for one in kept]
        assert bot.transport.inbox.waiting()[0] == 3

    def test_the_twin_begins_beside_it(self, bot: Bot) -> None:
        bot.keep(bot.asked(1, also=[("msg.raw", lumia.Box.any("bytes"))]))
        bot.take()
        bot.work()
        assert lumia.store.of("ear").items("raw") == ["bytes"]

    def test_its_record_says_that_it_waits(self, bot: Bot) -> None:
        (run,) = bot.keep(bot.asked(1))
        record = bot.transport.run(run)
        assert (record.state, record.id, record.key) == ("waiting", "msg", "web:group-a")
        with pytest.raises(lumia.errors.RunTimeoutError):
            bot.transport.wait(run, 0.01)

    def test_the_journal_tells_how_long_it_was_kept(self, bot: Bot) -> None:
        (run,) = bot.keep(bot.asked(1))
        until(lambda: bot.transport.inbox.waiting()[1] > 0.01)
        bot.take()
        (start,) = [entry for entry in bot.journal(run) if entry.kind == "start"]
        assert 0.01 <= start.detail["kept"] < 60

    def test_its_trace_shows_that_it_waited(self, bot: Bot, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        (run,) = bot.keep(bot.asked(1))
        until(lambda: bot.transport.inbox.waiting()[1] > 0.05)
        monkeypatch.setenv("LUMIA_ROOT", str(root))
        monkeypatch.setenv("LUMIA_REDIS_URL", bot.transport.url)
        said = CliRunner().invoke(build(["lanes"]), ["lanes"]).output
        assert "the inbox holds 1 more" in said
        bot.take()
        bot.work()
        result = CliRunner().invoke(build(["trace"]), ["trace", run])
        assert result.exit_code == 0 and "in the inbox" in result.output, result.output


class TestOrder:
    def test_a_start_lines_up_behind_what_is_kept(self, bot: Bot) -> None:
        bot.keep(bot.asked(1))
        raw = [("msg.raw", lumia.Box.any("second"))]
        run = bot.start(2, also=raw)
        assert bot.transport.run(run).state == "waiting" and bot.redis.llen("default:3") == 0
        assert bot.start(2) == run
        bot.take()
        bot.work()
        assert bot.heard() == [1, 2] and lumia.store.of("ear").items("raw") == ["second"]

    def test_what_needs_its_plan_or_has_no_lane_does_not(self, bot: Bot) -> None:
        bot.keep(bot.asked(1))
        lumia.pipe.start("msg", lumia.Box.any({"n": 7}, meta={"chat": "b"}))
        bot.start(8, "b", cap=3)
        bot.work()
        assert bot.heard("b") == [7, 8] and bot.transport.inbox.waiting()[0] == 1

    def test_a_priority_is_kept(self, bot: Bot) -> None:
        bot.keep(bot.asked(1, "slow", priority=9), bot.asked(2, "quick"))
        bot.start(3, "urgent", priority=0)
        bot.take()
        assert [bot.redis.llen(name) for name in ("default", "default:3", "default:9")] == [1, 1, 1]

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(["keep", "start", "take", "work"]), st.sampled_from("ab")), max_size=40))
    def test_whatever_way_they_come_each_lane_keeps_its_order(
        self, root: Path, valkey_server: servers.Server, moves: Sequence[tuple[str, str]]
    ) -> None:
        with fresh(root, valkey_server) as bot:
            _play(bot, moves)


def _play(bot: Bot, moves: Sequence[tuple[str, str]]) -> None:
    said: dict[str, list[int]] = {"a": [], "b": []}
    for n, (move, chat) in enumerate(moves):
        if move == "take":
            bot.take()
        elif move == "work":
            bot.work()
        else:
            bot.keep(bot.asked(n, chat)) if move == "keep" else bot.start(n, chat)
            said[chat].append(n)
    while bot.take():
        pass
    bot.work()
    assert {chat: bot.heard(chat) for chat in said} == said


class TestEnds:
    def test_one_that_waits_can_be_cancelled(self, bot: Bot) -> None:
        first, _ = bot.keep(bot.asked(1), bot.asked(2))
        assert bot.transport.cancel(first, "not wanted")
        bot.take()
        bot.work()
        assert bot.heard() == [2] and bot.transport.inbox.waiting()[0] == 0
        end = bot.journal(first)[-1]
        assert (end.kind, end.outcome, end.reason) == ("end", "cancelled", "not wanted")

    def test_whoever_waits_for_one_that_never_begins_is_told_how_it_ended(self, bot: Bot) -> None:
        cancelled, buried, event = bot.keep(bot.asked(1), bot.asked(2), bot.asked(3))
        bot.redis.hset("lumia:kept", event, inbox.write("event", "msg.raw", "", None, '{"j":1}'))
        seen: list[RunRecord] = []
        waiting = threading.Thread(target=lambda: seen.append(bot.transport.wait(cancelled, 30.0)))
        waiting.start()
        until(lambda: bot.redis.pubsub_numsub("lumia:done")[0][1] == 1)
        assert bot.transport.cancel(cancelled, "not wanted") and not bot.transport.cancel(cancelled, "twice")
        waiting.join(10)
        assert [(one.outcome, one.reason, one.key) for one in seen] == [("cancelled", "not wanted", "web:group-a")]
        assert bot.inbox._inbox.bury(buried, "was not planned") and bot.inbox._inbox.bury(event, "nor this")
        ended = [bot.transport.run(run) for run in (buried, event)]
        assert [(one.state, one.outcome, one.flow) for one in ended] == [
            ("finished", "failed", "pipe"),
            ("finished", "failed", "event"),
        ]
        assert lumia.Box.load(ended[0].box, bot.runtime.secret).into() == {"n": 2}
        assert bot.redis.ttl(f"lumia:r:{buried}") > 0 and bot.redis.ttl(f"lumia:b:{buried}") > 0

    def test_one_without_dedup_text_that_was_cancelled_is_not_kept_again(self, bot: Bot) -> None:
        kept = Kept(new_id(), "", bot.asked(1).kept(bot.runtime).text)
        bot.transport.inbox.keep([kept])
        assert bot.transport.cancel(kept.run_id, "not wanted")
        assert bot.transport.inbox.keep([kept])[1] == [kept.run_id], "as when the first answer was lost"
        assert bot.transport.inbox.waiting()[0] == 0

    def test_one_that_is_begun_at_that_moment_can_be_cancelled(self, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
        (run,) = bot.keep(bot.asked(1))
        monkeypatch.setattr(bot.transport.kept, "_text", lambda run_id: bot.take() and None)
        assert bot.transport.cancel(run, "not wanted")
        monkeypatch.undo()
        bot.work()
        assert bot.heard() == [] and bot.transport.run(run).outcome == "cancelled"

    def test_one_that_cannot_be_started_is_a_dead_letter_and_the_others_go_on(self, bot: Bot) -> None:
        broken = Kept(new_id(), "broken", '{"f":"pipe","i":"msg","k":"web:group-a","b":"{\\"j\\":1}","a":[["x"]]}')
        bot.transport.inbox.keep([broken])
        bot.keep(bot.asked(2))
        bot.take()
        bot.work()
        assert bot.heard() == [2]
        (letter,) = bot.transport.dead(DeadFilter())
        assert letter.run_id == broken.run_id and "could not be started" in letter.error
        assert [entry.kind for entry in bot.journal(broken.run_id)] == ["start", "dead", "end"]

    def test_its_letter_can_be_retried(self, bot: Bot) -> None:
        (run,) = bot.keep(bot.asked(1, priority=6))
        assert bot.inbox._inbox.bury(run, "was not planned")
        (letter,) = bot.transport.dead(DeadFilter())
        assert letter.priority == 6
        retried = revival.retry(bot.runtime, replace(letter, priority=3))
        bot.work()
        assert bot.heard() == [1] and bot.transport.run(retried).outcome == "done"
        assert bot.transport.dead(DeadFilter()) == []

    def test_a_retry_of_its_letter_begins_the_events_beside_it_too(self, bot: Bot) -> None:
        raw = [("msg.raw", lumia.Box.any("bytes")), ("msg.unheard", lumia.Box.any("nobody"))]
        (run,) = bot.keep(bot.asked(1, also=raw, priority=6))
        assert bot.inbox._inbox.bury(run, "was not planned")
        (letter,) = bot.transport.dead(DeadFilter())
        assert [id for id, _ in letter.beside] == ["msg.raw", "msg.unheard"]
        assert "a retry also begins msg.raw, msg.unheard" in "\n".join(as_lines(bot.runtime, letter))
        assert as_json(bot.runtime, letter)["beside"] == ["msg.raw", "msg.unheard"]
        revival.retry(bot.runtime, letter)
        assert bot.redis.llen("default:6") == 2
        bot.work("default:6")
        assert bot.heard() == [1] and lumia.store.of("ear").items("raw") == ["bytes"]
        with pytest.raises(lumia.errors.DeadLetterError, match="gone"):
            revival.retry(bot.runtime, letter)
        assert lumia.store.of("ear").items("raw") == ["bytes"]

    @pytest.mark.parametrize(
        "text",
        [
            "no JSON",
            "{}",
            "[]",
            '{"f":1,"i":2,"k":3,"b":4}',
            '{"f":"pipe","i":"msg","k":"","b":"{}","p":1e999}',
            '{"f":"pipe","i":"msg","k":"","b":"{}","a":[["x",1]]}',
            "[" * 100_000,
        ],
    )
    def test_a_text_that_nobody_can_read_holds_up_nobody(self, bot: Bot, text: str) -> None:
        strange = Kept(new_id(), "", text)
        bot.transport.inbox.keep([strange])
        bot.keep(bot.asked(2))
        bot.take()
        bot.work()
        (letter,) = bot.transport.dead(DeadFilter())
        assert bot.heard() == [2] and (letter.run_id, letter.box) == (strange.run_id, text)
        with pytest.raises(lumia.errors.DeadLetterError, match="can't be read"):
            revival.retry(bot.runtime, letter)

    def test_nor_does_one_that_is_no_text_at_all(self, bot: Bot) -> None:
        strange, _ = bot.keep(bot.asked(1), bot.asked(2))
        bot.redis.hset("lumia:kept", strange, b"\xff{")
        bot.take()
        bot.work()
        (letter,) = bot.transport.dead(DeadFilter())
        assert bot.heard() == [2] and letter.box == "\ufffd{"

    def test_a_plan_of_an_older_table_is_made_anew(self, bot: Bot) -> None:
        (run,) = bot.keep(bot.asked(1))
        bot.redis.hincrby("lumia:routes", "number", 1)
        assert bot.take() == 1 and bot.transport.inbox.waiting()[0] == 1
        assert bot.take() == 1 and bot.transport.inbox.waiting()[0] == 0
        bot.work()
        assert bot.heard() == [1] and bot.transport.run(run).outcome == "done"

    def test_what_the_broker_refuses_for_now_waits(self, bot: Bot) -> None:
        bot.keep(bot.asked(1), bot.asked(2))
        bot.redis.config_set("min-replicas-to-write", 1)
        try:
            with pytest.raises(BackendUnavailableError, match="bring its replicas back"):
                bot.take()
        finally:
            bot.redis.config_set("min-replicas-to-write", 0)
        bot.redis.execute_command("ACL", "SETUSER", "default", "-evalsha", "-eval")
        try:
            with pytest.raises(BackendUnavailableError, match="add the rule \\+evalsha"):
                bot.inbox._start([(bot.redis.lindex("lumia:inbox", 0).decode(), bot.asked(1).kept(bot.runtime).text)])
        finally:
            bot.redis.execute_command("ACL", "SETUSER", "default", "+evalsha", "+eval")
        assert bot.transport.dead(DeadFilter()) == [] and bot.transport.inbox.waiting()[0] == 2
        bot.take()
        bot.work()
        assert bot.heard() == [1, 2]

    def test_what_fails_in_the_middle_of_a_trip_is_not_overtaken(self, bot: Bot) -> None:
        known = bot.runtime.table.index.plan("pipe", "msg").digest
        (first,) = bot.keep(bot.asked(1))
        bot.take()
        bot.work()
        bot.redis.delete(f"lumia:plan:{known}")  # as when Redis has lost its last second
        one = bot.asked(2).kept(bot.runtime)
        other = Kept(new_id(), "", one.text.replace('"msg"', '"unheard"', 1))
        bot.transport.inbox.keep([one, other])
        assert bot.take() == 2 and bot.transport.inbox.waiting()[0] == 1, "the second one waits for the next trip"
        assert bot.take() == 1 and bot.transport.inbox.waiting()[0] == 0
        begun = [entry.run_id for entry in lumia.runs.tail("0", timeout=0, limit=1000) if entry.kind == "start"]
        assert begun == [first, one.run_id, other.run_id]

    def test_two_that_take_them_out_start_each_once(self, bot: Bot) -> None:
        bot.keep(*(bot.asked(n) for n in range(30)))
        waiting = bot.inbox._inbox.oldest()
        threads = [threading.Thread(target=lambda: _within(bot, waiting)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bot.work()
        assert bot.heard() == list(range(30))


def _within(bot: Bot, waiting: Sequence[tuple[str, str]]) -> None:
    with bot.runtime.activated():
        bot.inbox._start(waiting)


def test_doctor_tells_when_nobody_begins_what_was_accepted(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    bot.keep(bot.asked(1), bot.asked(2))
    with connected(bot.transport.url) as redis:
        assert list(check_inbox(redis)) == []
        monkeypatch.setattr(check, "LATE", -1.0)
        (found,) = check_inbox(redis)
        assert found.message.startswith("2 accepted and not begun, the first one for 0 s")
        bot.take()
        assert list(check_inbox(redis)) == []


class TestThread:
    def test_it_starts_what_comes_at_once_and_hands_on_when_it_ends(
        self, bot: Bot, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "LISTEN_SECONDS", 30.0)
        bot.inbox.start()
        until(lambda: bot.redis.pubsub_numsub("lumia:mail")[0][1] == 1)
        bot.keep(bot.asked(1))
        until(lambda: bot.transport.inbox.waiting()[0] == 0)
        bot.keep(bot.asked(2))
        until(lambda: bot.transport.inbox.waiting()[0] == 0)
        monkeypatch.setattr(module, "LISTEN_SECONDS", 0.01)
        bot.keep(bot.asked(3))
        bot.inbox.stop()
        assert bot.transport.lease(module.LEASE, "another", 5.0)

    def test_a_broken_connection_is_made_anew(self, bot: Bot) -> None:
        bot.inbox.start()
        try:
            until(lambda: bot.redis.pubsub_numsub("lumia:mail")[0][1] == 1)
            bot.redis.client_kill_filter(_type="pubsub")
            until(lambda: bot.redis.pubsub_numsub("lumia:mail")[0][1] == 1)
            bot.keep(bot.asked(1))
            until(lambda: bot.transport.inbox.waiting()[0] == 0)
        finally:
            bot.inbox.stop()

    def test_a_process_in_which_it_fails_lets_another_one_try(
        self, bot: Bot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(bot.inbox._inbox, "oldest", lambda: 1 // 0)
        bot.inbox.start()
        try:
            until(lambda: "ZeroDivisionError" in caplog.text)
            until(lambda: bot.transport.lease(module.LEASE, "another", 5.0), timeout=2)
            until(lambda: bot.redis.pubsub_numsub("lumia:mail")[0][1] == 0)
        finally:
            bot.inbox.stop()


names = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)


@given(names, names, st.sampled_from([None, 0, 3, 9]), names, st.lists(st.tuples(names, names), max_size=3))
def test_what_is_written_is_json_that_reads_the_same(
    id: str, key: str, priority: int | None, box: str, also: list[tuple[str, str]]
) -> None:
    text = inbox.write("event", id, key, priority, box, also)
    found = json.loads(text)
    assert (found["f"], found["i"], found["k"], found["b"]) == ("event", id, key, box)
    assert inbox.head(text) == ("event", id, key, box, found.get("p", 3))
    assert found.get("p", 3) == (3 if priority is None else priority)
    assert [tuple(row) for row in found.get("a", [])] == also


def test_what_lua_writes_reads_as_what_python_writes(bot: Bot) -> None:
    content, raw = lumia.Box.any({"n": 'ü "/\\ \n€😀'}, meta={"chat": "a"}), lumia.Box.any("/ä")
    asked = lumia.pipe.ask("msg", content, key="web:ä/b", dedup="x", priority=6, also=[("msg.raw", raw)])
    kept = asked.kept(bot.runtime)
    bot.keep(bot.asked(1))
    (request,) = bot.transport.start_each([asked.requests(bot.runtime, bot.runtime.table)])
    stored = bot.redis.hget("lumia:kept", request[0].run_id).decode()
    assert json.loads(stored) == json.loads(kept.text)
    read: list[RunRequest] = inbox.read("r1", stored, bot.runtime, bot.runtime.table, 1.0)
    assert [(one.id, one.key, one.priority) for one in read] == [("msg", "web:ä/b", 6), ("msg.raw", "", 6)]
