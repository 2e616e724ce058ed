"""`lumia replay`: recorded runs again, offline beside their record, or live as new runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lumia.cli import output
from lumia.errors import UnknownRunError
from lumia.lookup import Lookup
from lumia.marks import command
from lumia.replay import RecordedTree, Summary, TreeReplay, recorded
from tasks import explain_commands as explain
from tasks.explain_commands import File, Group, Id, Json, Outcome, Since, Until

if TYPE_CHECKING:
    from lumia.history import RunFilter
    from lumia.journal import JournalEntry

DIFFERENT = 1
"""Exit code of `--strict` when something differs, or nothing could be replayed."""
TELL_EVERY = 1.0
T = TypeVar("T")


@command("replay", help="Run recorded runs again with today's code and show what differs.")
def replay_command(
    *runs: Annotated[str, "Runs or message ids; those that the options choose if not given"],
    id: Id = "*",
    group: Group = "",
    outcome: Outcome = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(min=1, max=explain.MOST, help="How many run trees at most.")] = explain.MOST,
    file: File = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when anything differs.")] = False,
    jobs: Annotated[int, typer.Option(min=0, max=256, help="Processes; 0 for one per core.")] = 0,
    on_load: Annotated[
        bool, typer.Option("--on-load", help="Run on_load of all plugins, not only of those that provide services.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Start them again as new runs of the running bot.")] = False,
    send: Annotated[bool, typer.Option("--send", help="With --live: let them send.")] = False,
    rate: Annotated[str, typer.Option(metavar="N/s", help="With --live: how many to start a second.")] = "5/s",
    as_json: Json = False,
) -> int:
    """Replay whole run trees: offline, from their record, and compare decisions, outputs and cost.

    Offline nothing outside is reached: effects, reads and the time come from the record, ids and chance follow from
    the run. With --live the workers serve them as new runs, in lanes of their own, and sends are held unless --send.

    Exit codes: 0, with --strict only when nothing differs; 1 with --strict when something does or nothing could be
    replayed; 2 for wrong usage.

    Example: lumia replay --group 7 --since 2h --strict
    """
    per_second = _rate(rate)
    if send and not live:
        raise typer.BadParameter("sends happen only with --live; offline nothing is ever sent", param_hint="--send")
    if live and strict:
        raise typer.BadParameter("a live replay compares nothing; leave it out with --live", param_hint="--strict")
    chosen = bool(id != "*" or group or outcome or since or until)
    if not (runs or chosen or file):
        raise typer.BadParameter("name runs, or choose some by --since, --id, --group or --outcome", param_hint="RUN")
    wanted = explain._wanted(id, group, outcome, since, until, limit, trees=id == "*")
    trees = _of_file(file, runs, wanted) if file else _of_bot(runs, wanted)
    if not trees:
        raise UnknownRunError("no run matches, so there is nothing to replay; `lumia runs` lists what there is")
    if live:
        return _live(trees, send=send, rate=per_second, as_json=as_json)
    found, summary = _offline(trees, jobs, on_load=on_load)
    _report(found, summary, as_json)
    return DIFFERENT if strict and (summary.differences or not summary.trees) else 0


def _rate(text: str) -> float:
    number, _, unit = text.partition("/")
    try:
        rate = float(number)
    except ValueError:
        rate = 0.0
    per = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0}.get(unit, 0.0)
    if not 0 < rate < 1e6 or not per:
        raise typer.BadParameter(f"{text!r} is no rate such as 5/s or 30/m", param_hint="--rate")
    return rate / per


# --- what is replayed


def _of_file(file: str, runs: Sequence[str], wanted: RunFilter) -> list[RecordedTree]:
    from lumia.exports import read

    export = read(explain.exported(file))
    roots = set(explain._roots(Lookup(export.history), tuple(runs), wanted))
    return [tree for tree in recorded(export.entries) if tree.root_id in roots]


def _of_bot(runs: Sequence[str], wanted: RunFilter) -> list[RecordedTree]:
    with explain._source("") as source:
        roots = explain._roots(source.lookup, tuple(runs), wanted)
        entries = (source.lookup.history.entries(root) for root in _told(roots, len(roots), "read"))
        found = [entry for tree in entries for entry in tree]
        more = _origins(source.lookup, recorded(found), roots)
    return [tree for tree in recorded([*found, *more]) if tree.root_id in set(roots)]


def _origins(lookup: Lookup, trees: Iterable[RecordedTree], roots: Sequence[str]) -> list[JournalEntry]:
    """Return the entries of the runs whose dead letters were retried as some of `trees`, as far as they are known."""
    found: list[JournalEntry] = []
    for origin in {tree.origin for tree in trees} - {""}:
        with suppress(UnknownRunError):
            root = lookup.one(origin).root_id
            found += lookup.history.entries(root) if root not in roots else []
    return found


def _told(items: Iterable[T], number: int, verb: str) -> Iterator[T]:
    """Yield the items and tell on a terminal, once a second, how far it is."""
    told = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        if time.monotonic() - told > TELL_EVERY and sys.stderr.isatty():
            told = time.monotonic()
            output.note(f"{verb} {count} of {number}")


# --- offline


def _offline(trees: list[RecordedTree], jobs: int, *, on_load: bool) -> tuple[list[TreeReplay], Summary]:
    from lumia.replay.code import todays_code
    from lumia.replay.parallel import replay_all

    summary, found = Summary(), []
    with redirect_stdout(sys.stderr), todays_code(on_load=on_load) as (bot, table), output.quiet():
        assert bot.plugins is not None
        for failure in bot.plugins.failures:
            output.warn(str(failure))
        began = time.perf_counter()
        for tree in _told(replay_all(bot, table, trees, jobs), len(trees), "replayed"):
            summary.add(tree)
            if tree.differences or tree.skipped or tree.notes:
                found.append(tree)
        summary.seconds = time.perf_counter() - began
    return sorted(found, key=lambda tree: tree.root_id), summary


def _report(found: list[TreeReplay], summary: Summary, as_json: bool) -> None:
    from lumia.cli import differences

    different = [tree for tree in found if tree.differences]
    if as_json:
        skipped = {tree.root_id: tree.skipped for tree in found if tree.skipped}
        notes = {tree.root_id: tree.notes for tree in found if tree.notes}
        told = {"different": [tree.as_dict() for tree in different], "skipped": skipped, "notes": notes}
        output.data({"summary": summary.as_dict(), **told})
        return
    differences.show(different)
    differences.show_summary(summary)


# --- live


def _live(trees: list[RecordedTree], *, send: bool, rate: float, as_json: bool) -> int:
    from lumia.cli.opened import opened
    from lumia.replay.live import restart

    done: list[Any] = []
    with opened() as bot:
        for one in restart(bot, trees, send=send, rate=rate):
            done.append(one)
            if as_json:
                output.data({"run_id": one.run_id, "new_id": one.new_id, "skipped": one.why})
            elif one.why:
                output.warn(f"run {one.run_id} is not started again: {one.why}")
            else:
                output.text(f"{one.run_id} {one.new_id}")
    started = sum(not one.why for one in done)
    output.note(f"{started} of {len(done)} runs started again, sends {'go out' if send else 'are held'}")
    return 0 if started else 1
