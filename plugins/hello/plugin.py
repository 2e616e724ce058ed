"""A small plugin to copy from: answers `!ping`, `!roll 2d6` and `!stats` before heartflow sees them.

It shows a pipeline handler, an event consumer, a cron handler and the store; `test_plugin.py` tests it in five lines.
"""

from __future__ import annotations

import re
from typing import Any

import lumia

ROLL = re.compile(r"!roll (\d{1,2})d(\d{1,4})", re.ASCII)


@lumia.pipe.on("msg", priv=300)
def commands(content: lumia.Box[dict[str, Any]]) -> None:
    """Answer a command and end the chain; pass everything else on."""
    msg = content.into()
    answer = answer_to(lumia.payloads.text_of(msg).strip())
    if answer is None:
        lumia.utils.next()
        return
    reply(msg, answer)
    lumia.utils.stop("answered a command")


@lumia.event.consumer_re("msg.send, dest=*")
def count_sent(src: str, content: lumia.Box[Any]) -> None:
    """Count every message the bot sends, whoever wrote it; committed with the step, so never twice."""
    lumia.store.incr("sent")


@lumia.cron("0 0 * * *")
def new_day(content: lumia.Box[dict[str, Any]]) -> None:
    """Start the count anew at midnight."""
    lumia.store.set("sent_yesterday", lumia.store.get("sent", 0))
    lumia.store.delete("sent")


def answer_to(text: str) -> str | None:
    """Return the answer to a command, or None when `text` is none."""
    if text == "!ping":
        return "pong"
    if text == "!stats":
        return f"sent today: {lumia.store.get('sent', 0)}, yesterday: {lumia.store.get('sent_yesterday', 0)}"
    rolled = ROLL.fullmatch(text)
    return roll(int(rolled[1]), int(rolled[2])) if rolled else None


def roll(dice: int, sides: int) -> str:
    """Return the throw as `3 + 5 = 8`; the randomness is Lumia's, so a replayed run throws the same."""
    if not dice or not sides:
        return "a throw needs at least one die with one side, like !roll 2d6"
    thrown = [1 + int(lumia.system.random() * sides) for _ in range(dice)]
    return f"{' + '.join(map(str, thrown))} = {sum(thrown)}"


def reply(msg: dict[str, Any], text: str) -> None:
    """Send `text` to where `msg` came from, through the account that received it."""
    content = lumia.Box.any({"text": text}, meta={"account": msg["account"]})
    lumia.event.start(lumia.payloads.reply_to(msg), content)
