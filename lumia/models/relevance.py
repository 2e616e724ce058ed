"""How much a line of a chat wants the bot to speak, judged by rules: the offline model's answer to `relevance_score`.

In a group most lines are for others. What counts, in this order: who speaks (another bot, someone under the bot's
name), whom the line answers, whom it calls, whether the bot has just answered its author, and whether it is a question
of facts that anyone may answer rather than one about the people present.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lumia.models import cues
from lumia.models.asking import (
    SHORT,
    asks,
    called,
    called_by,
    calls_someone,
    head_and_tail,
    names,
    spaced,
    units,
    wants,
)
from lumia.models.messages import Message
from lumia.models.spoken import read
from lumia.models.words import fold, pattern

if TYPE_CHECKING:
    from lumia.models.offline import Scene

_LENGTHS = ((18.0, 0.3), (10.5, 0.25), (SHORT, 0.0))
"""From how many units (`asking.units`) a question to the room gains how much."""


@dataclass(frozen=True)
class Turn:
    """A line of the chat. speaker: "" for the bot; to: whom it answers, "" for nobody."""

    speaker: str
    text: str
    to: str = ""

    @property
    def by_bot(self) -> bool:
        return not self.speaker


@dataclass(frozen=True)
class Judged:
    """A score from 0 to 1, and what decided it."""

    score: float
    reason: str


class Judge:
    """The newest line of a group among those before it. own: the bot's name and nicknames."""

    def __init__(self, turns: list[Turn], own: tuple[str, ...]) -> None:
        self.turns, self.own = turns, own
        self.last = turns[-1]
        self.text = head_and_tail(self.last.text)

    @cached_property
    def said(self) -> str:
        """What the author says in their own words: no quotation, no pasted line of another."""
        return spaced(pattern(f"(?m:{cues.QUOTED})").sub(" ", self.text)).strip()

    @cached_property
    def asked(self) -> bool:
        return asks(self.said)

    @cached_property
    def units(self) -> float:
        return units(self.text)

    @cached_property
    def followed(self) -> Turn | None:
        """The bot's newest line, when it answered this author and nobody has called them since."""
        for at in range(len(self.turns) - 2, -1, -1):
            turn = self.turns[at]
            if turn.by_bot:
                before = next((one.speaker for one in reversed(self.turns[:at]) if one.speaker), "")
                since = (one for one in self.turns[at + 1 : -1] if one.speaker and one.speaker != self.last.speaker)
                if any(called_by(one.text, [self.last.speaker], ()) for one in since):
                    return None
                return turn if (turn.to or before) == self.last.speaker else None
        return None

    def judged(self) -> Judged:
        """Return the score and the reason."""
        return self._not_for_anyone() or self._for_the_bot() or self._for_another() or self._for_the_room()

    def _not_for_anyone(self) -> Judged | None:
        """Other bots, people under the bot's name, commands, pictures, what was passed on from elsewhere."""
        speaker = self.last.speaker
        tagged = pattern(cues.OWN_TAG).match(self.text)
        if pattern(cues.BOT_LIKE).search(speaker) or (tagged and fold(tagged["tag"]) == fold(speaker)):
            return Judged(0.02, "another bot")
        if fold(speaker.partition(" (")[0]) in {fold(name) for name in self.own}:
            return Judged(0.05, "someone under the bot's name")
        if pattern(cues.COMMAND).match(self.text):
            return Judged(0.05, "a command for another bot")
        if pattern(cues.MEDIA).match(self.text) or not pattern(r"[^\W_]").search(self.said):
            return Judged(0.03, "no words of its own")
        if pattern(cues.FORWARD).match(self.text) or pattern(cues.PASTED).match(self.text):
            return Judged(0.08, "passed on from elsewhere")
        return None

    def _for_the_bot(self) -> Judged | None:
        """Answers to the bot, lines that call it, and what its last partner says next."""
        own = {fold(name) for name in self.own}
        answers = self.last.to and fold(self.last.to) in own
        if self.last.to and not answers and fold(self.last.to.partition(" [")[0]) in own:
            return Judged(0.1, "answers someone under the bot's name")
        rest = called(self.said, self.own)
        if rest is not None and not self._third_person(rest):
            if not pattern(r"[^\W_]").search(rest):
                return Judged(0.8, "calls the bot")
            if asks(rest) or wants(rest):
                return Judged(0.95, "asks the bot")
            if pattern(cues.WISH).search(rest):
                return Judged(0.8, "greets the bot")
            if self._greeted() or (self._set_apart() and not pattern(cues.PRAISE).search(rest)):
                return Judged(0.7, "speaks to the bot")
            return Judged(0.3, "a word to the bot")
        if answers:
            return self._next("answers the bot", 0.95)
        if self.last.to:
            return None
        if rest is None and (names(self.said, self.own) or pattern(cues.ABOUT_BOT).search(self.said)):
            return Judged(0.15, "speaks about the bot")
        if rest is not None:
            return Judged(0.2, "speaks about the bot")
        return self._next("follows the bot's answer", 0.85) if self.followed and not self._person_called() else None

    def _greeted(self) -> bool:
        return bool(pattern(rf"\A\W*(?:(?:{cues.GREETINGS})[\s,，]+)").match(self.said))

    def _set_apart(self) -> bool:
        """The bot's name stands by itself: before a comma, in Chinese before a space."""
        said = self.said.lstrip("@ ").casefold()
        name = next((one for one in self.own if said.startswith(one.casefold())), "")
        after = said[len(name) : len(name) + 1]
        return bool(name) and (after in tuple(",，!！~～。.") or (after == " " and not name.isascii()))

    def _third_person(self, rest: str) -> bool:
        """After its name: is the bot what the sentence is about?"""
        if pattern(cues.THIRD_PERSON_EN).match(rest):
            return True
        asked = pattern(r"[吗?？]").search(rest) and not pattern(r"不是[^,，]*了吗").search(rest)
        return bool(pattern(cues.THIRD_PERSON_ZH).match(rest)) and not asked

    def _next(self, reason: str, high: float) -> Judged:
        """A line to the bot: more is wanted, or it was thanks."""
        text = self.said
        thanks = bool(pattern(cues.THANKS).search(text))
        reaction = thanks or bool(pattern(cues.REACTION).match(text))
        if self.asked and not (reaction and self.units < SHORT):
            return Judged(high, f"{reason} with a question")
        if wants(text) and not thanks:
            return Judged(high - 0.1, f"{reason} and wants more")
        if reaction and (self.units < SHORT or not pattern(cues.CONTRAST).search(text)):
            return Judged(0.1, f"{reason} with a reaction")
        if pattern(cues.DOUBT).search(text) or (pattern(cues.ELLIPTIC).match(text) and self.units >= 4):
            return Judged(high - 0.1, f"{reason} and isn't done")
        return Judged(0.2, f"{reason} without a question")

    def _person_called(self) -> bool:
        """The line calls one of the people who spoke, or anyone with an at sign."""
        others = {turn.speaker for turn in self.turns if turn.speaker and turn.speaker != self.last.speaker}
        return calls_someone(self.said, others, self.own)

    def _for_another(self) -> Judged | None:
        if self.last.to:
            return Judged(0.12 if self.asked else 0.05, f"answers {self.last.to}")
        if self._person_called():
            return Judged(0.1, "calls someone else")
        return None

    def _substance(self) -> float:
        """Return what the length of a question adds: who asks for facts has to tell what about."""
        return next((weight for least, weight in _LENGTHS if self.units >= least), -0.3)

    def _for_the_room(self) -> Judged:
        """A question nobody in particular is asked: of facts, or about those present?"""
        if not self.asked:
            return Judged(0.05, "small talk")
        text = self.said
        facts, people = bool(pattern(cues.KNOWLEDGE).search(text)), bool(pattern(cues.PEOPLE).search(text))
        to_you = pattern(cues.YOU).search(pattern(cues.ANYONES_YOU).sub(" ", text))
        before = [turn.text for turn in self.turns[-4:-1] if not turn.by_bot]
        weights = (
            (self._substance(), True),
            (0.25, facts),
            (-0.4, people),
            (-0.4, to_you),
            (-0.15, pattern(cues.WE).search(text)),
            (-0.15, pattern(cues.WHEN).search(text)),
            (-0.15, pattern(cues.STATE).search(text)),
            (-0.4, pattern(cues.SIGH).search(text)),
            (-0.4, pattern(cues.SELF_ANSWERED).search(text)),
            (-0.5, pattern(cues.MADE_UP).search(text)),
            (-0.2, any(map(pattern(cues.HEAT).search, [text, *before]))),
        )
        score = 0.45 + sum(weight for weight, holds in weights if holds)
        what = "a question about those present" if people else "a question of facts" if facts else "a question"
        return Judged(round(min(0.9, max(0.04, score)), 4), f"{what} to the room")


def judge(scene: Scene) -> Judged | None:
    """Return the judgement of the newest line of a group; None in a private chat, where everything is for the bot."""
    if not scene.last.name:
        return None
    newest = max(at for at, message in enumerate(scene.messages) if message is scene.last)
    turns = [turn for message in scene.messages[: newest + 1][-12:] if (turn := _turn(message))]
    return Judge(turns, own_names(scene)).judged() if turns else None


def own_names(scene: Scene) -> tuple[str, ...]:
    """Return the bot's name and what else the system text calls it: `Lumia (小露, 露米娅)`."""
    text = (scene.system or "")[:400]
    found = pattern(r"(?:\A|\W)([^\W\d_][\w-]{0,30}) ?[(（]([^()（）\n]{1,120})[)）]").search(text)
    called_ = pattern(r"[,，、/]\s*").split(found[2]) if found and fold(found[1]) == fold(scene.bot_name) else []
    return (scene.bot_name, *(name.strip() for name in called_ if name.strip()))


def _turn(message: Message) -> Turn | None:
    if message.role == "system":
        return None
    to, text = read(message.content)
    return Turn("" if message.role == "assistant" else message.name or "?", text, to)
