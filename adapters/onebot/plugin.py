"""QQ by OneBot v11 (DESIGN §10, pid 3): NapCat, Lagrange and others, over WebSocket both ways and HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import lumia

from . import accounts, forward, hub, outgoing, sending, web
from .accounts import Account
from .incoming import NAME, PLATFORM

__all__ = ["act", "call", "check", "delete", "deliver", "find_active", "forward", "on_load", "send", "take_back", "web"]

VERSION = lumia.__version__
STEP_TIME = 300.0
"""Seconds a send may take: an upload, a lost answer, a look into the history."""
CHECK_TIME, CHECK_KEPT = 20.0, 120.0
_log = logging.getLogger("lumia.onebot")


def on_load() -> None:
    """Register the adapter (spec §6.2) and look at the configured accounts."""
    lumia.system.adapters.reg(NAME, VERSION, platform=PLATFORM)
    for problem in accounts.problems():
        _log.error("%s", problem)


@lumia.event.consumer("bus.adapters.qq.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(NAME, VERSION)


@lumia.event.consumer_re("msg.send, dest=3.qq.*")
def deliver(src: str, content: lumia.Box[Any]) -> None:
    """Hand a message on to where its account's connection is."""
    _hand_on(src, content)


@lumia.event.consumer_re("msg.delete, dest=3.qq.*")
def take_back(src: str, content: lumia.Box[Any]) -> None:
    """Hand a recall on to where its account's connection is."""
    _hand_on(src, content)


def _hand_on(src: str, content: lumia.Box[Any]) -> None:
    account = _account(str(content.meta.get("account") or accounts.default()), src)
    lumia.adapters.dispatch(NAME, src, content, account=account.name, queue=_queue(account))


def _queue(account: Account) -> str | None:
    return None if account.mode == "http" else lumia.adapters.queue(NAME, account.name)


def _account(name: str, what: str) -> Account:
    found = accounts.find(name) if name else None
    if found is None or not found.enabled:
        known = ", ".join(account.name for account in accounts.accounts()) or "none"
        raise lumia.errors.PayloadError(
            f"{what}: account {name!r} is not one of those in {accounts.FILE} that work ({known}); name it in the "
            'Box: lumia.Box.any(…, meta={"account": "…"})'
        )
    return found


@lumia.event.consumer("onebot.send", retry=lumia.adapters.RETRY, timeout=STEP_TIME)
def send(content: lumia.Box[Any]) -> None:
    """Send a message: as many as its length and its files need, each once."""
    account = _account(content.into()["account"], "onebot.send")
    with lumia.adapters.delivering(content, policy=account.on_unknown) as out:
        found = outgoing.messages(out.segments, out.reply_to, account.split_at, lumia.adapters.parts)
        for number, message in enumerate(found):
            out.part(number, sending.send, account, out.kind, out.chat, message)


@lumia.event.consumer("onebot.delete", retry=lumia.adapters.RETRY, timeout=STEP_TIME)
def delete(content: lumia.Box[Any]) -> None:
    """Take a message of ours back (`delete_msg`)."""
    account = _account(content.into()["account"], "onebot.delete")
    with lumia.adapters.delivering(content, policy="retry") as out:
        out.part(0, sending.delete, account, str(out.message_id))


@lumia.event.consumer("onebot.call")
def call(content: lumia.Box[dict[str, Any]]) -> None:
    """Let plugins ask for any action: {"action": …, "params": {…}}, the account in the Box's meta."""
    asked = content.into()
    if not isinstance(asked, dict) or not isinstance(asked.get("action"), str):
        raise lumia.errors.PayloadError('onebot.call: expected {"action": "set_group_ban", "params": {…}}')
    account = _account(str(content.meta.get("account") or accounts.default()), "onebot.call")
    box = lumia.Box.any({"account": account.name, "action": asked["action"], "params": asked.get("params") or {}})
    lumia.event.start("onebot.action", box, queue=_queue(account))


@lumia.event.consumer("onebot.action", retry=lumia.adapters.RETRY, timeout=STEP_TIME)
def act(content: lumia.Box[dict[str, Any]]) -> None:
    """Ask for one action; what it gave is the event `onebot.result` and in the trace."""
    asked = content.into()
    account = _account(asked["account"], "onebot.action")
    data = lumia.effect("action", _done, account, asked["action"], asked["params"], policy=account.on_unknown)
    lumia.event.start("onebot.result", lumia.Box.any({**asked, "data": data}, meta={"account": account.name}))


def _done(account: Account, action: str, params: dict[str, Any]) -> Any:
    return outgoing.judged(sending.ask(account, action, params))


@lumia.event.consumer("onebot.check")
def look(content: lumia.Box[dict[str, str]]) -> None:
    """Look at an account where its connection is, for `check` in another process."""
    asked = content.into()
    lumia.store.set(f"check:{asked['id']}", _looked(_account(asked["account"], "onebot.check")), ttl=CHECK_KEPT)


@lumia.adapters.check
def check(account: str) -> lumia.adapters.Checked:
    """Ask the OneBot side who the account is, and whether it is online; of a socket its gateway asks."""
    found = accounts.find(account)
    if found is None:
        return lumia.adapters.Checked(False, detail=_wrong(account))
    queue = _queue(found)
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
    found = [str(problem) for problem in accounts.problems() if problem.table == account]
    return "; ".join(found) or f"no such account; add [accounts.{account}] to {accounts.FILE}"


@lumia.checks.check("onebot")
def settings() -> Iterator[lumia.checks.Finding]:
    """Tell `lumia doctor` what is wrong in config/onebot.toml."""
    for problem in accounts.problems():
        level = lumia.checks.fail if problem.fatal else lumia.checks.risk
        yield level(f"{accounts.FILE}: [accounts.{problem.table}] {problem.what}", problem.fix)
    for account in accounts.accounts():
        if account.mode == "reverse" and not account.token and account.enabled:
            yield lumia.checks.risk(
                f"{accounts.FILE}: [accounts.{account.name}] has no access_token",
                "only programs on this machine may connect; set one on both sides",
            )
