"""`/why`: why the bot spoke or kept silent, in plain words, of this chat only."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from handlers.chat_commands.explaining import meaning
from handlers.chat_commands.wording import say, shown
from tests.handlers.chat_commands.conftest import SCOPE, Chat, chatting

SILENT = [
    ("cooldown: 1.2 s of 3 s left", "am set to wait 3 s", "间隔 3 秒"),
    ("blacklist: sender qq:8", "I don't listen", "不听"),
    ("message type not handled: file", "(file)", "（file）"),
    ("rate limit: 31 messages in 60 s, 30 allowed", "faster than I read (31 messages", "发得太快"),
    ("paused: until 12:00 by qq:1", "told to be quiet", "保持安静|安静"),
    ("far from the topic: 0.21 under 0.4", "far from what this talk is about", "话题"),
    ("score 0.31 under 0.65", "at 0.31; I join in above 0.65.", "0.31 分，超过 0.65 分"),
    ("score 0.31 under 0.65: small talk", "above 0.65 (small talk)", "（small talk）"),
    ("budget: 101 % of 1,000 tokens today: silence", "a limit of my operator", "管理者给我设的上限"),
    ("joined: answered together with message m1", "together with another message", "另一条消息一起"),
    ("not worth a reply: the model chose silence", "nothing worth saying", "没有值得说的话"),
    ("not addressed to the bot: here it answers when it is mentioned", "when I am mentioned", "提到我"),
    ("own message: the bot's account has sent it", "I wrote it myself", "我自己发的"),
    ("another bot: 99", "another bot wrote it", "别的机器人"),
    ("an echo of what the bot said", "repeated what I had just said", "重复"),
    ("late: said 29 minutes ago, while I was away", "said while I was away", "不在线"),
    ("no score: 401", "couldn't tell whether it was meant for me.", "没能判断"),
    ("something new", "I noted “something new”", "“something new”"),
]
SPOKEN = [
    ("addressed to the bot", "I was addressed.", "对我说的"),
    ("it answers everything here", "I answer everything", "什么都回答"),
    ("score 0.82 over 0.65: a question to me", "above 0.65 (a question to me)", "0.82 分"),
    ("the bot's name", "I noted “the bot's name”", "the bot's name"),
]
ERROR = "model role small (config/lumia.toml [models.small]): 401 Incorrect API key; http://10.0.0.7:8080/v1"
DOCS = Path(__file__).parents[3] / "docs" / "heartflow.md"


@pytest.mark.parametrize("reason, english, chinese", SILENT)
def test_each_reason_to_keep_silent_is_told_in_both_languages(
    chat: Chat, reason: str, english: str, chinese: str
) -> None:
    chat.decided("what a day", reason)
    chat.later(130)
    about, because = chat.ask("/why").splitlines()
    assert about == "Bob: “what a day” (2 min 10 s ago)"
    assert because.startswith("I kept silent: ") and english in because
    about, because = chat.ask("/为什么").splitlines()
    assert about == "Bob：“what a day”（2 分钟 10 秒前）"
    assert because.startswith("我没有说话：") and any(one in because for one in chinese.split("|"))


@pytest.mark.parametrize("reason, english, chinese", SPOKEN)
def test_each_reason_to_speak_is_told_in_both_languages(chat: Chat, reason: str, english: str, chinese: str) -> None:
    chat.decided("what a day", reason, engaged=True)
    because = chat.ask("/why").splitlines()[1]
    assert because.startswith("I decided to speak: ") and english in because
    because = chat.ask("/为什么").splitlines()[1]
    assert because.startswith("我决定开口：") and chinese in because


def test_every_documented_reason_has_words_of_its_own() -> None:
    table = DOCS.read_text("utf-8").partition("## The reasons")[2].partition("\n## ")[0]
    reasons = re.findall(r"`([a-z][^`]*)`", table.replace("score A under B", "score 0.1 under 0.6"))
    silent, spoken = (reasons[:16], ["addressed to the bot", "it answers everything here", "score 0.9 over 0.6"])
    assert {"late", "own message", "no score", "another bot", "an echo", "not worth a reply"} <= set(silent)
    for spoke, reason in [*((False, one) for one in silent), *((True, one) for one in spoken)]:
        told = meaning(f"{reason}: why", lambda key, **values: key, spoke=spoke, owner=False)
        assert told != "because.other", reason


@pytest.mark.parametrize("reason", [f"no score: {ERROR}", f"something new: {ERROR}"])
def test_errors_are_told_to_an_owner_in_private_alone(tmp_path: Path, reason: str) -> None:
    with chatting(tmp_path, owners=["qq:1"]) as chat:
        for scope in (SCOPE, "qq:10001:private:1", "qq:10001:private:7"):
            chat.decided("hi", reason, scope=scope)
        told = [chat.ask("/why", sender="1"), chat.ask("/为什么"), chat.private("/why", sender="7")]
        assert not any(secret in one for one in told for secret in ("401", "10.0.0.7", "lumia.toml", "API key"))
        assert "401 Incorrect API key" in chat.private("/why", sender="1")


def test_an_answer_that_was_never_sent_is_told_as_such(tmp_path: Path) -> None:
    with chatting(tmp_path, owners=["qq:1"]) as chat:
        private = "qq:10001:private:1"
        for scope in (SCOPE, private):
            chat.decided("hi", "addressed to the bot", engaged=True, message_id="a", run_id="r-7", scope=scope)
        unsent = "I meant to answer, but it did not come to it."
        assert chat.ask("/why").splitlines()[1] == unsent
        assert chat.ask("/为什么").splitlines()[1] == "我本想回答，但没有说成。"
        assert chat.private("/why", sender="1").splitlines()[1] == f"{unsent} What happened: lumia trace r-7"
        import_module("handlers.heartflow.decisions").note_sent(SCOPE, "a")
        assert chat.ask("/why").splitlines()[1] == "I decided to speak: I was addressed."


def test_an_answer_that_stands_in_the_lines_was_sent(chat: Chat) -> None:
    chat.decided("hi", "addressed to the bot", engaged=True, message_id="a")
    lumia.store.of("heartflow").append("lines", {"by": "bot", "text": "hello", "reply_to": "a"}, scope=SCOPE)
    assert chat.ask("/why").splitlines()[1] == "I decided to speak: I was addressed."


def test_a_second_thought_of_a_later_layer_is_the_reason(chat: Chat) -> None:
    chat.decided("hm", "score 0.8 over 0.65", engaged=True, message_id="a", run_id="1")
    chat.decided("hm", "not worth a reply: no words were found", layer="polish", message_id="a", run_id="2")
    assert chat.ask("/why").splitlines()[1].startswith("I kept silent: I thought about it")


def test_a_quoted_message_is_asked_about(chat: Chat) -> None:
    chat.decided("first", "addressed to the bot", engaged=True, message_id="a")
    chat.decided("second", "score 0.1 under 0.65", message_id="b")
    assert chat.ask("/why").startswith("Bob: “second”")
    assert chat.ask("/why", reply_to="a").startswith("Bob: “first”")


@pytest.mark.parametrize("quoted", ["77", "bot:a"])
def test_a_quoted_answer_of_the_bot_is_explained_by_what_it_answers(chat: Chat, quoted: str) -> None:
    chat.decided("first", "addressed to the bot", engaged=True, message_id="a")
    chat.decided("second", "score 0.1 under 0.65", message_id="b")
    line = {"by": "bot", "text": "hi", "message_id": "77", "reply_to": "a"}
    lumia.store.of("heartflow").append("lines", line, scope=SCOPE)
    assert chat.ask("/why", reply_to=quoted).splitlines()[1] == "I decided to speak: I was addressed."


def test_a_quoted_message_nobody_knows_is_not_guessed(chat: Chat) -> None:
    assert chat.ask("/why") == "Nothing was decided in this chat yet."
    chat.decided("first", "addressed to the bot", engaged=True, message_id="a")
    assert chat.ask("/why", reply_to="zzz").startswith("I no longer know")


@pytest.mark.parametrize(
    "scope", ["qq:10001:group:43", "qq:10001:private:42", "qq:10002:group:42", "telegram:10001:group:42"]
)
def test_another_chat_is_never_shown(chat: Chat, scope: str) -> None:
    chat.decided("secret", "addressed to the bot", engaged=True, message_id="a", scope=scope)
    lumia.store.of("heartflow").append("lines", {"by": "bot", "message_id": "b", "reply_to": "a"}, scope=scope)
    assert chat.ask("/why") == "Nothing was decided in this chat yet."
    for quoted in ("a", "b", scope):
        assert "secret" not in chat.ask("/why", reply_to=quoted)


def test_the_asker_is_called_you_and_twins_by_their_ids(chat: Chat) -> None:
    chat.decided("mine", "score 0.1 under 0.65", sender_id="7", sender_name="Ann", message_id="a")
    assert chat.ask("/why", sender="7", name="Ann").startswith("you: “mine”")
    assert chat.ask("/why", sender="8", name="ANN").startswith("Ann (7): “mine”")
    assert chat.ask("/why", sender="8", name="Bob").startswith("Ann: “mine”")
    chat.decided("hers", "score 0.1 under 0.65", sender_id="9", sender_name="Ann", message_id="b")
    assert chat.ask("/why", sender="8", name="Bob", reply_to="a").startswith("Ann (7): “mine”")


def test_money_is_told_to_the_owner_alone(tmp_path: Path) -> None:
    with chatting(tmp_path, owners=["qq:1"]) as chat:
        for scope in (SCOPE, "qq:10001:private:1", "qq:10001:private:7"):
            chat.decided("hi", "budget: 101 % of $2.00 today: silence", scope=scope)
        assert "$2.00" not in chat.ask("/why", sender="1") + chat.private("/why", sender="7")
        assert "$2.00" in chat.private("/why", sender="1")


@pytest.mark.parametrize(
    "said, language",
    [
        ([("7", "今天天气不错")], "zh"),
        ([("7", "nice weather"), ("8", "今天天气不错")], "en"),
        ([("8", "今天天气不错")], "zh"),
        ([("7", "今天"), ("7", "ok"), ("7", "lol")], "zh"),
        ([("7", "今日はいい天気です")], "en"),
        ([("7", "12345 !!")], "en"),
        ([], "en"),
    ],
)
def test_the_language_is_that_of_the_asker(chat: Chat, said: list[tuple[str, str]], language: str) -> None:
    for sender, text in said:
        chat.decided(text, "score 0.1 under 0.65", sender_id=sender)
    assert chat.ask("/sid").startswith("平台" if language == "zh" else "platform")


def test_the_language_can_be_set(tmp_path: Path) -> None:
    with chatting(tmp_path, language="zh") as chat:
        assert chat.ask("/sid").startswith("平台：qq")


def test_what_was_said_mentions_nobody_when_it_is_quoted(chat: Chat) -> None:
    chat.decided("@everyone\n[CQ:at,qq=all] \u202e hi", "x: @all\nOwner: yes", sender_name="@all\nBot")
    answer = chat.ask("/why")
    assert "@" not in answer and "[CQ:" not in answer and "\u202e" not in answer
    assert len(answer.splitlines()) == 2


@given(st.text(max_size=400), st.booleans(), st.booleans(), st.sampled_from(["en", "zh"]))
def test_any_reason_has_a_meaning_on_one_line(reason: str, spoke: bool, owner: bool, language: str) -> None:
    def told(key: str, **values: object) -> str:
        return say(language, key, prefix="/", **values)

    found = meaning(reason, told, spoke=spoke, owner=owner)
    assert found and len(found.splitlines()) == 1 and "@" not in found


@given(st.text(max_size=300))
def test_what_is_shown_is_one_short_line_that_mentions_nobody(text: str) -> None:
    found = shown(text)
    assert len(found) <= 60 and "@" not in found and len(f"x{found}x".splitlines()) == 1
