"""L1 of spec §12.3: does this message want the bot to speak? A vector first, then a small model, never the main one.

What is for somebody else by its facts (it quotes, mentions or calls a person) or says nothing (a picture, a link, a
command) ends before step 1. Step 1 compares the message with what the talk is about. The floor is told in standard
deviations of what unrelated texts have with the embedding model in use, so no number of one model is used for another.
A message that asks something or is meant for the bot passes it: a question opens a topic, and the vector knows only the
last one. The same vector tells whether anyone could answer, or only those present (`lumia.models.leaning`): the latter
ends here, unless the bot is meant. Step 2 asks the role `small` for a score, with a prompt of about a hundred tokens.
Step 3 compares the score with the threshold, lower while the bot is attentive.

Whatever a model does wrong here leads to silence with a reason, never to an error in the chat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import lumia
from lumia.models import Usage
from lumia.models.asking import SHORT, asks, bare, called_by, mentioned, names, units, wants
from lumia.models.calibration import cosine
from lumia.models.spoken import spoken

from .names import look, visible
from .outputs import Relevance

LINES = 3
LINE_CHARS, MESSAGE_CHARS = 48, 240
EMBEDDED_CHARS = 400
"""Of a message's text; what it is about is told by then, and a vector of 4,000 characters takes seconds."""
TALK_SECONDS = 240.0
"""Older lines belong to another talk: they say nothing about whom the message is for."""
BUSY_SECONDS, BUSY_MORE = 45.0, 0.2
"""So long after somebody else's line a question rather belongs to that talk: it has to be so much more open."""
BURST_SECONDS = 15.0
"""A line so soon after one's own is the rest of that; what goes on from an answer comes when it was read."""
_EARLIER = "an earlier message"
_ASKED = "Should {name} answer the last line? Score 1: called, asked or a fact wanted, 0: others' talk."
_HINT_CHARS = 32


class Heard(Protocol):
    """The message as perception reads it (`message.Message`)."""

    @property
    def text(self) -> str: ...
    @property
    def sender_id(self) -> str: ...
    @property
    def sender_name(self) -> str: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def reply_to(self) -> str | None: ...
    @property
    def mentions(self) -> tuple[str, ...]: ...


