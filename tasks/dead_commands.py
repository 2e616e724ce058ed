"""`lumia dead list | show | retry | drop`: what was given up, and what an operator does about it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lumia import revival
from lumia.cli import output
from lumia.cli.opened import opened
from lumia.dead import MAX_LETTERS, DeadFilter, DeadLetter
from lumia.errors import LumiaError
from lumia.marks import command
from lumia.runtime import Runtime
from tasks.asked import period
from tasks.letter_text import as_json, as_lines, group_of

MANY = 1
"""Up to so many letters are dealt with unasked, when they were given by name."""
WIDTH = 60

Id = Annotated[str, typer.Option("--id", metavar="GLOB", help="Ids of the runs, e.g. 'msg*'.")]
Handler = Annotated[str, typer.Option("--handler", metavar="GLOB", help="Handlers, e.g. 'heartflow.*'.")]
Group = Annotated[str, typer.Option("--group", help="A lane's key, or its last part, e.g. group-42.")]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="Not older: 2h, yesterday, 2026-11-22T10:30.")]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="Not younger, as --since.")]
Error = Annotated[str, typer.Option("--error", metavar="TEXT", help="Errors that contain this text.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON for a machine.")]
Letter = Annotated[str, typer.Argument(metavar="LETTER", help="<run>.<step>, or a beginning of it that fits one only.")]
Letters = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LETTER]...", help="<run>.<step>, or a beginning of it that fits one only."),
]
All = Annotated[bool, typer.Option("--all", help="Every dead letter there is.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before dealing with several.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many, the newest ones.")]


@command("dead list", help="List what was given up: dead letters, newest first.")
def dead_list(
    id: Id = "*", handler: Handler = "*", group: Group = "", since: Since = "", until: Until = "", error: Error = "",
    limit: Limit = 50, as_json_: AsJson = False,
) -> int:  # fmt: skip
    """List dead letters, newest first.

    Example: lumia dead list --handler 'heartflow.*' --since 2h --json
    """
    wanted = _filter(id, handler, group, since, until, error, limit)
    with opened() as bot:
        found = bot.transport.dead(wanted)
        if as_json_:
            output.data([as_json(bot, letter) for letter in found])
        else:
            headers = ["LETTER", "WHEN", "HANDLER", "ID", "GROUP", "TRIES", "ERROR"]
            if found:
                output.table(headers, [_row(one) for one in found])
            else:
                output.note("no dead letter fits")
            if len(found) == limit:
                output.note(f"only the newest {limit} are shown; --limit shows more")
    return 0


@command("dead show", help="Show a dead letter: every try, the error, its Box.")
def dead_show(letter: Letter, as_json_: AsJson = False) -> int:
    """Show one dead letter with its tries, the traceback and its Box; secrets are hidden.

    Example: lumia dead show 01m7zv0k3q
    """
    with opened() as bot:
        found = revival.find(bot, letter)
        if as_json_:
            output.data(as_json(bot, found))
        else:
            for line in as_lines(bot, found):
                output.text(line)
    return 0


@command("dead retry", help="Start dead letters again, from the step that failed.")
def dead_retry(
    letters: Letters = None, id: Id = "*", handler: Handler = "*", group: Group = "", since: Since = "",
    until: Until = "", error: Error = "", all_: All = False, yes: Yes = False, limit: Limit = MAX_LETTERS,
    as_json_: AsJson = False,
) -> int:  # fmt: skip
    """Start the failed step again with the Box it had, in its lane, and go on from there; the letter is gone then.

    Calls to the outside world that are recorded as done are not made again. The exit code is 1 when one could not be
    retried; it keeps its letter.

    Example: lumia dead retry --error 'rate limit' --since 2h --yes
    """
    wanted = _filter(id, handler, group, since, until, error, limit)
    with opened() as bot:
        found = _chosen(bot, letters or [], wanted, all_)
        if not _agreed("retry", found, letters or [], yes):
            return 1
        return _each(found, lambda letter: revival.retry(bot, letter), "run", as_json_)


@command("dead drop", help="Remove dead letters for good.")
def dead_drop(
    letters: Letters = None, id: Id = "*", handler: Handler = "*", group: Group = "", since: Since = "",
    until: Until = "", error: Error = "", all_: All = False, yes: Yes = False, limit: Limit = MAX_LETTERS,
    reason: Annotated[str, typer.Option("--reason", help="Why; the journal keeps it.")] = "dropped by hand",
    as_json_: AsJson = False,
) -> int:  # fmt: skip
    """Remove dead letters; what they stand for is not done. The journal keeps that it was dropped, and why.

    Example: lumia dead drop 01m7zv0k3q --reason 'spam, nobody waits for it'
    """
    wanted = _filter(id, handler, group, since, until, error, limit)
    with opened() as bot:
        found = _chosen(bot, letters or [], wanted, all_)
        if not _agreed("drop", found, letters or [], yes):
            return 1
        return _each(found, lambda letter: revival.drop(bot, letter, reason), "", as_json_)


def _filter(
    id: str, handler: str, group: str, since: str, until: str, error: str, limit: int
) -> DeadFilter:  # fmt: skip
    begin, end = period(since, until)
    return DeadFilter((), id, handler, group, error, begin, end or math.inf, limit)


def _chosen(bot: Runtime, names: Sequence[str], wanted: DeadFilter, all_: bool) -> list[DeadLetter]:
    """Return the letters named, or those a filter finds; raises a usage error when nothing says which."""
    filtered = replace(wanted, limit=0) != DeadFilter(limit=0)
    if bool(names) + (filtered or all_) != 1:
        raise typer.BadParameter(
            "give letters by name, or choose them by --id, --handler, --group, --since, --until, --error or --all; "
            "e.g. --handler 'heartflow.*' --since 2h",
            param_hint="LETTER",
        )
    if names:
        return list({letter.name: letter for letter in (revival.find(bot, name) for name in names)}.values())
    return bot.transport.dead(wanted)


def _agreed(what: str, found: Sequence[DeadLetter], names: Sequence[str], yes: bool) -> bool:
    """Ask before dealing with what a filter found, or with several; without a terminal --yes has to be given."""
    if not found:
        output.note("no dead letter fits")
        return False
    if yes or (names and len(found) <= MANY):
        return True
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"{len(found)} dead letters fit, and nobody can be asked here: add --yes", param_hint="--yes"
        )
    for letter in found[:10]:
        output.note(f"{letter.name}  {letter.handler}  {_short(letter.error)}")
    more = f" (10 of {len(found)} shown)" if len(found) > 10 else ""
    return typer.confirm(f"{what} {len(found)} dead letter{'s' * (len(found) > 1)}{more}?", err=True)


def _each(found: Sequence[DeadLetter], act: Callable[[DeadLetter], Any], made: str, as_json_: bool) -> int:
    """Deal with each letter, oldest first, so that a lane keeps its order; one that fails stops none of the others."""
    rows, failed = [], 0
    for letter in reversed(found):
        try:
            result = act(letter)
        except LumiaError as error:
            failed += 1
            output.error(str(error))
            rows.append({"letter": letter.name, "error": str(error)})
            continue
        rows.append({"letter": letter.name, **({made: result} if made else {})})
        if not as_json_:
            output.text(f"{letter.name}\t{result}" if made else letter.name)
    if as_json_:
        output.data(rows)
    return 1 if failed else 0


def _row(letter: DeadLetter) -> list[object]:
    when = datetime.fromtimestamp(letter.time, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return [letter.name, when, letter.handler, letter.id, group_of(letter), letter.attempts, _short(letter.error)]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"
