"""`lumia effects list | settle`: calls to the outside world whose outcome nobody knows, and what an operator found."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import typer

from lumia import revival
from lumia.adapters import sends
from lumia.cli import output
from lumia.cli.opened import opened
from lumia.errors import DeadLetterError
from lumia.marks import command
from lumia.runtime import Runtime
from lumia.settling import settle_done, settle_failed, shown
from tasks.asked import run_named

NAME = re.compile(r"\d+:.+", re.DOTALL)


@command("effects list", help="List the effects of a run, or all that are held and have no result.")
def effects_list(
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run's id or its beginning; all held ones without it.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for a machine.")] = False,
) -> int:
    """List a run's effects, or those of policy 'hold' that were begun and have no result; secrets are hidden.

    Example: lumia effects list 01m7zv0k3q8r2s5t6v7w8x
    """
    with opened() as bot:
        run = run_named(bot, run) if run else ""
        found: list[dict[str, Any]] = [
            {"run": run_id, "effect": name, "state": record.state, "policy": record.policy, "value": shown(bot, record)}
            | _to(bot, run_id, name)
            for run_id, name, record in bot.transport.effects(run, limit)
        ]
    if as_json:
        output.data(found)
    elif found:
        rows = [[one["run"], one["effect"], one["state"], one["policy"], _result(one)] for one in found]
        output.table(["RUN", "EFFECT", "STATE", "POLICY", "RESULT"], rows)
    else:
        output.note(f"run {run} has no effects in the ledger" if run else "no effect is held without a result")
    return 0


@command("effects settle", help="Say what became of an effect whose outcome is unknown.")
def effects_settle(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, as the dead letter or the list names it.")],
    effect: Annotated[str, typer.Argument(metavar="STEP:KEY", help="The effect, e.g. '0:charge'.")],
    done: Annotated[str | None, typer.Option("--done", metavar="JSON", help="It was made, with this result.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It was not made: the next try makes it.")] = False,
) -> int:
    """Record what you found out; then retry the dead letter, and the step goes on with it.

    Example: lumia effects settle 01m7zv0k3q8r2s5t6v7w8x 0:charge --done '{"receipt": 17}'
    """
    if (done is None) is not failed:
        raise typer.BadParameter(
            "say one of --done JSON (it was made) and --failed (it was not); e.g. --done '{\"receipt\": 17}'",
            param_hint="--done",
        )
    if not NAME.fullmatch(effect):
        raise typer.BadParameter(
            f"{effect!r} is no STEP:KEY, e.g. 0:charge; see `lumia effects list`", param_hint="STEP:KEY"
        )
    value = None if done is None else _value(done)
    with opened() as bot:
        run = run_named(bot, run)
        if done is None:
            settle_failed(bot, run, effect)
        else:
            settle_done(bot, run, effect, value)
        way_on = _way_on(bot, run, effect)
    output.note(f"{effect} of {run} is settled as {'failed' if failed else 'done'}; {way_on}")
    return 0


def _way_on(bot: Runtime, run: str, effect: str) -> str:
    try:
        letter = revival.find(bot, f"{run}.{effect.partition(':')[0]}")
    except DeadLetterError:
        return "no dead letter waits for it: the next try of its step goes on with that"
    return f"`lumia dead retry {letter.name}` goes on"


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"it takes JSON, e.g. '{{\"receipt\": 17}}' or null: {error}", param_hint="--done"
        ) from None


def _to(bot: Runtime, run_id: str, name: str) -> dict[str, str]:
    """Return where a message went of which nobody knows whether it arrived."""
    send = sends.of_run(bot.transport, run_id) if name.partition(":")[2].startswith("send ") else None
    return {} if send is None else {"to": send.where}


def _result(one: dict[str, Any]) -> str:
    result = _short(one["value"])
    return f"to {one['to']}: {result}" if "to" in one else result


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