class Said(Protocol):
    """An earlier line of the chat as perception reads it (`lines.Line`); by: `user` or `bot`."""

    @property
    def by(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def reply_to(self) -> str | None: ...


class PlannerState(Protocol):
    """What perception needs of the planner's state (`state.PlannerState`); an empty vector is none."""

    @property
    def attention_vector(self) -> Sequence[float] | None: ...
    @property
    def attention_window_end(self) -> float: ...
    @property
    def model(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Tuning:
    """How perception decides in one chat.

    base_threshold: the score to exceed. cosine_floor: standard deviations above unrelated texts. persona_hint: one line
    on who the bot is. nicknames: what people call it beside its name. window_factor: of the threshold while the bot is
    attentive. plugin_override: a model in place of the role's. openness_floor: what a message that isn't for the bot
    must have (1: anyone could answer, -1: only those present).
    """

    base_threshold: float
    cosine_floor: float
    persona_hint: str
    bot_name: str
    nicknames: tuple[str, ...] = ()
    window_factor: float = 0.7
    plugin_override: str = ""
    openness_floor: float = -0.1

    @property
    def own(self) -> tuple[str, ...]:
        """What the bot is called."""
        return self.bot_name, *self.nicknames


@dataclass(frozen=True, slots=True)
class Perceived:
    """What came out, and why; what was not needed is None. usage, model and cost are those of the small model.

    vector: the message's, in the space of the embedding model `embedding`; () when none was made.
    """

    engage: bool
    reason: str
    score: float | None
    similarity: float | None
    floor: float | None
    threshold: float
    forced: bool
    usage: Usage | None = None
    model: str = ""
    cost: float | None = None
    vector: tuple[float, ...] = ()
    embedding: str = ""
    openness: float | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """Step 1: how near the message is to the topic, and how open. Both are None when nothing can be told.

    openness: about 1 when anyone who knows the subject could answer, -1 when only those present.
    """

    similarity: float | None = None
    floor: float | None = None
    vector: tuple[float, ...] = ()
    embedding: str = ""
    openness: float | None = None

    @property
    def far(self) -> bool:
        """The message has less to do with the topic than the floor wants."""
        return self.similarity is not None and self.floor is not None and self.similarity < self.floor


@dataclass(frozen=True, slots=True)
class Scored:
    """Step 2: the small model's score, None with the reason when there is none."""

    score: float | None
    reason: str
    usage: Usage | None = None
    model: str = ""
    cost: float | None = None


def perceive(
    message: Heard, lines: Sequence[Said], state: PlannerState, tuning: Tuning, *, force: bool, now: float
) -> Perceived:
    """Return whether the bot should care about `message`.

    lines: the chat's newest lines before it, oldest first. force: the bot is meant for certain, so no model is asked:
    no answer could change the result. now: seconds since 1970. Model errors don't leave it.
    """
    threshold = tuning.base_threshold * (tuning.window_factor if now < state.attention_window_end else 1.0)
    if force:
        return Perceived(True, "the bot is meant", None, None, None, threshold, True)
    earlier = recent(lines, message, now)
    if reason := for_others(message, lines, tuning):
        return _outcome(False, reason, Near(), Scored(None, ""), threshold)
    near, meant = nearness(message, state, tuning), for_the_bot(message, lines, tuning, now)
    if reason := "" if meant else filtered(message, near, earlier, tuning, now):
        return _outcome(False, reason, near, Scored(None, ""), threshold)
    scored = score(message, earlier, tuning, lines)
    if scored.score is None:
        return _outcome(False, f"no score: {scored.reason}", near, scored, threshold)
    engage = scored.score > threshold
    compared = f"score {_compared(scored.score, threshold)}"
    return _outcome(engage, f"{compared}: {scored.reason or 'no reason given'}", near, scored, threshold)


def recent(lines: Sequence[Said], message: Heard, now: float) -> list[Said]:
    """Return the lines the small model is shown, oldest first: the last of this talk, and the bot's last one with them.

    Whom the bot has just answered decides what a short "and in winter?" means, even when others spoke meanwhile.
    """
    own = message.message_id
    talk = [line for line in lines if now - line.at <= TALK_SECONDS and (own is None or line.message_id != own)]
    shown = talk[-LINES:]
    if not any(line.by == "bot" for line in shown):
        spoke = next((line for line in reversed(talk) if line.by == "bot"), None)
        shown = [spoke, *shown[1:]] if spoke is not None else shown
    return shown


def for_others(message: Heard, lines: Sequence[Said], tuning: Tuning) -> str:
    """Return why `message` is certainly not for the bot by its facts, "" when it may be.

    It quotes, mentions or calls a person and doesn't name the bot, or it says nothing: a picture, a link, a command.
    """
    said = bare(message.text)
    if not any(map(str.isalnum, said)):
        return "nothing said: a picture, a link or a sign"
    if said[0] in "/!！" and said[1:2].isalpha():
        return "a command for another bot"
    quoted = _quoted(message.reply_to, lines)
    if quoted is not None and quoted.by == "bot":
        return ""
    if names(said, tuning.own):
        return ""
    if quoted is not None and quoted.id != message.sender_id:
        return f"spoken to {quoted.name}: it quotes them"
    if message.mentions or (whom := mentioned(said)):
        return f"spoken to {whom if not message.mentions else 'another'}: it mentions them"
    others = (line.name for line in reversed(lines) if line.by == "user" and line.id != message.sender_id)
    whom = called_by(said, others, tuning.own)
    return f"spoken to {whom}: it calls them" if whom else ""


def for_the_bot(message: Heard, lines: Sequence[Said], tuning: Tuning, now: float) -> bool:
    """Tell whether `message` may be for the bot whatever it is about: it names it, answers it, or goes on asking it."""
    quoted = _quoted(message.reply_to, lines)
    answers = quoted.by == "bot" if quoted is not None else str(message.reply_to).startswith("bot:")
    if answers or names(bare(message.text), tuning.own):
        return True
    if not _just_answered(message, lines, now):
        return False
    before = next((line.at for line in reversed(lines) if line.id == message.sender_id and line.by == "user"), 0.0)
    return now - before >= BURST_SECONDS or asks(message.text) or wants(message.text)


def filtered(message: Heard, near: Near, earlier: Sequence[Said], tuning: Tuning, now: float) -> str:
    """Return why a message that isn't for the bot ends without a model, "" when it is one to be scored.

    It has to be near the topic, or to ask everybody in more than a few words; and it has to be something that not only
    those present could answer, the more so while others are talking.
    """
    asked = message.reply_to is None and units(message.text) >= SHORT and asks(message.text)
    if near.far and not asked:
        return f"far from the topic: {near.similarity:.3f} under {near.floor:.3f}"
    others = (line for line in earlier if line.by == "user" and line.id != message.sender_id)
    busy = any(now - line.at < BUSY_SECONDS for line in others)
    floor = tuning.openness_floor + (BUSY_MORE if busy else 0.0)
    if near.openness is not None and near.openness < floor:
        return f"for those present: openness {near.openness:.2f} under {floor:.2f}"
    return ""


def nearness(message: Heard, state: PlannerState, tuning: Tuning) -> Near:
    """Return how near `message` is to the chat's topic and how open; without a vector of it nothing is told."""
    if not message.text.strip():
        return Near()
    attention = state.attention_vector or ()
    try:
        scale = lumia.models.scale("query")
        vector = tuple(lumia.models.embed([_cut(message.text, EMBEDDED_CHARS)], input_type="query")[0])
        openness = lumia.models.openness(vector, "query")
    except (lumia.errors.ModelError, IndexError):
        return Near()
    known = Near(vector=vector, embedding=scale.model, openness=openness)
    if scale.model != state.model or len(vector) != len(attention) or not all(map(math.isfinite, vector)):
        return known
    similarity = round(cosine(vector, attention), 4)
    floor = round(scale.calibration.mean + tuning.cosine_floor * scale.calibration.std, 4)
    return replace(known, similarity=similarity, floor=floor)


def _just_answered(message: Heard, lines: Sequence[Said], now: float) -> bool:
    """Tell whether the bot's newest line of this talk answers the sender, and nobody has called them since."""
    spoke = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].by == "bot"), None)
    if spoke is None or now - lines[spoke].at > TALK_SECONDS:
        return False
    answered = _quoted(lines[spoke].reply_to, lines)
    if answered is None or answered.id != message.sender_id:
        return False
    since = [line for line in lines[spoke + 1 :] if line.by == "user" and line.id != message.sender_id]
    return not any(called_by(line.text, [message.sender_name], ()) for line in since)


