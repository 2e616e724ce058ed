"""`lumia lanes` and `lumia cancel`: who waits for whom, and ending a run."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from lumia.cli import output
from lumia.cli.opened import opened
from lumia.lanes import LaneInfo, LaneReport
from lumia.marks import PRIVATE_PREFIX, command
from tasks.asked import run_named


@command("lanes", help="Show the lanes that are not idle: what runs, what waits, and for how long.")
def lanes_command(
    group: Annotated[str, typer.Option("--group", metavar="PATTERN", help="Keys, e.g. '*group-42'.")] = "*",
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many lanes.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> int:
    """Show every lane with a run in flight, runs that wait, or a burst that is collected; the longest first.

    Example: lumia lanes --group '*group-42' --json
    """
    with opened() as bot:
        report = bot.transport.lanes(group, limit)
        inbox = bot.transport.inbox
        kept, oldest = inbox.waiting() if inbox is not None else (0, 0.0)
        unserved = [one for one in bot.transport.backlog(PRIVATE_PREFIX) if one.waiting and not one.served]
    if as_json:
        lanes = [asdict(lane) for lane in report.lanes]
        output.data(
            {"lanes": lanes, "totals": dict(report.totals), "unserved": [asdict(one) for one in unserved],
             "inbox": {"waiting": kept, "oldest": round(oldest, 3)}}
        )  # fmt: skip
        return 0
    headers = ["LANE", "WAITING", "OLDEST", "COLLECTING", "IN FLIGHT", "SINCE"]
    if report.lanes:
        output.table(headers, [_row(lane) for lane in report.lanes])
    output.note(_totals(report))
    if kept:
        output.note(f"the inbox holds {kept} more, accepted and still to be begun, the first one for {oldest:.1f} s")
    for one in unserved:
        output.warn(f"{one.name}: {one.waiting} waiting, the first one for {one.oldest:.0f} s: no gateway has this "
                    "account's connection; see `lumia adapters`")  # fmt: skip
    return 0


def _row(lane: LaneInfo) -> list[str]:
    since = datetime.fromtimestamp(lane.since, UTC).strftime("%Y-%m-%d %H:%M:%S") if lane.run else ""
    oldest = f"{lane.oldest:.1f} s" if lane.waiting else "-"
    return [lane.key, str(lane.waiting), oldest, str(lane.collecting), lane.run or "-", since]


def _totals(report: LaneReport) -> str:
    counted = ", ".join(f"{count} {name}" for name, count in report.totals.items())
    return f"{len(report.lanes)} lanes are not idle; since the broker was empty: {counted}"


@command("cancel", help="End a run and the children that belong to it.")
def cancel_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id or the beginning of it, as `lumia runs` shows it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; stands in its record and in the journal.")] = (
        "cancelled by an operator"
    ),
) -> int:
    """End a run as cancelled: at once where it waits, at its next commit where it is being executed; 1 if it had ended.

    Example: lumia cancel 01m80qnqpe5dy6f0erqtqz --reason "wrong group"
    """
    with opened() as bot:
        run = run_named(bot, run)
        done = bot.transport.cancel(run, reason)
        record = bot.transport.run(run)
    if not done:
        output.error(f"run {run} had ended before: {record.outcome if record else 'unknown'}")
        return 1
    ending = record is not None and record.state == "claimed"
    output.note(f"run {run}: {'it ends with the step that is being executed' if ending else 'cancelled'}")
    return 0
