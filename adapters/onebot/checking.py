"""What is wrong with an account: in its settings, and at the OneBot side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lumia

from . import accounts, hub, outgoing, sending
from .accounts import Account
from .incoming import NAME

CHECK_TIME, CHECK_KEPT = 20.0, 120.0


@lumia.event.consumer("onebot.check")
def look(content: lumia.Box[dict[str, str]]) -> None:
    """Look at an account where its connection is, for `check` in another process."""
    asked = content.into()
    lumia.store.set(
        f"check:{asked['id']}", _looked(accounts.required(asked["account"], "onebot.check")), ttl=CHECK_KEPT
    )


@lumia.adapters.check
def check(account: str) -> lumia.adapters.Checked:
    """Ask the OneBot side who the account is, and whether it is online; of a socket its gateway asks."""
    found = accounts.find(account)
    if found is None:
        return lumia.adapters.Checked(False, detail=_wrong(account))
    if found.self_id == accounts.ANY:
        return lumia.adapters.Checked(True, detail=f"serves any bot; each is an account: test {account}.<number>")
    queue = found.queue
    if queue is None or hub.find(account) is not None:
        return lumia.adapters.Checked(**_looked(found))
    id = lumia.system.new_id()
    run = lumia.event.start("onebot.check", lumia.Box.any({"account": account, "id": id}), queue=queue)
    try:
        lumia.runs.wait(run, CHECK_TIME)
    except lumia.errors.RunTimeoutError:
        lumia.runtime.current().transport.cancel(run, "nobody was connected")
        return lumia.adapters.Checked(False, detail=f"not connected; {_how_to_connect(found)}")
    told = lumia.store.of(NAME).get(f"check:{id}")
    return lumia.adapters.Checked(**told) if told else lumia.adapters.Checked(False, detail=f"see `lumia trace {run}`")


def _how_to_connect(account: Account) -> str:
    if account.mode == "forward":
        return f"see that a gateway runs and that {account.url} is the OneBot side's WebSocket server"
    return "let NapCat connect to ws://<gateway>/onebot/v11/ws, see docs/onebot.md"


def _looked(account: Account) -> dict[str, Any]:
    """Return what becomes a `Checked`."""
    try:
        who = outgoing.judged(sending.ask(account, "get_login_info", {}))
        status = sending.ask(account, "get_status", {}).data
    except lumia.errors.LumiaError as error:
        return {"ok": False, "detail": str(error)}
    online = status.get("online") if isinstance(status, dict) else None
    name = f"{who.get('nickname', '')} ({who.get('user_id', '')})" if isinstance(who, dict) else ""
    why = "the account is offline; log it in again in NapCat or Lagrange" if online is False else ""
    return {"ok": not why, "identity": name, "detail": why}


def _wrong(account: str) -> str:
    found = [f"{accounts.where(one)}; {one.fix}" for one in accounts.faults() if one.account == account]
    return "; ".join(found) or f"no such account; add [accounts.{account}] to {accounts.FILE}"


@lumia.checks.check("onebot")
def settings() -> Iterator[lumia.checks.Finding]:
    """Tell `lumia doctor` what is wrong in config/onebot.toml."""
    for fault in accounts.faults():
        level = lumia.checks.fail if fault.fatal else lumia.checks.risk
        yield level(accounts.where(fault), fault.fix)
    for account in accounts.accounts():
        if account.mode == "reverse" and not account.token and account.enabled:
            yield lumia.checks.risk(
                f"{accounts.FILE}: [accounts.{account.name}] has no access_token",
                "only programs on this machine may connect; set one on both sides",
            )
