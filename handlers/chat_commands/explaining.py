"""`/why` in plain words: what the decisions about one message say, in the language of who asks.

Decisions begin with stable words (docs/heartflow.md); a reason that has none of them is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from .asking import OWNER, Asked
from .wording import duration, shown

Say = Callable[..., str]
"""`say(key, **values)` in the asker's language."""

_TAIL = r"(?:: *(?P<why>.+))?"
_SCORE = (
    (r"score (?P<a>[\d.]+) \w+ (?P<b>[\d.]+): *(?P<why>.+)", "because.score.why"),
    (r"score (?P<a>[\d.]+) \w+ (?P<b>[\d.]+)", "because.score"),
)
_OTHER = ((r"(?P<why>.*)", "because.other"),)
_SILENT = (
    (r"own message\b", "because.own"),
    (r"cooldown:(?:.* of (?P<of>[\d.]+) s left)?", "because.cooldown"),
    (r"blacklist\b", "because.blacklist"),
    (r"message type not handled" + _TAIL, "because.type"),
    (r"rate limit" + _TAIL, "because.rate"),
    (r"paused\b", "because.paused"),
    (r"another bot\b", "because.bot"),
    (r"an echo\b", "because.echo"),
    (r"far from the topic\b", "because.far"),
    (r"late\b", "because.late"),
    (r"no score\b" + _TAIL, "because.unscored"),
    *_SCORE,
    (r"budget" + _TAIL, "because.budget"),
    (r"joined\b", "because.joined"),
    (r"not worth a reply\b", "because.worth"),
    (r"not addressed\b", "because.unaddressed"),
    *_OTHER,
)
_SPOKEN = (
    (r"(?:addressed|mention|private|forced)", "because.addressed"),
    (r"it answers everything here\b", "because.everything"),
    *_SCORE,
    *_OTHER,
)
_TO_OTHERS = {"because.budget": "because.limit", "because.unscored": "because.unscored.short"}
"""What others than an owner are told instead: money and errors are none of their business."""
_MEANINGS = {
    spoke: [(re.compile(pattern, re.DOTALL), key) for pattern, key in table]
    for spoke, table in ((False, _SILENT), (True, _SPOKEN))
}


def explain(
    asked: Asked, found: Sequence[Any], language: str, say: Say, *, now: float, sent: Callable[[str], bool],
    answered: str | None = None,
) -> str:  # fmt: skip
    """Return why the bot spoke or kept silent: about the quoted message, or the last one without a quote.

    found: decisions of the chat, oldest first; sent: tells whether a message got an answer; answered: the message that
    the quoted one, the bot's, answers.
    """
    wanted = {one for one in (asked.reply_to, answered) if one}
    of_it = [one for one in found if one.message_id in wanted] if wanted else _newest(found)
    if not of_it:
        return say("why.unknown" if wanted else "why.nothing")
    last, spoke = of_it[-1], all(one.engaged for one in of_it)
    ago = duration(language, now - last.at)
    about = say("why.about", who=_who(asked, last, found, say), text=shown(last.text, 80), ago=ago)
    owner = asked.role == OWNER and asked.private
    told = say("why.spoke" if spoke else "why.silent", sentence=meaning(last.reason, say, spoke=spoke, owner=owner))
    if spoke and answered is None and last.message_id and not sent(last.message_id):
        told = say("why.unsent") + (say("why.unsent.trace", run=shown(last.run_id)) if owner else "")
    return f"{about}\n{told}"


def meaning(reason: str, say: Say, *, spoke: bool, owner: bool) -> str:
    """Return what a decision's reason means; owner: nobody else, and no group, is told of money and errors."""
    for pattern, key in _MEANINGS[spoke]:
        met = pattern.match(reason)
        if met is not None:
            values = {name: shown(value or "…", 160) for name, value in met.groupdict().items()}
            if key == "because.other" and not owner:
                values = {"why": shown(reason.partition(":")[0], 60)}
            return say(key if owner else _TO_OTHERS.get(key, key), **values)
    raise AssertionError("the last pattern matches everything")


def _newest(found: Sequence[Any]) -> list[Any]:
    return [one for one in found if _key(one) == _key(found[-1])]


def _key(decision: Any) -> tuple[str, str]:
    return ("message", decision.message_id) if decision.message_id else ("run", decision.run_id)


def _who(asked: Asked, decision: Any, found: Sequence[Any], say: Say) -> str:
    """Return what to call the sender: with the id behind the name where another one is called the same."""
    if decision.sender_id == asked.sender_id:
        return say("why.you")
    name = shown(decision.sender_name or decision.sender_id, 40)
    named = {(one.sender_id, shown(one.sender_name, 40).casefold()) for one in found}
    named.add((asked.sender_id, shown(asked.sender_name, 40).casefold()))
    twins = {id for id, other in named if other == name.casefold()} - {decision.sender_id}
    return f"{name} ({shown(decision.sender_id, 40)})" if twins else name
