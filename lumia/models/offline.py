"""The offline model: rules, no neural network, no network at all. It shows the whole chain at work without a key.

It greets, says what it is, remembers what people said in the chat it is given, answers from that in the language of the
question, does sums and tells the date; a structured output is filled by `lumia.models.guess`. The same request always
gets the same answer (the date apart).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from lumia.models import sums
from lumia.models.messages import Message, Request, clean
from lumia.models.phrases import Language
from lumia.models.recall import (
    MAX_LENGTH,
    Fact,
    Line,
    clauses_of,
    facts_of,
    is_question,
    language_of,
    likes,
    lines_of,
    recall,
    remembered,
    said_by,
    speaker_named,
    who_likes,
    who_lives,
)
from lumia.models.recall import (
    newest as newest_fact,
)
from lumia.models.words import fold, pattern

_QUOTE_LENGTH = 300
_SHORT = 40


def answer(request: Request, *, clock: Callable[[], float], bot_name: str) -> str:
    """Return the offline answer to `request`: text, or the JSON of its `output_type`."""
    scene = Scene(request.messages, clock, bot_name, request.system)
    if request.output_type is not str:
        from lumia.models import guess

        return guess.fill(request.output_type, scene)
    if request.role == "polish":
        from lumia.models import offline_layers

        if worded := offline_layers.worded(scene):
            return worded
        # Nothing to polish with: the draft stands.
        return scene.last.content.strip() or scene.reply()
    return scene.reply()


@dataclass(frozen=True)
class Scene:
    """A chat as the offline model sees it, and its answers."""

    messages: tuple[Message, ...]
    clock: Callable[[], float]
    bot_name: str
    system: str | None = None

    @cached_property
    def last(self) -> Message:
        """The newest message of a person; an empty one when there is none."""
        return next((message for message in reversed(self.messages) if message.role == "user"), Message("user", ""))

    @cached_property
    def text(self) -> str:
        """The newest message without a mention of the bot at its start or end."""
        name = re.escape(self.bot_name)
        before = rf"\A\s*(?:@\S+\s+)*(?:@?{name}(?!\w))?[\s,:，：!！]*"
        after = rf"[\s,，]+@?{name}(?=[?？!！.。\s]*\Z)"
        text = self.last.content[:MAX_LENGTH].replace("\u2019", "'")
        return pattern(f"{before}|{after}").sub("", text).strip() or text.strip()

    @cached_property
    def language(self) -> Language:
        """The language of the newest message; a short one without a clue follows what was said before."""
        said = " ".join(message.content[:_QUOTE_LENGTH] for message in self.messages[-6:] if message.role == "user")
        return language_of(self.text, language_of(said).code)

    @cached_property
    def earlier(self) -> list[Line]:
        """Every sentence before the newest message; what the memory gave, by its day, before what the chat shows."""
        newest = max((i for i, message in enumerate(self.messages) if message is self.last), default=0)
        found = [
            replace(line, speaker=self.last.name) if line.own else line for line in lines_of(self.messages[:newest])
        ]
        return sorted((line for line in found if line.day), key=lambda line: line.day) + [
            line for line in found if not line.day
        ]

    @cached_property
    def facts(self) -> list[Fact]:
        return facts_of(self.earlier)

    @cached_property
    def asks(self) -> bool:
        """Whether the newest message is a question."""
        return any(line.asks for line in self.own) or is_question(self.text, self.language)

    @cached_property
    def own(self) -> list[Line]:
        """The sentences of the newest message."""
        return lines_of([Message("user", self.text, self.last.name)])

    def say(self, what: str, **values: str) -> str:
        """Return one sentence of the language in use."""
        return self.language.says[what].format(**values)

    def matches(self, source: str, *, whole: bool = False) -> bool:
        """Tell whether the newest message holds (`whole`: opens with, and is short) what `source` describes."""
        if not whole:
            return bool(pattern(rf"(?<![^\W_])(?:{source})").search(self.text))
        return len(self.text) <= _SHORT and bool(pattern(rf"[\W_]*(?:{source})(?![^\W_])").match(self.text))

    def intent(self) -> str:
        """Return what the newest message is: empty, sum, help, identity, date, time, question, greeting, thanks,
        farewell or statement."""
        return next(name for name, holds in self._intents() if holds())

    def _intents(self) -> list[tuple[str, Callable[[], bool]]]:
        words = self.language
        return [
            ("empty", lambda: not self.text),
            ("sum", lambda: self._sum() is not None),
            ("help", lambda: self.matches(words.helps, whole=True)),
            ("identity", lambda: self.matches(words.identity) and not self._asked()),
            ("date", lambda: self.asks and self.matches(words.date)),
            ("time", lambda: self.asks and self.matches(words.time)),
            ("question", lambda: self.asks),
            ("thanks", lambda: self.matches(words.thanks, whole=True)),
            ("farewell", lambda: self.matches(words.farewells, whole=True)),
            ("statement", lambda: bool(facts_of(self.own)) or bool(pattern(words.remember).match(self.text))),
            ("greeting", lambda: self.matches(words.greetings, whole=True)),
            ("statement", lambda: True),
        ]

    def _sum(self) -> str | None:
        """A sum, if the message is one or asks for one: a date or a telephone number in a sentence is neither."""
        written = sums.find(self.text)
        alone = written is not None and len(self.text) <= len(written) + 4
        return written if alone or self.asks else None

    def reply(self) -> str:
        """Return the answer to the newest message."""
        intent = self.intent()
        if intent == "sum":
            result = sums.work_out(self._sum() or "")
            return self.say("no_sum") if result is None else result
        if intent in ("date", "time"):
            return self._date(intent)
        if intent == "question":
            return self._answer()
        if intent == "statement":
            return self._note()
        simple = {"greeting": "hello", "farewell": "bye"}.get(intent, intent)
        return self.say(simple, bot=self.bot_name)

    def _date(self, intent: str) -> str:
        now = datetime.fromtimestamp(self.clock()).astimezone()
        if intent == "time":
            return self.say("now", time=f"{now:%H:%M}")
        return self.say("today", day=self.language.days[now.weekday()], date=f"{now:%Y-%m-%d}")

    def _note(self) -> str:
        facts = facts_of(self.own)
        clauses = sum(len(clauses_of(line)) for line in self.own)
        if not facts or len(facts) < clauses:  # not all of it is understood: keep the words
            return self.say("noted", v=_short(remembered(self.text, self.language)))
        hello = next((self.say("hello_name", v=fact.value) for fact in facts if fact.what == "name"), None)
        sentence = " ".join(self._about(fact, [fact.value]) for fact in facts)
        if facts[0].who == fold(self.last.name or ""):  # "Your …" goes on after a colon; a name keeps its capital
            sentence = sentence[:1].lower() + sentence[1:]
        told = self.say("noted", v=sentence)
        return f"{hello} {told}" if hello and self.matches(self.language.greetings, whole=True) else told

    def _asked(self) -> tuple[str, dict[str, str]] | None:
        """Return (what, values) when the question is of a kind the patterns know."""
        for what, source in self.language.asks:
            if found := pattern(rf"(?:^|(?<=\W)|(?<=[^\x00-\u02ff]))(?:{source})").search(self.text):
                return what, {name: value or "" for name, value in found.groupdict().items()}
        return None

    def _answer(self) -> str:
        asked = self._asked()
        if asked is not None and (found := self._known(*asked)):
            return found
        line = recall(self.earlier, self.text, self.last.name)
        return self._quote(line) if line else self.say("unknown")

    def _known(self, what: str, values: dict[str, str]) -> str | None:
        if what == "said":
            return self._said(values["p"], values.get("v", ""))
        if what in ("who_like", "who_home"):
            find = who_likes if what == "who_like" else who_lives
            return "; ".join(self._who(fact) for fact in find(self.facts, values["v"]))
        return self._fact(what, values.get("p", ""))

    def _who(self, fact: Fact) -> str:
        text = _short(remembered(fact.line.text, fact.line.language))
        return f"{_upper(self._person(fact))}: {self.say('quote', v=text)}"

    def _fact(self, what: str, name: str) -> str | None:
        asker = fold(self.last.name or "")
        who = fold(name) if name and fold(name) not in ("i", "我", "私") else asker
        liked = likes(self.facts, who) if what == "like" else []
        fact = newest_fact(self.facts, who, "dislike" if what == "like" and not liked else what)
        if fact is not None:
            said = self._about(fact, liked or [fact.value])
            return f"{said} ({self._quote(fact.line)})" if fact.line.day else said
        return self.say("name_you", v=self.last.name) if what == "name" and not name and self.last.name else None

    def _about(self, fact: Fact, values: list[str]) -> str:
        joined = ("、" if self.language.code in ("zh", "ja") else ", ").join(_short(value) for value in values)
        if fact.who == fold(self.last.name or ""):
            return self.say(f"{fact.what}_you", v=joined)
        return self.say(fact.what, v=joined, p=self._person(fact))

    def _person(self, fact: Fact) -> str:
        """Return whom a fact is about as the chat writes them."""
        if fact.who == fold(self.last.name or ""):
            return self.say("you")
        spoken = next((line.speaker for line in self.earlier if line.speaker and fold(line.speaker) == fact.who), None)
        if spoken or not fact.who:
            return spoken or "?"
        start = fold(fact.line.text).find(fact.who)
        return fact.line.text[start : start + len(fact.who)] if start >= 0 else fact.who

    def _said(self, name: str, about: str) -> str | None:
        known, speaker = speaker_named(self.earlier, name, self.last.name)
        if not known:
            return None
        line = said_by(self.earlier, speaker, about)
        return self._quote(line) if line else self.say("silent", p=speaker or self.say("you"))

    def _quote(self, line: Line) -> str:
        text = _short(remembered(line.text, line.language))
        if line.told or (line.speaker is None and self.last.name):
            quoted = self.say("told", v=text)
        elif line.speaker == self.last.name:
            quoted = self.say("you_said", v=text)
        else:
            quoted = self.say("said", p=line.speaker or "?", v=text)
        return self.say("dated", d=line.day, q=quoted) if line.day else quoted


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _short(text: str) -> str:
    text = clean(" ".join(text.split()))
    return text if len(text) <= _QUOTE_LENGTH else f"{text[:_QUOTE_LENGTH]}…"
