"""`lumia budget`: what the models cost, by day, layer and chat."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import lumia

from . import budget
from .budget import BOT, Allowance, Limits, Spent, Sum

MAX_CHATS = 20
"""Chats that the table shows for each day; `--json` holds all of them."""
_WIDTH = 20


@lumia.command("budget", help="What the models cost, by day, layer and chat, and how much of the budget is left")
def show(
    days: Annotated[int, "How many days, today included; chats are kept for 15 days, the sums of the bot for 100."] = 1,
    json_: Annotated[bool, "Print JSON."] = False,
) -> int:
    """Show tokens and cost of each day by layer and by chat, with the share of each limit.

    Example: lumia budget --days 7
    """
    if not 1 <= days <= budget.BOT_DAYS:
        print(f"error: --days is a number from 1 to {budget.BOT_DAYS}", file=sys.stderr)
        return 2
    config = lumia.config.get("heartflow")
    found = [_day(budget.today(config, ago), config) for ago in range(days)]
    if json_:
        print(json.dumps({"timezone": config.timezone, "days": found}, ensure_ascii=False))
        return 0
    for number, day in enumerate(found):
        print(*([""] if number else []), *_lines(day), sep="\n")
    return 0


def _day(day: str, config: Any) -> dict[str, Any]:
    scopes = [scope for scope in budget.chats(day) if scope]
    chats = [_entry(budget.spent(scope, day), budget.chat_limits(scope, config), config, scope) for scope in scopes]
    chats.sort(key=lambda chat: (-chat["tokens"], chat["chat"]))
    return {"day": day, **_entry(budget.spent(BOT, day), budget.bot_limits(config), config), "chats": chats}


def _entry(spent: Spent, limits: Limits, config: Any, scope: str = BOT) -> dict[str, Any]:
    """Return one chat's, or the bot's, day as JSON; share: of the tighter limit, null without one."""
    judged: Allowance = budget.judged(spent, limits, config, whole=not scope)
    return {
        **({"chat": scope} if scope else {}),
        **_sum(spent.total),
        "layers": {name: _sum(layer) for name, layer in spent.layers.items()},
        "limits": {"tokens": limits.tokens, "cost": limits.cost},
        "share": round(judged.share, 4) if limits else None,
        "level": judged.level,
    }


def _sum(of: Sum) -> dict[str, Any]:
    return {"tokens": of.tokens, "cost": of.cost, "calls": of.calls, "unpriced": of.unpriced}


def _lines(day: dict[str, Any]) -> list[str]:
    rows = [(f"{day['day']}  all chats", day, day["share"])]
    whole = max(1, day["tokens"])
    layers = sorted(day["layers"].items(), key=lambda layer: -layer[1]["tokens"])
    rows += [(f"  {name}", layer, layer["tokens"] / whole) for name, layer in layers]
    chats = day["chats"][:MAX_CHATS]
    rows += [(f"  {budget.shown(chat['chat'])}", chat, chat["tokens"] / whole) for chat in chats]
    names = max(len(name) for name, _, _ in rows)
    told = [_line(name.ljust(names), entry, share) for name, entry, share in rows]
    more = len(day["chats"]) - len(chats)
    return [*told, *([f"  and {more} more chats; --json holds all of them"] if more > 0 else [])]


def _line(name: str, entry: dict[str, Any], share: float | None) -> str:
    unpriced = f" + {budget.unpriced(entry['unpriced'])}" if entry["unpriced"] else ""
    cost = f"{budget.money(entry['cost'])}{unpriced}"
    limits = entry.get("limits")
    of = f"  {budget.percent(entry['share'])} of its limit" if limits and entry["share"] is not None else ""
    level = f": {budget.LEVELS[entry['level']]}" if entry.get("level") else ""
    return f"{name}  {entry['tokens']:>12,} tokens  {_bar(share)}  {cost}{of}{level}".rstrip()


def _bar(share: float | None) -> str:
    """Return a bar of a share; blank without one, full from 1 on."""
    if share is None:
        return " " * _WIDTH
    full = min(_WIDTH, round(share * _WIDTH))
    return "█" * full + "░" * (_WIDTH - full)