def _compared(score: float, threshold: float) -> str:
    """Return how a score stands to its threshold, with as many digits as it takes to see it."""
    how = "over" if score > threshold else "under" if score < threshold else "at"
    digits = next((n for n in (2, 3, 4) if f"{score:.{n}f}" != f"{threshold:.{n}f}"), 2)
    return f"{score:.{digits}f} {how} {threshold:.{digits}f}"


def score(message: Heard, earlier: Sequence[Said], tuning: Tuning, lines: Sequence[Said] = ()) -> Scored:
    """Ask the small model for the relevance of `message`; whatever goes wrong is a reason, not an error."""
    try:
        reply = lumia.models.chat(
            "small",
            prompt(message, earlier, tuning, lines),
            system=system(tuning),
            output_type=Relevance,
            key="relevance",
            plugin_override=tuning.plugin_override or None,
        )
    except lumia.errors.ModelError as error:
        return Scored(None, " ".join(str(error).split())[:200])
    output = reply.output
    if not isinstance(output, Relevance):
        return Scored(None, "the small model gave no score", reply.usage, reply.model, reply.cost)
    reason = " ".join(output.reason.split())[:120]
    return Scored(output.relevance_score, reason, reply.usage, reply.model, reply.cost)


def system(tuning: Tuning) -> str:
    """Return the system text: who the bot is in a line, its names, and what is asked."""
    called = f" ({', '.join(tuning.nicknames)})" if tuning.nicknames else ""
    hint = " ".join(tuning.persona_hint.replace("{name}", tuning.bot_name).split())[:_HINT_CHARS]
    return f"{_ASKED.format(name=f'{tuning.bot_name}{called}')} {hint}".strip()


