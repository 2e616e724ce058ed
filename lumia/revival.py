"""Dealing with dead letters: find them by what an operator types, start them again, drop them (DESIGN §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumia import inbox
from lumia.dead import AS_RUN, DROPPED, MAX_LETTERS, RETRIED, RETRY, DeadFilter, DeadLetter
from lumia.errors import BoxError, DeadLetterError
from lumia.journal import JournalEntry, clean
from lumia.ports import RunRequest
from lumia.routes import Plan
from lumia.system import new_id

if TYPE_CHECKING:
    from lumia.runtime import Runtime


def find(bot: Runtime, text: str) -> DeadLetter:
    """Return the letter that `text` names: `<run>.<step>`, a run, or the beginning of one that fits no other letter.

    A letter whose retry came to nothing has another run's name; the name it had first finds it, too. Raises
    `DeadLetterError` when there is none, or more than one.
    """
    found = bot.transport.dead(DeadFilter(letters=(text,), limit=10)) if text else []
    if text and not found:
        retried = bot.transport.dead(DeadFilter(limit=MAX_LETTERS))
        found = [letter for letter in retried if letter.retry_of and letter.first_name.startswith(text)]
    exact = [letter for letter in found if letter.name == text]
    found = exact or [letter for letter in found if letter.run_id == text] or found
    if not found:
        raise DeadLetterError(
            f"no dead letter is named {text!r}; `lumia dead list` shows those there are, and `lumia trace` of its run "
            "what became of one that was retried or dropped"
        )
    if len(found) > 1:
        names = ", ".join(letter.name for letter in found)
        raise DeadLetterError(f"{text!r} fits several dead letters, give more of the name: {names}")
    return found[0]


def retry(bot: Runtime, letter: DeadLetter) -> str:
    """Start a letter's step again, and what would have followed it, as a new run; return the run's id.

    It has the Box and the lane of the letter, and all its tries; events that were to begin beside it begin, too.
    Effects that are done are not made again. The letter is removed in the same moment, so retried twice it is started
    once.

    Raises `DeadLetterError` for a letter that can't be retried, or is gone.
    """
    request = _request(bot, letter, new_id())
    requests = [request, *inbox.twins(bot.table, letter.priority, letter.beside)]
    if not bot.transport.dead_retry(letter, requests, _entry(letter, RETRIED, f"{AS_RUN}{request.run_id}")):
        raise DeadLetterError(f"dead letter {letter.name} is gone: it was retried or dropped meanwhile")
    return request.run_id


def drop(bot: Runtime, letter: DeadLetter, reason: str) -> None:
    """Remove a letter for good; the journal says why. Raises `DeadLetterError` when it is gone."""
    if not bot.transport.dead_drop(letter, _entry(letter, DROPPED, reason)):
        raise DeadLetterError(f"dead letter {letter.name} is gone: it was retried or dropped meanwhile")
    from lumia.adapters import sends  # only who gives up a letter needs it

    sends.dropped(bot, letter.ledger.rpartition("/")[0])


def _request(bot: Runtime, letter: DeadLetter, run_id: str) -> RunRequest:
    if letter.arc or not letter.box:
        raise DeadLetterError(
            f"dead letter {letter.name} can't be retried: its Box held a live resource, which ended with its process; "
            f"cause {letter.id!r} anew, then `lumia dead drop {letter.name}`"
        )
    _check(bot, letter)
    return RunRequest(
        run_id, letter.flow or "pipe", letter.id, _plan(bot, letter), letter.box, key=letter.key,
        cause=f"{RETRY}{letter.run_id}", root_id=run_id, attached=False, priority=letter.priority,
        retry_of=letter.ledger, hold=letter.hold,
    )  # fmt: skip


def _check(bot: Runtime, letter: DeadLetter) -> None:
    """Raise `DeadLetterError` for a Box that another bot's secret has signed: the retry could only fail."""
    from lumia.box import Box

    try:
        Box.load(letter.box, bot.secret)
    except BoxError as error:
        raise DeadLetterError(f"dead letter {letter.name} can't be retried: its Box can't be read: {error}") from error


def _plan(bot: Runtime, letter: DeadLetter) -> Plan:
    """Return what is left to do: as it was planned, or where that is lost, as it would be planned today."""
    if letter.plan:
        return Plan.parse(letter.plan)
    whole = bot.routes.plan(letter.flow or "pipe", letter.id)
    if not letter.handler and whole.steps:  # it was given up before it was planned
        return whole
    steps = whole.steps
    for index, step in enumerate(steps):
        if step.handler == letter.handler:
            return Plan.of(steps[index:] if step.kind in ("pipe", "interceptor") else [step])
    raise DeadLetterError(
        f"dead letter {letter.name} can't be retried: its plan is lost, and today {letter.handler} does not handle "
        f"{letter.id!r}; load its plugin, or start {letter.id!r} anew"
    )


def _entry(letter: DeadLetter, outcome: str, reason: str) -> JournalEntry:
    return JournalEntry(
        "dead", letter.run_id, letter.root_id or letter.run_id, letter.id, letter.key, letter.step, letter.handler,
        outcome, clean(reason), attempt=letter.attempts,
    )  # fmt: skip
