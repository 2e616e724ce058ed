"""Each command in a chat: what it answers, who may give it, and that nothing else is touched."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lumia
from handlers.chat_commands.parsing import WORDS
from lumia.checks import findings
from tests.handlers.chat_commands.conftest import HANDLERS, SCOPE, Chat, chatting
from tests.lumia.replay.scripted import replayed, trees

STORE = lumia.store.of("heartflow")
FOR_ADMINS = ["reset", "stop", "resume", "model", "persona"]
FOR_ALL = ["help", "status", "sid", "why", "memory"]


def steps(run: Any) -> list[str]:
    return [step.handler for step in run.steps]


# --- what is a command, and what becomes of it


def test_a_command_is_answered_before_heartflow_and_ends_the_chain(chat: Chat) -> None:
    run = chat.say("/help")
    assert (run.outcome, run.reason, len(run.replies)) == ("stopped", "answered a command: help", 1)
    assert steps(run)[:2] == ["chat_commands.answer", "test.deliver"]
    assert "heartflow.filter_message" not in steps(run)


def test_the_answer_goes_back_where_it_was_asked_and_says_that_it_is_one(chat: Chat) -> None:
    chat.say("/sid", thread="t")
    ((to, content, meta),) = chat.sent
    assert to == "msg.send, dest=3.qq.group-42"
    assert (content["reply_to"], meta) == ("m1", {"account": "10001", "command": "sid", "thread": "t"})
    assert lumia.payloads.validate(to, content) == content


@pytest.mark.parametrize("text", ["hello", "/unknown", "/help@otherbot", "/etc/passwd", "say /help"])
def test_anything_else_is_passed_on_untouched(chat: Chat, text: str) -> None:
    run = chat.say(text)
    assert steps(run)[:2] == ["chat_commands.answer", "heartflow.filter_message"]
    assert next(step.outcome for step in run.steps) == "next"


def test_for_an_ordinary_message_nothing_is_read(chat: Chat) -> None:
    run = chat.say("nice weather today")
    step = next(one for one in lumia.runs.tail("0") if one.kind == "step" and one.run_id == run.run_id)
    assert (step.handler, step.detail.get("reads")) == ("chat_commands.answer", None)


def test_a_mention_of_the_bot_by_any_of_its_names_may_stand_before_it(chat: Chat) -> None:
    mentioned: dict[str, Any] = {
        "mentions_bot": True,
        "mentions": [{"id": "10001", "name": "小助手"}, {"id": "9", "name": "Cyd"}],
    }
    assert "qq:42" in chat.ask("@小助手 /sid", **mentioned)
    assert "qq:42" in chat.ask("@Lumia /sid")
    assert chat.say("@Cyd /sid", **mentioned).reason != "answered a command: sid"


def test_the_bots_own_echo_is_no_command(chat: Chat) -> None:
    assert steps(chat.say("/help", sender="10001"))[1] == "heartflow.filter_message"


def test_the_prefix_and_more_names_are_settings(tmp_path: Path) -> None:
    with chatting(tmp_path, prefix="!", names=["LumiaBot"]) as chat:
        assert chat.ask("!help@lumiabot").splitlines()[1].startswith("!help – ")
        assert steps(chat.say("/help"))[1] == "heartflow.filter_message"


def test_what_is_no_message_is_left_to_others(chat: Chat) -> None:
    assert steps(chat.bot.start("msg", [{"text": "/help"}]))[:2] == ["chat_commands.answer", "heartflow.filter_message"]
    assert steps(chat.bot.start("msg", {"text": "/help"}))[:2] == ["chat_commands.answer", "heartflow.filter_message"]


def test_a_platform_with_a_number_of_its_own_is_answered_there(chat: Chat) -> None:
    message = {"platform": "matrix", "account": "a", "chat": {"kind": "group", "id": "1"}, "sender": {"id": "7"}}
    chat.bot.start("msg", lumia.Box.any({**message, "text": "/sid", "message_id": "x"}, meta={"pid": 100}))
    assert [to for to, _, _ in chat.sent] == ["msg.send, dest=100.matrix.group-1"]


def test_others_can_ask_what_a_command_is(chat: Chat) -> None:
    claims = lumia.services.get("commands").claims
    message = {"platform": "qq", "account": "10001", "chat": {"kind": "group", "id": "42"}, "sender": {"id": "7"}}
    texts = ["/why", "@Lumia ／为什么", "hello", "/unknown", "/why@otherbot"]
    assert [claims({**message, "text": text}) for text in texts] == [True, True, False, False, False]
    assert not claims(["/why"]) and not claims(None)
    lumia.config.get("chat-commands").roles.why = "off"
    assert not claims({**message, "text": "/why"})


# --- who may


@pytest.mark.parametrize("role, allowed", [("", False), ("member", False), ("admin", True), ("owner", True)])
def test_in_a_group_admins_may(chat: Chat, role: str, allowed: bool) -> None:
    for command in FOR_ADMINS:
        run = chat.say(f"/{command}", role=role)
        reason = f"answered a command: {command}" if allowed else f"command not allowed: {command} needs admin"
        assert run.reason == reason
        assert (run.replies == [f"/{command} is for admins here."]) == (not allowed)
        chat.later(61)


def test_everyone_may_ask(chat: Chat) -> None:
    assert [chat.say(f"/{command}").reason for command in FOR_ALL] == [f"answered a command: {one}" for one in FOR_ALL]


def test_alone_with_the_bot_everyone_may_everything(chat: Chat) -> None:
    every = sorted(WORDS)
    runs = [chat.say(f"/{command}", chat={"kind": "private", "id": "7"}) for command in every]
    assert [run.reason for run in runs] == [f"answered a command: {command}" for command in every]


def test_owners_and_admins_are_named_with_their_platform(tmp_path: Path) -> None:
    with chatting(tmp_path, owners=["qq:1"], admins=["qq:2", "3", "telegram:4"]) as chat:
        lumia.config.get("chat-commands").roles.persona = "owner"
        reasons = [chat.say("/persona", sender=sender).reason for sender in "1234"]
        assert [reason.split(":")[0] for reason in reasons] == ["answered a command"] + ["command not allowed"] * 3
        reasons = [chat.say("/reset", sender=sender).reason for sender in "1234"]
        assert [reason.split(":")[0] for reason in reasons] == ["answered a command"] * 2 + ["command not allowed"] * 2


def test_whom_heartflow_tells_of_its_budget_is_an_owner(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lumia.services.get("response").owners() == ()
    monkeypatch.setattr(type(lumia.services.get("response")), "owners", lambda self: ("qq:1",))
    lumia.config.get("chat-commands").roles.reset = "owner"
    reasons = [chat.say("/reset", sender=sender, role="admin").reason for sender in "12"]
    assert reasons == ["answered a command: reset", "command not allowed: reset needs owner"]


def test_a_command_for_the_owner_is_so_in_private_chats_too(tmp_path: Path) -> None:
    with chatting(tmp_path, owners=["qq:1"]) as chat:
        lumia.config.get("chat-commands").roles.model = "owner"
        assert chat.private("/model") == "/model is for my owner here."
        assert chat.private("/model", sender="1").startswith("What answers in this chat:")


def test_a_role_the_platform_gives_holds_in_its_group_only(chat: Chat) -> None:
    lumia.config.get("chat-commands").roles.status = "owner"
    assert chat.say("/status", role="owner").reason == "command not allowed: status needs owner"


def test_a_command_that_is_off_is_none(chat: Chat) -> None:
    lumia.config.get("chat-commands").roles.sid = "off"
    assert steps(chat.say("/sid"))[1] == "heartflow.filter_message"
    assert "/sid" not in chat.ask("/help")


def test_who_may_not_is_told_once_a_minute_in_each_chat(chat: Chat) -> None:
    assert chat.say("/reset").replies == ["/reset is for admins here."]
    assert chat.say("/stop", sender="8").replies == []
    assert chat.say("/stop", chat={"kind": "group", "id": "43"}).replies == ["/stop is for admins here."]
    chat.later(61)
    assert chat.say("/stop").replies == ["/stop is for admins here."]


def test_who_is_on_a_blacklist_gets_nothing(chat: Chat) -> None:
    config = lumia.config.get("heartflow")
    config.blacklist = ["qq:7"]
    run = chat.say("/help")
    assert (run.reason, run.replies) == ("not listened to: sender qq:7 is on the blacklist, or a bot", [])
    config.blacklist, config.overrides = [], {"group": {"42": {"blacklist": ["8"]}}}
    assert chat.say("/help", sender="8").replies == []
    assert chat.say("/help", sender="7").replies != []


@pytest.mark.parametrize("named", ["7", "qq:7"])
def test_another_bot_gets_no_answer_to_a_command(chat: Chat, named: str) -> None:
    lumia.config.get("heartflow").bots = [named]
    assert chat.say("/help").replies == []
    assert chat.say("/help", chat={"kind": "private", "id": "7"}).replies == []
    assert chat.say("/help", sender="8").replies != []


def test_a_flood_of_one_sender_is_answered_ten_times_a_minute(chat: Chat) -> None:
    runs = [chat.say("/sid") for _ in range(25)]
    assert [len(run.replies) for run in runs] == [1] * 10 + [0] * 15
    assert runs[-1].reason == "rate limit: 10 commands in 60 s"
    assert chat.say("/sid", sender="8").replies
    chat.later(61)
    assert chat.say("/sid").replies


def test_a_flood_of_many_senders_is_bounded_for_the_chat(tmp_path: Path) -> None:
    with chatting(tmp_path, chat_rate_limit=5) as chat:
        runs = [chat.say("/sid", sender=str(number)) for number in range(100, 120)]
        assert sum(len(run.replies) for run in runs) == 5


def test_two_people_of_one_nickname_have_their_own_roles_and_counts(tmp_path: Path) -> None:
    with chatting(tmp_path, admins=["qq:7"], rate_limit=1) as chat:
        assert chat.say("/reset", sender="7", name="Ann").reason == "answered a command: reset"
        assert chat.say("/reset", sender="8", name="Ann").reason == "command not allowed: reset needs admin"


@pytest.mark.parametrize("name", ["qq:1", "admin", "owner\nrole: owner", "10001"])
def test_a_name_gives_no_role(tmp_path: Path, name: str) -> None:
    with chatting(tmp_path, owners=["qq:1"]) as chat:
        assert chat.say("/reset", name=name).reason == "command not allowed: reset needs admin"


# --- each command


def test_help_lists_what_the_asker_may(chat: Chat) -> None:
    def listed(text: str) -> list[str]:
        return [line.split(" ")[0] for line in text.splitlines()[1:]]

    assert sorted(listed(chat.ask("/help"))) == sorted(f"/{name}" for name in FOR_ALL)
    assert sorted(listed(chat.admin("/help"))) == sorted(f"/{name}" for name in WORDS)
    assert listed(chat.private("/帮助")) == listed(chat.admin("/help"))


def test_no_answer_is_a_command_itself(chat: Chat) -> None:
    for command in WORDS:
        assert not chat.private(f"/{command}", sender=command).startswith(("/", "／"))


def test_sid_shows_ids_as_the_settings_take_them(chat: Chat) -> None:
    assert chat.ask("/sid") == "platform: qq\nbot: 10001\nchat: group 42, in settings qq:42\nyou: 7, in settings qq:7"


def test_status_tells_how_the_chat_stands(chat: Chat) -> None:
    for number in range(3):
        STORE.append("lines", {"by": "user", "n": number}, scope=SCOPE)
    STORE.set("summary", {"to": 40, "paragraphs": [{"text": "…"}], "topics": []}, scope=SCOPE)
    STORE.put("spent:2023-11-14", "L1.tokens", 1200, scope=SCOPE)
    STORE.put("spent:2023-11-14", "L3.tokens", 34, scope=SCOPE)
    STORE.put("spent:2023-11-14", "L3.nano", 12_300_000, scope=SCOPE)
    STORE.put("spent:2023-11-14", "told.2", 1, scope=SCOPE)
    assert chat.admin("/status").splitlines() == [
        f"Lumia, Lumia {lumia.__version__}",
        "persona: default",
        "models: small offline, planner offline, thinker offline, main offline, polish offline",
        "lines kept: 3, and summaries up to line 40",
        "spent today (2023-11-14): 1,234 tokens, $0.0123",
        "paused: no",
    ]


def test_what_was_spent_is_told_to_admins_only(chat: Chat) -> None:
    assert "spent" not in chat.ask("/status")
    assert "spent" in chat.private("/status")


def test_status_tells_that_the_budget_is_reached_and_the_owner_how(chat: Chat) -> None:
    lumia.config.get("heartflow").bot_daily_tokens = 1000
    lumia.config.get("chat-commands").owners = ["qq:7"]
    STORE.put("spent:2023-11-14", "L3.tokens", 1001)
    assert chat.ask("/status").splitlines()[-1].startswith("a limit of my operator is reached")
    assert chat.private("/status").splitlines()[-1] == "budget: 100 % of the bot's 1,000 tokens today: silence"


def test_reset_forgets_the_talk_of_this_chat_and_no_other(chat: Chat) -> None:
    for scope in (SCOPE, "qq:10001:group:43"):
        STORE.append("lines", {"by": "user", "text": "secret"}, scope=scope)
    assert chat.admin("/new") == "I have forgotten the talk of this chat (lines: 1). What I remember for long stays."
    assert STORE.items("lines", scope=SCOPE) == []
    assert len(STORE.items("lines", scope="qq:10001:group:43")) == 1


@pytest.mark.parametrize(
    "text, seconds, told",
    [
        ("/stop", 3600, "1 h"),
        ("/stop 30", 1800, "30 min"),
        ("/stop 90s", 90, "1 min 30 s"),
        ("/stop 2 h", 7200, "2 h"),
        ("/stop 1.5d", 129_600, "1 d 12 h"),
        ("/stop 999999d", 366 * 86400, "366 d"),
    ],
)
def test_stop_keeps_the_bot_silent_for_a_while(chat: Chat, text: str, seconds: float, told: str) -> None:
    assert chat.admin(text) == f"I keep silent here for {told}; /resume lets me speak again."
    assert STORE.get("paused", scope=SCOPE) == {"until": chat.bot.clock.now() + seconds, "by": "qq:7"}
    assert f"paused: for {told} more, by qq:7" in chat.ask("/status")
    assert STORE.get("paused", scope="qq:10001:group:43") is None


@pytest.mark.parametrize("text", ["0", "-5", "soon", "1e9", "nan", "30 apples", "5m; drop"])
def test_a_time_that_is_none_stops_nothing(chat: Chat, text: str) -> None:
    assert chat.admin(f"/stop {text}").startswith("I don't understand that time")
    assert STORE.get("paused", scope=SCOPE) is None


def test_resume_lets_it_speak_again(chat: Chat) -> None:
    assert chat.admin("/resume") == "I wasn't paused here."
    chat.admin("/stop")
    assert chat.admin("/resume") == "I speak here again."
    assert STORE.get("paused", scope=SCOPE) is None


def test_a_pause_ends_by_itself(chat: Chat) -> None:
    chat.admin("/stop 1m")
    chat.later(61)
    assert "paused: no" in chat.ask("/status")


# --- models


def test_model_lists_roles_and_what_can_be_chosen(tmp_path: Path) -> None:
    with chatting(tmp_path, models=["ollama:qwen3"]) as chat:
        lines = chat.admin("/model").splitlines()
    assert lines[1] == "small: offline (default)"
    assert lines[-2:] == [
        "To choose from: offline, ollama:qwen3",
        "Choose with /model ROLE NAME; /model ROLE default takes it back.",
    ]


def test_a_model_is_chosen_for_this_chat_and_taken_back(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key")
    lumia.config.get("chat-commands").models = ["openai-chat:gpt-4o-mini"]
    assert chat.admin("/model MAIN OpenAI-chat:gpt-4o-mini") == (
        "From now on openai-chat:gpt-4o-mini answers here as main."
    )
    assert STORE.get("models", scope=SCOPE) == {"main": "openai-chat:gpt-4o-mini"}
    assert chat.admin("/model main") == "main: openai-chat:gpt-4o-mini (chosen here)"
    assert "main offline" in chat.private("/status")
    assert chat.admin("/model main default") == "From now on offline answers here as main."
    assert STORE.get("models", scope=SCOPE) is None


def test_one_word_chooses_the_main_model(chat: Chat) -> None:
    assert chat.admin("/model offline") == "From now on offline answers here as main."


def test_a_model_that_can_not_answer_is_refused(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    lumia.config.get("chat-commands").models = ["openai-chat:gpt-4o-mini"]
    said = chat.admin("/model main openai-chat:gpt-4o-mini")
    assert said.startswith("That model can't answer: openai-chat:gpt-4o-mini needs a key")
    assert STORE.get("models", scope=SCOPE) is None


@pytest.mark.parametrize(
    "name", ["../../x", "openai:gpt-4o", "@everyone", "[CQ:at,qq=all]", "{prefix}", "x" * 900, "\u202egpt", "offline'"]
)
def test_a_model_nobody_offers_is_not_chosen_and_pings_nobody(chat: Chat, name: str) -> None:
    said = chat.admin(f"/model main {name}")
    assert said.startswith("There is no model ") and said.endswith(" to choose. There are: offline")
    assert "@" not in said and "[CQ:" not in said and "\u202e" not in said and len(said) < 150
    assert STORE.get("models", scope=SCOPE) is None


@pytest.mark.parametrize("text", ["/model embedding offline", "/model root offline", "/model main offline offline"])
def test_a_role_there_is_not_is_told(chat: Chat, text: str) -> None:
    assert "There are: small, planner, thinker, main, polish" in chat.admin(text)


# --- personas


def test_persona_lists_and_chooses(chat: Chat) -> None:
    chat.persona("quiz.toml", 'prompt = "quiz"')
    assert chat.admin("/persona").splitlines()[:2] == ["Here I am default.", "There are: default, quiz"]
    assert chat.admin("/persona QUIZ") == "From now on I am quiz here."
    assert chat.admin("/persona").splitlines()[0] == "Here I am quiz (chosen in this chat)."
    assert lumia.services.get("persona").of("qq", "group", "42").prompt == "quiz"
    assert lumia.services.get("persona").of("qq", "group", "43").name == "default"
    assert "persona: quiz" in chat.ask("/status")
    assert chat.admin("/人格 默认") == "从现在起，我在这里的人格是 default。"


@pytest.mark.parametrize("name", ["../../lumia", "nobody", "a/b", "@all", "\u202equiz", "x" * 500])
def test_a_persona_there_is_not_is_told(chat: Chat, name: str) -> None:
    said = chat.admin(f"/persona {name}")
    assert said.startswith("That can't be: there is no persona") and "@" not in said and len(said) < 250
    assert lumia.services.get("persona").chosen("qq", "group", "42") == ""


def test_names_of_personas_with_spaces_can_be_chosen(chat: Chat) -> None:
    chat.persona("Quiz Master.md", "quiz")
    assert chat.admin("/persona quiz\n master") == "From now on I am Quiz Master here."


def test_a_persona_that_is_gone_is_told_and_a_broken_one_is_not_offered(chat: Chat) -> None:
    chat.persona("quiz.toml", 'prompt = "quiz"')
    chat.admin("/persona quiz")
    (chat.root / "config" / "personas" / "quiz.toml").unlink()
    chat.persona("maid.toml", "prompt = ")
    assert chat.admin("/persona").splitlines()[:3] == [
        "Here I am default.",
        "quiz, which was chosen in this chat, isn't there any more or can't be read.",
        "There are: default",
    ]
    assert "did you mean" not in chat.admin("/persona maid")


# --- memory


class Memory:
    """A memory that knows two people called Ann."""

    missing = ""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def profile(self, sender_id: str, chat: str) -> Any:
        self.asked.append((sender_id, chat))
        count = {"7": 3}.get(sender_id, 0)
        return SimpleNamespace(name="Ann", relation_summary="knows Bob", messages=count, missing=self.missing)

    def recall(self, query: str, chat: str, *, sender_id: str, top_k: int) -> Any:
        self.asked.append((query, chat, sender_id))

        def said(sender: str, text: str, kind: str = "message") -> Any:
            return SimpleNamespace(sender=sender, text=text, kind=kind, said_at=1_700_000_000.0)

        found = [said("7", "my sister\nlives in @Lisbon"), said("8", "my secret"), said("self", "noted", "reply")]
        return SimpleNamespace(instances=found, missing=self.missing)


def remembering(monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory()
    real = lumia.services.all
    monkeypatch.setattr(lumia.services, "all", lambda name: {"m": memory} if name == "memory" else real(name))
    return memory


def test_memory_tells_each_what_they_said_themselves(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = remembering(monkeypatch)
    assert chat.ask("/memory").splitlines() == [
        "You are Ann; messages of yours that I know here: 3.",
        "How you stand to others: knows Bob",
        "Of what you said I remember:",
        "- 2023-11-14 “my sister lives in ＠Lisbon”",
    ]
    assert memory.asked == [("7", SCOPE), ("Ann", SCOPE, "7")]
    assert "secret" not in chat.ask("/memory") and "secret" in chat.ask("/memory", sender="8")


def test_memory_is_asked_about_the_words_behind_it(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = remembering(monkeypatch)
    chat.ask("/memory my sister")
    assert memory.asked[-1] == ("my sister", SCOPE, "7")


def test_a_memory_that_is_away_says_no_more_than_that(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    remembering(monkeypatch).missing = "no route to postgresql://user:password@db"
    assert chat.ask("/memory") == "My memory doesn't answer at the moment."


def test_who_is_not_remembered_is_told_so(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    remembering(monkeypatch)
    assert chat.ask("/memory", sender="9") == "I remember nothing of you here."


def test_without_a_memory_there_is_none(chat: Chat) -> None:
    assert chat.ask("/memory") == "I have no memory beyond this talk."
    assert chat.ask("/记忆") == "除了眼前的对话，我没有长期记忆。"


def test_forgetting_that_the_memory_does_not_offer_is_left_to_the_operator(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembering(monkeypatch)
    assert chat.ask("/memory forget").endswith("lumia memory forget --sender 7")


# --- with others missing


@pytest.mark.parametrize("command", ["status", "reset", "stop", "resume", "model", "why"])
def test_without_heartflow_the_commands_say_so(tmp_path: Path, command: str) -> None:
    with chatting(tmp_path, without=("heartflow",)) as chat:
        assert "No plugin that answers is running" in chat.admin(f"/{command}")


def test_without_personas_the_command_says_so(tmp_path: Path) -> None:
    with chatting(tmp_path, without=("persona_loader", "heartflow")) as chat:
        assert chat.admin("/persona") == "No plugin with personas is running."
        assert "persona" not in chat.ask("/status")


def test_commands_and_answers_are_not_part_of_what_heartflow_knows(chat: Chat) -> None:
    chat.admin("/persona")
    chat.say("/why")
    assert STORE.items("lines", scope=SCOPE) == STORE.items("history", scope=SCOPE) == []


def test_a_replay_answers_as_it_did_whatever_has_changed_since(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    chat.persona("quiz.toml", 'prompt = "quiz"')
    for command in ("persona quiz", "persona", "model", "model main offline", "stop", "status", "why", "reset"):
        chat.admin(f"/{command}")
    found = trees(chat.bot)
    monkeypatch.setenv("LUMIA_MODEL", "openai-chat:other")
    (chat.root / "config" / "personas" / "quiz.toml").unlink()
    chat.later(100)
    done = [one for one in replayed(found, chat.bot) if one.id == "msg"]
    assert [(one.differences, one.skipped) for one in done] == [([], "")] * 8


def test_doctor_names_owners_who_are_nobody(tmp_path: Path) -> None:
    with chatting(tmp_path, owners=["10001"], admins=["qq:", "qq:7"]) as chat:
        assert chat.bot.runtime.plugins is not None
        told = [one.message for name, one in findings(chat.bot.runtime.plugins) if name == "chat commands"]
    assert told == [
        "config/chat-commands.toml: owners names '10001', who is nobody",
        "config/chat-commands.toml: admins names 'qq:', who is nobody",
    ]


def test_the_document_lists_every_command_with_its_least_role_and_its_settings(tmp_path: Path) -> None:
    page = (HANDLERS.parent / "docs" / "chat-commands.md").read_text("utf-8")
    listed = re.findall(r"^\| `/(\w+)`.*\| (member|admin) \|$", page, re.MULTILINE)
    with chatting(tmp_path):
        roles = lumia.config.get("chat-commands").roles
        assert dict(listed) == {name: getattr(roles, name) for name in WORDS}
    example = re.findall(r"```toml\n# config/chat-commands.toml\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "config" / "chat-commands.toml").write_text(example, "utf-8")
    with chatting(tmp_path) as chat:
        assert steps(chat.say("/sid@lumiabot"))[1] == "heartflow.filter_message"
        assert chat.say("/status@lumiabot").reason == "answered a command: status"


def test_both_languages_have_the_same_texts_with_the_same_places() -> None:
    from string import Formatter

    from handlers.chat_commands.wording import texts

    def places(text: str) -> set[str]:
        return {name for _, name, _, _ in Formatter().parse(text) if name}

    english, chinese = texts("en"), texts("zh")
    assert {key: places(text) for key, text in english.items()} == {key: places(text) for key, text in chinese.items()}
    assert (HANDLERS / "chat_commands" / "texts" / "en.toml").is_file()