def prompt(message: Heard, earlier: Sequence[Said], tuning: Tuning, lines: Sequence[Said] = ()) -> list[dict[str, str]]:
    """Return chat messages `{role, content, name?}`: a few lines before the message, cut short, and the message.

    lines: more of them, which may tell whom a line answers.
    """
    known = lines or earlier
    shown = [_shown(line, _answered(line, known, tuning), LINE_CHARS, tuning) for line in earlier]
    quoted = _quoted(message.reply_to, known)
    to = _called(quoted, tuning) if quoted is not None else _unseen(message.reply_to, tuning)
    return [*shown, _line(message.sender_name, message.sender_id, message.text, to, MESSAGE_CHARS, tuning)]


def _shown(line: Said, to: str, limit: int, tuning: Tuning) -> dict[str, str]:
    if line.by == "bot":
        return {"role": "assistant", "content": spoken(_cut(line.text, limit), to)}
    return _line(line.name, line.id, line.text, to, limit, tuning)


def _line(name: str, id: str, text: str, to: str, limit: int, tuning: Tuning) -> dict[str, str]:
    content = spoken(_cut(text, limit) or "(no text)", to)
    return {"role": "user", "name": _person(name, id, tuning), "content": content}


def _person(name: str, id: str, tuning: Tuning) -> str:
    """Return a person's name; one that looks like the bot's has the id behind it."""
    own, shown = {look(one) for one in tuning.own}, visible(name)
    return f"{shown} ({id[-12:]})" if look(shown) in own else shown or id


def _answered(line: Said, earlier: Sequence[Said], tuning: Tuning) -> str:
    """Return whom a line answers, "" when it is nobody or the line is no longer shown."""
    found = _quoted(line.reply_to, earlier)
    return _called(found, tuning) if found is not None and found is not line else ""


def _called(line: Said, tuning: Tuning) -> str:
    return tuning.bot_name if line.by == "bot" else _person(line.name, line.id, tuning)


def _quoted(reply_to: str | None, earlier: Sequence[Said]) -> Said | None:
    """Return the line that is quoted, if it is shown; `bot:<id>` is the bot's answer to message `id`."""
    if reply_to is None:
        return None
    for line in reversed(earlier):
        if line.message_id == reply_to or (line.by == "bot" and reply_to == f"bot:{line.reply_to}"):
            return line
    return None


def _unseen(reply_to: str | None, tuning: Tuning) -> str:
    """Return whom a quote of a line that isn't shown answers."""
    if reply_to is None:
        return ""
    return tuning.bot_name if reply_to.startswith("bot:") else _EARLIER


def _cut(text: str, limit: int) -> str:
    """Return a text on one line, at most `limit` characters of it: beginning and end, where a question stands."""
    line = " ".join(text[: 8 * limit].split()) if len(text) <= 8 * limit else " ".join(
        f"{text[: 4 * limit]} {text[-4 * limit :]}".split()
    )  # fmt: skip
    return line if len(line) <= limit else f"{line[: limit * 2 // 3]} … {line[-limit // 3 :]}"


def _outcome(engage: bool, reason: str, near: Near, scored: Scored, threshold: float) -> Perceived:
    return Perceived(
        engage, reason, scored.score, near.similarity, near.floor, threshold, False, scored.usage, scored.model,
        scored.cost, near.vector, near.embedding, near.openness,
    )  # fmt: skip
