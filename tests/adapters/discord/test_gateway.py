"""The Gateway: what is said arrives once and in order, whatever becomes of the connection."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

import lumia
from adapters.discord.accounts import Account
from adapters.discord.feed import BLIND
from adapters.discord.identify import Starts
from lumia.errors import BackendUnavailableError, LaneFullError
from tests.adapters.discord.conftest import DISCORD, EVERY, SETTLE, Start, answer
from tests.peers.discord import ADA, BOT_ROLE, ME, TOKEN, Discord
from tests.support.gateway import Served
from tests.support.wait import until


def answered(discord: Discord, *texts: str, channel: str = "") -> None:
    where = channel or discord.channel
    wanted = [f"you said: {text}" for text in texts]
    until(lambda: len(discord.rest.posted(where)) >= len(wanted), what=f"{wanted}, got {discord.rest.posted(where)}")
    assert discord.rest.posted(where) == wanted


def state(site: Served) -> tuple[str, str]:
    known = [info for info in lumia.adapters.accounts() if info.account == "main"]
    return (known[0].state, known[0].detail) if known else ("", "")


def test_a_message_is_answered_and_what_the_bot_writes_is_not(discord: Discord, start: Start) -> None:
    with start() as site:
        discord.say("hello")
        answered(discord, "hello")
        discord.say("again")
        answered(discord, "hello", "again")
        until(lambda: state(site) == ("connected", "as lumia-bot"), what="the state")
    identify = discord.gateway.identifies[0]
    assert (identify["intents"], identify["token"]) == (37377, TOKEN)
    assert "shard" not in identify


def test_direct_messages_and_threads_are_answered_where_they_were_said(discord: Discord, start: Start) -> None:
    with start():
        discord.say("psst", channel=discord.dm)
        answered(discord, "psst", channel=discord.dm)
        discord.say("found it", channel=discord.thread)
        answered(discord, "found it", channel=discord.thread)


def test_bots_and_webhooks_are_not_listened_to(discord: Discord, start: Start) -> None:
    with start():
        discord.say("beep", by={**ADA, "id": "77", "bot": True})
        discord.say("deployed", webhook_id="88")
        discord.say("joined", type=7)
        discord.say("hello")
        answered(discord, "hello")


def test_a_role_of_the_bot_and_a_reply_to_it_mention_it(discord: Discord, start: Start) -> None:
    seen: list[dict[str, Any]] = []

    @lumia.pipe.on("msg")
    def look(content: lumia.Box[dict[str, Any]]) -> None:
        seen.append(content.into())

    with start(look):
        discord.say(f"<@&{BOT_ROLE}> hm", mention_roles=[BOT_ROLE])
        reference = {"type": 0, "message_id": "5", "channel_id": discord.channel}
        discord.say("hm", type=19, message_reference=reference, referenced_message={"author": ME})
        discord.say("hm")
        until(lambda: len(seen) == 3)
    assert [(msg["text"], msg["mentions_bot"]) for msg in seen] == [("@Lumia hm", True), ("hm", True), ("hm", False)]
    assert seen[0]["chat"] == {"kind": "group", "id": discord.channel, "name": "general"}


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("how", ["reconnect", "cut", "close", "op 9 true"])
def test_it_resumes_and_misses_nothing(discord: Discord, start: Start, how: str, compress: bool) -> None:
    with start(compress=compress):
        discord.say("before")
        answered(discord, "before")
        act: dict[str, Callable[[], None]] = {
            "reconnect": discord.gateway.reconnect,
            "cut": discord.gateway.cut,
            "close": lambda: discord.gateway.end(4000),
            "op 9 true": lambda: discord.gateway.invalidate(resumable=True),
        }
        act[how]()
        discord.say("meanwhile")
        answered(discord, "before", "meanwhile")
        until(lambda: discord.gateway.resumes)
    assert len(discord.gateway.identifies) == 1
    assert set(discord.gateway.resumed_at) == {"/resume"}
    assert not {1000, 1001} & set(discord.gateway.closes)


def test_a_frame_cut_anywhere_is_sent_again(discord: Discord, start: Start) -> None:
    with start(compress=False):
        said = [f"cut {at}" for at in (0, 1, 2, 3, 4, 5, 100, 500)]
        for number, at in enumerate((0, 1, 2, 3, 4, 5, 100, 500)):
            discord.say(said[number], only=at)
            answered(discord, *said[: number + 1])
            until(lambda: discord.gateway.ready)


def test_a_lost_session_is_begun_anew(discord: Discord, start: Start) -> None:
    with start():
        discord.gateway.invalidate(resumable=False)
        until(lambda: len(discord.gateway.identifies) == 2, timeout=15)
        discord.say("back")
        answered(discord, "back")


def test_heartbeats_tell_what_is_stored_and_are_sent_when_asked_for(discord: Discord, start: Start) -> None:
    discord.gateway.interval = 60_000
    with start():
        discord.say("hello")
        answered(discord, "hello")
        discord.gateway.ask_heartbeat()
        session = next(iter(discord.gateway.sessions.values()))
        until(lambda: discord.gateway.beats)
        discord.gateway.ask_heartbeat()
        until(lambda: len(discord.gateway.beats) == 2)
        assert session.acked == session.seq


def test_a_connection_that_answers_no_heartbeat_is_left_and_resumed(discord: Discord, start: Start) -> None:
    discord.gateway.interval, discord.gateway.ack = 150, False
    with start():
        until(lambda: len(discord.gateway.resumes) >= 1)
        discord.gateway.ack = True
        discord.say("still there")
        answered(discord, "still there")
    assert 4000 in discord.gateway.closes
    assert not {1000, 1001} & set(discord.gateway.closes)


@pytest.mark.parametrize(
    "code, told", [(4004, "Reset Token"), (4014, "Message Content Intent"), (4013, "intents"), (4011, "shards")]
)
def test_what_discord_refuses_is_told_and_not_tried_again(
    discord: Discord, start: Start, code: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    discord.gateway.refuse.append(code)
    with start() as site:
        until(lambda: state(site)[0] == "refused", what=str(state(site)))
        assert told in state(site)[1]
        assert discord.gateway.connections == 1
        site.bot.runtime.config.settings("discord").accounts = {"main": {**discord.settings, "intents": 513}}  # type: ignore[union-attr]
        until(lambda: discord.gateway.ready, what="the changed settings to be tried")
    assert discord.gateway.identifies[-1]["intents"] == 513


def test_what_was_put_right_at_discord_is_found_without_a_change_here(
    discord: Discord, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    discord.gateway.refuse.append(4014)
    with start(enabled=False) as site:
        monkeypatch.setattr("lumia.adapters.keeping.REFUSED_PAUSE", 0.2)
        site.bot.runtime.config.settings("discord").accounts = {"main": discord.settings}  # type: ignore[union-attr]
        until(lambda: discord.gateway.ready, what="the next try is made")
        until(lambda: state(site)[0] == "connected")


def test_a_token_that_the_api_refuses_is_told(discord: Discord, start: Start) -> None:
    discord.gateway.refuse.append(0)  # not waited for
    with start(token="wrong") as site:
        until(lambda: state(site)[0] == "refused")
        assert "[accounts.main]" in state(site)[1]
    assert discord.gateway.connections == 0


def test_without_message_content_it_is_told_once(
    discord: Discord, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with start(intents=37377 & ~(1 << 15)) as site:
        discord.say("one")
        discord.say("two")
        discord.say(f"<@{ME['id']}> three", mentions=[ME])
        answered(discord, "@Lumia three")
        assert state(site) == ("connected", BLIND) or until(lambda: state(site)[1] == BLIND)
    assert caplog.text.count("Message Content Intent") == 1


def test_other_events_reach_who_consumes_them(discord: Discord, start: Start) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    @lumia.event.consumer_re("discord.message_*")
    def look(src: str, content: lumia.Box[dict[str, Any]]) -> None:
        seen.append((src, content.into()))

    with start(look, answer):
        said = discord.say("helo")
        answered(discord, "helo")
        discord.gateway.dispatch("MESSAGE_UPDATE", {**said, "content": "hello"})
        reaction = {
            "user_id": ADA["id"],
            "channel_id": discord.channel,
            "message_id": said["id"],
            "emoji": {"name": "👍"},
        }
        discord.gateway.dispatch("MESSAGE_REACTION_ADD", {**reaction, "guild_id": discord.guild})
        discord.gateway.dispatch("MESSAGE_REACTION_ADD", {**reaction, "user_id": ME["id"]})
        gone = {"id": said["id"], "channel_id": discord.channel, "guild_id": discord.guild}
        discord.gateway.dispatch("MESSAGE_DELETE", gone)
        discord.gateway.dispatch("TYPING_START", {"channel_id": discord.channel})
        until(lambda: any(src == "discord.message_delete" for src, _ in seen), what=str(seen))
    told = [src for src, _ in seen if src != "discord.message_create"]
    assert told == ["discord.message_update", "discord.message_reaction_add", "discord.message_delete"]
    assert dict(seen)["discord.message_update"]["content"] == "hello"


class Broker:
    """Lets the broker be away for messages, or a lane be full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.away, self._submit = False, lumia.adapters.submit
        self._error = error or BackendUnavailableError("the broker is away")
        self.refused = 0
        monkeypatch.setattr(lumia.adapters, "submit", self.submit)

    async def submit(self, *args: Any, **kwargs: Any) -> str:
        if self.away:
            self.refused += 1
            raise self._error
        return await self._submit(*args, **kwargs)


