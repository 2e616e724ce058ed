"""A dead letter as people read it and as JSON: its tries, its error, its Box, with secrets hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from lumia.box import Box
from lumia.dead import DeadLetter, Failure
from lumia.errors import LumiaError
from lumia.redaction import cleaned, shown
from lumia.routes import Plan
from lumia.runtime import Runtime


def group_of(letter: DeadLetter) -> str:
    """Return the letter's chat, or its lane, "-" without one."""
    return letter.key.rpartition(":")[2] or letter.key or "-"


def as_json(bot: Runtime, letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as `--json` prints it."""
    found = letter.as_dict()
    del found["plan"]
    found |= {
        "letter": letter.name,
        "first_letter": letter.first_name,
        "box": content(bot, letter),
        "beside": [id for id, _ in letter.beside],
        "left": left(letter),
        "retryable": not letter.arc,
    }
    found["error"], found["trace"] = bot.redact(letter.error), bot.redact(letter.trace)
    for failure in found["history"]:
        failure["error"] = bot.redact(failure["error"])
    return found


def as_lines(bot: Runtime, letter: DeadLetter) -> Iterator[str]:
    """Yield a letter as `lumia dead show` prints it."""
    yield f"letter   {letter.name}"
    if letter.retry_of:
        yield f"retry of {letter.first_name}"
    yield f"step     {letter.handler}, step {letter.step} of {letter.flow or 'run'} {letter.id!r}"
    if letter.key:
        yield f"lane     {letter.key}"
    if letter.root_id not in ("", letter.run_id):
        yield f"tree of  {letter.root_id}"
    yield f"given up {when(letter.time)}, tries: {letter.attempts}"
    yield f"error    {bot.redact(letter.error)}"
    yield f"retry    {_retry(letter)}"
    if letter.beside:
        yield f"beside   a retry also begins {', '.join(id for id, _ in letter.beside)}"
    yield ""
    yield from (_try(bot, failure) for failure in letter.history)
    yield from ("", *bot.redact(letter.trace).splitlines()) if letter.trace else ()
    yield from ("", "Box", *_indented(content(bot, letter)))


def _retry(letter: DeadLetter) -> str:
    if letter.arc:
        return "not possible: its live resource ended with its process"
    return " → ".join(left(letter)) or "as it is planned today (the old plan is lost)"


def _try(bot: Runtime, failure: Failure) -> str:
    how = "lost" if failure.lost else "failed"
    return f"try {failure.attempt}  {when(failure.time)}  {how}  {failure.worker or '-'}  {bot.redact(failure.error)}"


def left(letter: DeadLetter) -> list[str]:
    """Return the handlers that a retry runs."""
    return [step.handler for step in Plan.parse(letter.plan).steps] if letter.plan else []


def content(bot: Runtime, letter: DeadLetter) -> Any:
    """Return the Box's value as JSON with secrets hidden; what can't be shown is described."""
    if letter.arc:
        return "<a live resource>"
    try:
        box = Box.load(letter.box, bot.secret)
        value = shown(box, bot.redact)
    except LumiaError as error:
        return f"<unreadable: {error}>"
    return {"value": value, "meta": cleaned(box.meta, bot.redact)[0]} if box.meta else value


def _indented(value: Any) -> list[str]:
    return [f"  {line}" for line in json.dumps(value, ensure_ascii=False, indent=2).splitlines()]


def when(seconds: float) -> str:
    """Return a time as people here read it."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
