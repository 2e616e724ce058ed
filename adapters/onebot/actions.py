"""Any action of OneBot for plugins: event `onebot.call` in, event `onebot.result` out."""

from __future__ import annotations

from typing import Any

import lumia

from . import accounts, outgoing, sending
from .accounts import Account

STEP_TIME = 300.0
"""Seconds a step may take: an upload, a lost answer, a look into the history."""


@lumia.event.consumer("onebot.call")
def call(content: lumia.Box[dict[str, Any]]) -> None:
    """Let plugins ask for any action: {"action": …, "params": {…}}, the account in the Box's meta."""
    asked = content.into()
    if not isinstance(asked, dict) or not isinstance(asked.get("action"), str):
        raise lumia.errors.PayloadError('onebot.call: expected {"action": "set_group_ban", "params": {…}}')
    account = accounts.required(str(content.meta.get("account") or accounts.default()), "onebot.call")
    box = lumia.Box.any({"account": account.name, "action": asked["action"], "params": asked.get("params") or {}})
    lumia.event.start("onebot.action", box, queue=account.queue)


@lumia.event.consumer("onebot.action", retry=lumia.adapters.RETRY, timeout=STEP_TIME)
def act(content: lumia.Box[dict[str, Any]]) -> None:
    """Ask for one action; what it gave is the event `onebot.result` and in the trace."""
    asked = content.into()
    account = accounts.required(asked["account"], "onebot.action")
    data = lumia.effect("action", _done, account, asked["action"], asked["params"], policy=account.on_unknown)
    lumia.event.start("onebot.result", lumia.Box.any({**asked, "data": data}, meta={"account": account.name}))


def _done(account: Account, action: str, params: dict[str, Any]) -> Any:
    return outgoing.judged(sending.ask(account, action, params))