@pytest.mark.parametrize("error", [BackendUnavailableError("it is away"), LaneFullError("lane x is full")])
def test_what_was_not_taken_is_not_told_to_discord_as_received(
    discord: Discord, start: Start, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    broker = Broker(monkeypatch, error)
    with start() as site:
        discord.say("before")
        answered(discord, "before")
        session = next(iter(discord.gateway.sessions.values()))
        until(lambda: lumia.store.of("discord").get("session", scope="main/0")["seq"] == session.seq)
        broker.away, stored = True, session.seq
        discord.say("meanwhile")
        discord.gateway.ask_heartbeat()
        until(lambda: discord.gateway.beats)
        assert discord.gateway.beats == [stored]
        discord.gateway.cut()
        until(lambda: discord.gateway.resumes)
        assert discord.gateway.resumes[0]["seq"] == stored
        assert discord.rest.posted(discord.channel) == ["you said: before"]
        until(lambda: f"holds 1 back: {error}" in state(site)[1], what="what is held to be shown")
        broker.away = False
        answered(discord, "before", "meanwhile")


@pytest.mark.parametrize("noticed", ["at once", "when it is resumed"])
def test_what_a_lost_session_has_sent_is_stored_although_nobody_sends_it_again(
    discord: Discord, start: Start, monkeypatch: pytest.MonkeyPatch, noticed: str
) -> None:
    broker = Broker(monkeypatch)
    with start():
        discord.say("before")
        answered(discord, "before")
        broker.away = True
        discord.say("meanwhile")
        until(lambda: broker.refused)
        if noticed == "at once":
            discord.gateway.invalidate(resumable=False)
        else:
            discord.gateway.forget = True
            discord.gateway.cut()
        until(lambda: not discord.gateway.ready, what="the session to be lost")
        broker.away = False
        until(lambda: len(discord.gateway.identifies) == 2, timeout=15)
        discord.say("after")
        answered(discord, "before", "meanwhile", "after")


def test_with_too_much_waiting_for_the_broker_the_connection_is_given_up_and_resumed(
    discord: Discord, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(monkeypatch)
    with start():
        monkeypatch.setattr("lumia.adapters.numbered.MOST", 6)
        monkeypatch.setattr("adapters.discord.shard.PATIENCE", 0.2)
        broker.away = True
        said = [f"message {number}" for number in range(20)]
        for text in said:
            discord.say(text)
        until(lambda: not discord.gateway.ready, what="the connection to be given up")
        broker.away = False
        until(lambda: len(discord.rest.posted(discord.channel)) >= 20, timeout=30)
        answered(discord, *said)


def test_a_message_that_comes_twice_is_one(discord: Discord, start: Start) -> None:
    with start():
        said = discord.say("once")
        discord.gateway.dispatch("MESSAGE_CREATE", said)
        discord.say("twice")
        answered(discord, "once", "twice")


def test_nonsense_is_passed_over(discord: Discord, start: Start) -> None:
    with start():
        for data in ({}, {"author": 5}, {"author": {"id": "1"}, "id": "x", "channel_id": None, "content": 7}):
            discord.gateway.dispatch("MESSAGE_CREATE", data)
            discord.gateway.dispatch("GUILD_ROLE_UPDATE", data)
            discord.gateway.dispatch("INTERACTION_CREATE", data)
        discord.say("hello")
        answered(discord, "hello")


def test_no_log_line_holds_the_token(discord: Discord, start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("lumia.discord.socket").setLevel(logging.INFO)
    with start():
        discord.say("hello")
        answered(discord, "hello")
        discord.gateway.reconnect()
        until(lambda: discord.gateway.resumes)
    assert TOKEN not in caplog.text


def test_shards_share_the_servers(discord: Discord, start: Start) -> None:
    with start(shards=2) as site:
        until(lambda: state(site) == ("connected", "2 shards"), timeout=15, what="both shards")
        assert sorted(tuple(identify["shard"]) for identify in discord.gateway.identifies) == [(0, 2), (1, 2)]


def test_no_session_is_started_when_discord_allows_no_more_today(discord: Discord, start: Start) -> None:
    discord.rest.starts = 0
    discord.gateway.refuse.append(0)  # not waited for
    with start() as site:
        until(lambda: "no session may be started for 3600 s" in state(site)[1], what="the limit to be told")
        assert discord.gateway.connections == 0


@pytest.mark.parametrize("concurrency, apart", [(1, True), (2, False)])
def test_sessions_of_one_key_are_started_one_after_the_other(
    discord: Discord, monkeypatch: pytest.MonkeyPatch, concurrency: int, apart: bool
) -> None:
    monkeypatch.setattr("adapters.discord.identify.EVERY", 0.2)
    discord.rest.concurrency = concurrency

    async def call(asking: Callable[..., Any], *args: Any) -> Any:
        return asking(*args)

    monkeypatch.setattr("lumia.gateway.call", call)

    async def scene() -> float:
        starts = Starts(Account("main", token=TOKEN, shards=2, api_url=discord.settings["api_url"]))
        await starts.url()
        began = time.monotonic()
        await asyncio.gather(starts.turn(0), starts.turn(1))
        return time.monotonic() - began

    with lumia.testing.Bot(DISCORD):
        assert (asyncio.run(scene()) >= 0.2) is apart


def test_it_waits_between_sessions_as_discord_asks_for() -> None:
    assert (SETTLE, EVERY) == ((1.0, 5.0), 5.0)
