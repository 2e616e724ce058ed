"""What the bot says: quotes, mentions, files, edits, deletions, and what the server's answers mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lumia
from lumia.adapters import receipts, sends
from lumia.testing import Bot, ManualClock
from tests.adapters.satori.conftest import SATORI
from tests.peers.satori import Fault, Satori

DEST = "msg.send, dest=7.satori.group-12"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
CHAT = {"kind": "group", "id": "12"}


@contextmanager
def bot_of(satori: Satori, **settings: Any) -> Iterator[Bot]:
    table = {key: value for key, value in {**satori.settings, **settings}.items() if value is not None}
    with Bot(SATORI, config={"satori": {"accounts": {"main": table}}}, clock=ManualClock()) as bot:
        yield bot


@pytest.fixture
def bot(satori: Satori) -> Iterator[Bot]:
    with bot_of(satori) as running:
        yield running


def say(bot: Bot, content: Any, dest: str = DEST, account: str = "main") -> None:
    lumia.event.start(dest, lumia.Box.any(content, meta={"account": account} if account else {}))
    bot.settle()


def contents(satori: Satori, channel: str = "12") -> list[str]:
    return [one["content"] for one in satori.messages[channel]]


def states() -> dict[str, int]:
    return sends.counts("satori", "main")


def asked(satori: Satori, method: str) -> list[Any]:
    return [one for one in satori.asked if one.path == f"{satori.path}/v1/{method}"]


def test_quote_mention_and_text_are_elements(bot: Bot, satori: Satori) -> None:
    segments = [
        {"type": "mention", "data": {"id": "5", "name": "Ada"}},
        {"type": "text", "data": {"text": " 1 < 2\n& so on"}},
        {"type": "mention_all", "data": {}},
        {"type": "emoji", "data": {"id": "13", "name": "smile"}},
    ]
    say(bot, {"segments": segments, "reply_to": "m1"})
    assert contents(satori) == [
        '<quote id="m1"/><at id="5" name="Ada"/> 1 &lt; 2<br/>&amp; so on<at type="all"/><emoji id="13" name="smile"/>'
    ]
    headers = asked(satori, "message.create")[0].headers
    assert (headers["satori-platform"], headers["satori-user-id"]) == ("mock", "9")
    assert headers["authorization"] == f"Bearer {satori.token}"


def test_a_long_text_comes_in_parts_and_a_retry_goes_on_with_the_rest(bot: Bot, satori: Satori) -> None:
    satori.fail("message.create", Fault(), Fault(429, headers={"Retry-After": "3"}))
    say(bot, {"text": "word " * 1000})
    assert len(contents(satori)) == 1 and states() == {"retrying": 1}
    bot.settle(4.0)
    assert len(contents(satori)) == 3 and states() == {"sent": 1}
    assert "".join(contents(satori)).count("word") == 1000


def test_a_file_is_handed_over_first(bot: Bot, satori: Satori) -> None:
    blob = lumia.blobs.put(PNG, "image/png").as_dict()
    image = {"type": "image", "data": {"blob": blob, "name": "a.png"}}
    say(bot, {"segments": [{"type": "text", "data": {"text": "look"}}, image]})
    (address,) = satori.files
    assert satori.files[address] == ("image/png", PNG)
    assert contents(satori) == [f'look<img src="{address}" title="a.png"/>']
    satori.without.add("upload.create")
    say(bot, {"segments": [image]})
    assert contents(satori)[1].startswith('<img src="data:image/png;base64,iVBOR')


def test_a_file_that_can_not_be_handed_over_now_costs_no_doubt(bot: Bot, satori: Satori) -> None:
    blob = lumia.blobs.put(PNG, "image/png").as_dict()
    satori.fail("upload.create", Fault(cut="after"))
    say(bot, {"segments": [{"type": "image", "data": {"blob": blob}}]})
    assert (contents(satori), states()) == ([], {"retrying": 1})
    bot.settle(60.0)
    assert len(contents(satori)) == 1 and states() == {"sent": 1}


def test_edits_and_deletions(bot: Bot, satori: Satori) -> None:
    say(bot, "first")
    sent = satori.messages["12"][0]["id"]
    assert receipts.sent("satori", "main", CHAT, sent) is not None
    lumia.adapters.edit(DEST, sent, "second & last", account="main")
    bot.settle()
    assert contents(satori) == ["second &amp; last"]
    lumia.adapters.delete(DEST, sent, account="main")
    bot.settle()
    assert contents(satori) == []


def test_what_a_platform_can_not_do_is_told(bot: Bot, satori: Satori) -> None:
    satori.without.add("message.update")
    lumia.adapters.edit(DEST, "s1", "new", account="main")
    bot.settle(600.0)
    assert len(asked(satori, "message.update")) == 1
    (letter,) = bot.dead
    assert "has no message.update" in str(letter)


@pytest.mark.parametrize(
    "fault, state", [(Fault(500, "boom"), "held"), (Fault(504), "held"), (Fault(cut="before"), "held"),
                     (Fault(400, "bad"), "rejected"), (Fault(401), "rejected"), (Fault(501), "rejected")]
)  # fmt: skip
def test_what_an_answer_means(bot: Bot, satori: Satori, fault: Fault, state: str) -> None:
    satori.fail("message.create", fault)
    say(bot, "once")
    bot.settle(600.0)
    assert states() == {state: 1} and len(asked(satori, "message.create")) == 1


def test_with_on_unknown_retry_it_is_sent_again(satori: Satori) -> None:
    with bot_of(satori, on_unknown="retry") as bot:
        satori.fail("message.create", Fault(500))
        say(bot, "twice perhaps")
        bot.settle(60.0)
        assert contents(satori) == ["twice perhaps"] and states() == {"sent": 1}


def test_the_owner_is_written_to_in_a_channel_that_is_opened_once(satori: Satori) -> None:
    with bot_of(satori, owner="5") as bot:
        for text in ("one", "two"):
            say(bot, text, "msg.send, dest=7.satori.private-5")
        assert contents(satori, "private:5") == ["one", "two"]
        assert len(asked(satori, "user.channel.create")) == 1


def test_an_account_of_a_server_is_found_by_its_name(satori: Satori) -> None:
    satori.logins.append(satori.login("matrix", "@bot:x/y", "M"))
    with bot_of(satori, platform=None, self_id=None) as bot:
        say(bot, "hello", account="main/matrix/@bot:x%2Fy")
        assert asked(satori, "message.create")[-1].headers["satori-user-id"] == "@bot:x/y"
        say(bot, "who?", account="")
        assert contents(satori) == ["hello"] and states()["rejected"] == 1
        lumia.store.of("satori").set("logins", [["mock", "9"]], scope="main")
        say(bot, "the only one", account="")
        assert contents(satori) == ["hello", "the only one"]


def test_the_referrer_of_a_message_goes_back_with_the_answer(bot: Bot, satori: Satori) -> None:
    from adapters.satori import delivery

    delivery.keep_referrer("main", "12", {"event": {"id": "e1"}})
    say(bot, "passive")
    assert asked(satori, "message.create")[0].body["referrer"] == {"event": {"id": "e1"}}


def test_nothing_to_show_is_refused(bot: Bot, satori: Satori) -> None:
    say(bot, {"segments": [{"type": "reply", "data": {"id": "m1"}}]})
    assert states() == {"rejected": 1} and not asked(satori, "message.create")


def checked(name: str) -> lumia.adapters.Checked:
    from adapters.satori import checking  # the running bot's: a plugin is imported anew when it is loaded

    return checking.check(name)


def test_the_check_says_who_the_logins_are(satori: Satori) -> None:
    satori.logins.append(satori.login("discord", "80", "Off", status=0))
    with bot_of(satori):
        assert checked("main") == lumia.adapters.Checked(True, "Bot (mock 9)")
    with bot_of(satori, platform=None, self_id=None):
        told = checked("main")
        assert told.ok and told.detail.endswith("Off (discord 80)") and "Bot (mock 9)" in told.identity
        assert checked("main/mock/9").ok and not checked("main/discord/80").ok
    with bot_of(satori, token="wrong"):
        assert "look at token" in checked("main").detail
