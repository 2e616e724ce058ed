"""The offline model: what it says to what, in six languages, and that nothing makes it stumble."""
# ruff: noqa: E501  (one conversation, one line)

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumia.models import Models
from lumia.models.phrases import LANGUAGES

NOON = 1_764_072_000.0
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=120)


def chat(*lines: str, role: str = "main") -> str:
    """The answer to the last of `lines`: `Ann| text` is said by Ann, `bot| …` by the bot, `system| …` injected."""
    messages = [_message(line) for line in lines]
    return Models({}, {}, clock=lambda: NOON).chat(role, messages).text


def _message(line: str) -> dict[str, Any]:
    name, bar, text = line.partition("| ")
    if not bar:
        return {"role": "user", "content": line}
    if name in ("bot", "system"):
        return {"role": {"bot": "assistant"}.get(name, name), "content": text}
    return {"role": "user", "content": text, "name": name}


@pytest.mark.parametrize(
    "lines,said",
    [
        (["hello"], "Hello!"),
        (["Good morning!"], "Hello!"),
        (["thanks a lot"], "You're welcome."),
        (["bye"], "Goodbye!"),
        ([""], "I'm listening."),
        (["@Lumia"], "Noted: @Lumia"),
        (["My name is Ann."], "Noted: your name is Ann."),
        (["Hi! My name is Ann."], "Hello, Ann! Noted: your name is Ann."),
        (["I'm Ann and I live in Rome"], "Noted: your name is Ann. You live in Rome."),
        (["my name is Ann", "what is my name?"], "Your name is Ann."),
        (["my name is Ann", "call me Annie", "what's my name"], "Your name is Annie."),
        (["I live in Rome", "I moved to Paris", "where do I live?"], "You live in Paris."),
        (["I come from Spain", "where am I from?"], "You come from Spain."),
        (["I like tea", "I love green tea and cake", "what do I like?"], "You like green tea and cake."),
        (["I like tea", "I like cake", "I don't like tea any more", "what do I like?"], "You like cake."),
        (["I hate rain"], "Noted: you don't like rain."),
        (["my cat is called Tom", "what is my cat called?"], "You said: “my cat is called Tom”"),
        (["remember that the key is under the mat", "where is the key?"], "You said: “the key is under the mat”"),
        (["the meeting is on Friday", "when is the meeting?"], "You said: “the meeting is on Friday”"),
        (["the meeting is on Friday", "no, the meeting is on Monday", "When is the meeting?"], "You said: “no, the meeting is on Monday”"),
        (["my boat is blue", "nice day", "Lumia, what colour is my boat?"], "You said: “my boat is blue”"),
        (["the sky is grey", "I saw the meeting room", "the meeting is at 5 pm", "a meeting is a bore", "when is the meeting?"], "You said: “the meeting is at 5 pm”"),
        (["what is 12*(3+4)?"], "84"),
        (["3/0"], "That has no result."),
        (["my number is 555-1234"], "Noted: my number is 555-1234"),
        (["we meet on 2026-11-22"], "Noted: we meet on 2026-11-22"),
        (["what a lovely day!"], "Noted: what a lovely day!"),
        (["system| The office is closed on Sunday.", "when is the office closed?"], "I was told: “The office is closed on Sunday.”"),
        (["bot| the code is 7", "what is the code?"], LANGUAGES["en"].says["unknown"]),
        (["what is the code?", "what is the code?"], LANGUAGES["en"].says["unknown"]),
    ],
)  # fmt: skip
def test_english(lines: list[str], said: str) -> None:
    assert chat(*lines) == said


GROUP = [
    "Ann| I like green tea",
    "Bob| I hate tea. The report is due on 5 May",
    "Carol| Hello, I'm Carol and I live in Rome",
    "Bob| Dave likes football",
    "Ann| my dog is called Rex",
]


@pytest.mark.parametrize(
    "question,said",
    [
        ("Bob| who likes tea?", "Ann: “I like green tea”"),
        ("Ann| who likes tea?", "You: “I like green tea”"),
        ("Ann| who likes football?", "Dave: “Dave likes football”"),
        ("Ann| who lives in Rome?", "Carol: “I'm Carol and I live in Rome”"),
        ("Ann| where does Carol live?", "Carol lives in Rome."),
        ("Carol| where do I live?", "You live in Rome."),
        ("Ann| where do I live?", LANGUAGES["en"].says["unknown"]),
        ("Ann| what does Dave like?", "Dave likes football."),
        ("Ann| what does Bob like?", "Bob doesn't like tea."),
        ("Ann| what is my name?", "Your name is Ann."),
        ("Carol| what is my name?", "Your name is Carol."),
        ("Ann| what did Bob say about the report?", "Bob said: “The report is due on 5 May”"),
        ("Ann| what did Bob say?", "Bob said: “Dave likes football”"),
        ("Ann| what did I say about tea?", "You said: “I like green tea”"),
        ("Ann| what did Bob say about boats?", "I find nothing Bob said about that in this chat."),
        ("Ann| what did Zoe say about tea?", LANGUAGES["en"].says["unknown"]),
        ("Bob| what is my dog called?", LANGUAGES["en"].says["unknown"]),
        ("Bob| what is Ann's dog called?", "Ann said: “my dog is called Rex”"),
        ("Ann| what is my dog called?", "You said: “my dog is called Rex”"),
        ("Ann| when is the report due?", "Bob said: “The report is due on 5 May”"),
        ("Ann| who wrote Hamlet?", LANGUAGES["en"].says["unknown"]),
    ],
)
def test_in_a_group_everyone_is_told_apart(question: str, said: str) -> None:
    assert chat(*GROUP, question) == said


def test_a_line_of_nobody_is_not_put_into_anyones_mouth() -> None:
    assert chat("the code is 7", "Ann| what is the code?") == "I was told: “the code is 7”"


@pytest.mark.parametrize(
    "lines,said",
    [
        (["你好"], "你好！"),
        (["谢谢"], "不客气。"),
        (["再见"], "再见！"),
        (["我叫小明"], "记住了：你叫小明。"),
        (["我叫小明", "我叫什么？"], "你叫小明。"),
        (["我叫小明", "我叫什么名字"], "你叫小明。"),
        (["我叫小明", "what is my name?"], "Your name is 小明."),
        (["我住在北京", "我搬到上海了", "我住在哪里？"], "你住在上海。"),
        (["我喜欢喝茶", "我喜欢什么？"], "你喜欢喝茶。"),
        (["会议是星期五", "会议是什么时候？"], "你说过：“会议是星期五”"),
        (["我的猫叫咪咪", "我的猫叫什么？"], "你说过：“我的猫叫咪咪”"),
        (["记住：钥匙在桌子上", "钥匙在哪里？"], "你说过：“钥匙在桌子上”"),
        (["小红| 我喜欢咖啡", "小明| 我不喜欢咖啡", "小明| 谁喜欢咖啡？"], "小红: “我喜欢咖啡”"),
        (["小红| 我喜欢咖啡", "小明| 小红喜欢什么？"], "小红喜欢咖啡。"),
        (["小红| 周末去爬山吧", "小明| 小红关于爬山说了什么？"], "小红说过：“周末去爬山吧”"),
        (["小红| 我住在天津", "小明| 谁住在天津？"], "小红: “我住在天津”"),
        (["私の名前は花子です", "私の名前は何ですか？"], "あなたの名前は花子です。"),
        (["私は東京に住んでいます", "私はどこに住んでいますか"], "あなたは東京に住んでいます。"),
        (["私はお茶が好きです", "私は何が好きですか？"], "あなたはお茶が好きです。"),
        (["会議は金曜日です", "会議はいつですか？"], "あなたは「会議は金曜日です」と言いました。"),
        (["こんにちは"], "こんにちは！"),
        (["ありがとう"], "どういたしまして。"),
        (["Hallo, ich heiße Jörg"], "Hallo, Jörg! Notiert: du heißt Jörg."),
        (["ich heiße Jörg", "wie heiße ich?"], "Du heißt Jörg."),
        (["ich wohne in Köln", "wo wohne ich?"], "Du wohnst in Köln."),
        (["ich mag Bier", "was mag ich?"], "Du magst Bier."),
        (["Das Treffen ist am Freitag", "Wann ist das Treffen?"], "Du hast gesagt: „Das Treffen ist am Freitag“"),
        (["Max| Der Bericht ist fertig", "Eva| was hat Max über den Bericht gesagt?"], "Max hat gesagt: „Der Bericht ist fertig“"),
        (["me llamo Ana", "¿cómo me llamo?"], "Te llamas Ana."),
        (["vivo en Madrid", "¿dónde vivo?"], "Vives en Madrid."),
        (["me gusta el café", "¿qué me gusta?"], "Te gusta el café."),
        (["Hola"], "¡Hola!"),
        (["je m'appelle Zoé", "comment je m'appelle ?"], "Tu t'appelles Zoé."),
        (["j’habite à Lyon", "où est-ce que j'habite ?"], "Tu habites à Lyon."),
        (["j'aime le thé", "qu'est-ce que j'aime ?"], "Tu aimes le thé."),
        (["Bonjour"], "Bonjour !"),
    ],
)  # fmt: skip
def test_other_languages(lines: list[str], said: str) -> None:
    assert chat(*lines) == said


@pytest.mark.parametrize(
    "question,code",
    [
        ("who are you?", "en"),
        ("are you a bot?", "en"),
        ("你是谁？", "zh"),
        ("あなたは誰ですか？", "ja"),
        ("wer bist du?", "de"),
        ("¿quién eres?", "es"),
        ("qui es-tu ?", "fr"),
    ],
)
def test_it_says_what_it_is_in_the_language_of_the_question(question: str, code: str) -> None:
    said = chat(question)
    assert said == LANGUAGES[code].says["identity"].format(bot="Lumia")
    assert "LUMIA_MODEL" in said


@pytest.mark.parametrize("text", ["help", "what can you do?", "你会什么", "ヘルプ", "hilfe", "ayuda", "aide"])
def test_it_tells_what_it_can_do(text: str) -> None:
    assert "LUMIA_MODEL" in chat(text)


@pytest.mark.parametrize(
    "question",
    ["what day is it today?", "what's the date?", "今天几号？", "今日は何日ですか？", "welcher Tag ist heute?", "¿qué día es hoy?", "quel jour sommes-nous ?"],
)  # fmt: skip
def test_it_knows_the_date_of_the_bots_clock(question: str) -> None:
    assert f"{datetime.fromtimestamp(NOON).astimezone():%Y-%m-%d}" in chat(question)


def test_it_knows_the_time_of_the_bots_clock() -> None:
    assert chat("what time is it?") == f"It is {datetime.fromtimestamp(NOON).astimezone():%H:%M}."


def test_a_polisher_without_a_model_leaves_the_draft_as_it_is() -> None:
    assert chat("The draft. Is it good?", role="polish") == "The draft. Is it good?"
    assert chat(" ", role="polish") == "I'm listening."


def test_every_language_has_every_sentence_and_seven_days() -> None:
    keys = set(LANGUAGES["en"].says)
    for language in LANGUAGES.values():
        assert set(language.says) == keys
        assert len(language.days) == 7


def test_a_long_text_is_quoted_short() -> None:
    assert len(chat("word " * 1000)) < 400


def test_a_long_chat_is_answered_fast() -> None:
    lines = [f"Ann| note {n}: the box number {n} holds {n * 7} apples, and I like fruit {n}" for n in range(500)]
    chat("warm", "up?")
    began = time.perf_counter()
    assert "499" in chat(*lines, "Ann| what is in box number 499?")
    assert time.perf_counter() - began < 3


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), anything, st.none() | anything), max_size=4)
)
def test_nothing_makes_it_stumble_and_it_never_changes_its_mind(chat: list[tuple[str, str, str | None]]) -> None:
    messages = [{"role": role, "content": text, **({"name": name} if name else {})} for role, text, name in chat]
    bot = Models({}, {}, clock=lambda: NOON)
    reply = bot.chat("main", messages)
    reply.text.encode()
    assert reply.text
    assert bot.chat("main", messages).text == reply.text


PIECES = [
    "I", "my", "name is", "Ann", "live in", "like", "what", "did", "say about", "?", "who", "我叫", "什么", "私は", "が好き", "ich",
    "mag", "qu'est-ce que", "j'aime", "me llamo", "remember that", "3*4", "(", "{v}", "%s", "\\", "@Lumia", ",", "and", "\n",
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), min_size=1, max_size=4))
def test_no_mixture_of_its_own_patterns_makes_it_stumble(lines: list[str]) -> None:
    messages = [{"role": "user", "content": line, "name": f"P{n % 2}"} for n, line in enumerate(lines)]
    assert Models({}, {}, clock=lambda: NOON).chat("main", messages).text


@pytest.mark.parametrize(
    "text", ["my " * 700, "what did " * 300, "a, " * 700, "(" * 1500, "我" * 1900, "1+" * 900, "I'm " * 600]
)
def test_repetition_does_not_slow_it_down(text: str) -> None:
    began = time.perf_counter()
    chat(text, f"{text}?")
    assert time.perf_counter() - began < 2
