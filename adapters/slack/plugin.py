"""Slack: events or Socket Mode in, Web API out (spec §6, DESIGN §10, pid 6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import lumia
from lumia.adapters import Checked, Outgoing

from . import accounts, checking, sending, watch, web
from .accounts import FILE, NAME, PID, Account
from .files import locate

__all__ = ["on_load", "watch", "web"]

VERSION = lumia.__version__
_log = logging.getLogger("lumia.slack")


def on_load() -> None:
    """Register the adapter (spec §6.2) and look at the configured accounts."""
    lumia.system.adapters.reg(NAME, VERSION, platform=NAME)
    for fault in accounts.faults():
        _log.error("%s: [accounts.%s] %s; %s", FILE, fault.account, fault.what, fault.fix)


@lumia.event.consumer("bus.adapters.slack.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(NAME, VERSION)


@lumia.event.consumer_re(f"msg.send, dest={PID}.{NAME}.*")
def on_message(src: str, content: lumia.Box[Any]) -> None:
    """Hand a message on to the lane of its chat's sends."""
    lumia.adapters.dispatch(NAME, src, content)


@lumia.event.consumer_re(f"msg.edit, dest={PID}.{NAME}.*")
def on_edit(src: str, content: lumia.Box[Any]) -> None:
    """The same for a message that gets another text."""
    lumia.adapters.dispatch(NAME, src, content)


@lumia.event.consumer_re(f"msg.delete, dest={PID}.{NAME}.*")
def on_delete(src: str, content: lumia.Box[Any]) -> None:
    """The same for a message that is taken back."""
    lumia.adapters.dispatch(NAME, src, content)


@lumia.event.consumer("slack.send", retry=lumia.adapters.RETRY)
def send(content: lumia.Box[dict[str, Any]]) -> None:
    """Post a message; Slack knows no key that would let it be posted again safely, so `on_unknown` decides."""
    account = accounts.find(content.into()["account"])
    again = account is not None and account.on_unknown == "retry"
    _deliver(content, sending.deliver, "retry" if again else "hold")


@lumia.event.consumer("slack.edit", retry=lumia.adapters.RETRY)
def edit(content: lumia.Box[dict[str, Any]]) -> None:
    """Change a message; twice is as good as once."""
    _deliver(content, sending.edit, "retry")


@lumia.event.consumer("slack.delete", retry=lumia.adapters.RETRY)
def delete(content: lumia.Box[dict[str, Any]]) -> None:
    """Delete a message; twice is as good as once."""
    _deliver(content, sending.delete, "retry")


def _deliver(content: lumia.Box[Any], how: Callable[[Account, Outgoing], None], policy: str) -> None:
    with lumia.adapters.delivering(content, policy=policy) as out:
        account = accounts.find(out.account)
        if account is None:
            raise lumia.errors.RejectedError(accounts.how_to_add(out.account))
        how(account, out)


@lumia.event.consumer("msg.media.slack", queue="media", retry=lumia.media.RETRY)
def fetch(content: lumia.Box[dict[str, Any]]) -> None:
    """Fetch a message's files, then let it go its way."""
    lumia.media.receive(content, locate)


@lumia.adapters.check
def adapter_check(account: str) -> Checked:
    """Ask Slack whether an account's tokens are good and may do what is needed."""
    for fault in accounts.faults():
        if fault.account == account and fault.fatal:
            return Checked(False, detail=f"{fault.what}; {fault.fix}")
    return checking.ask(accounts.required(account))


@lumia.checks.check("slack")
def settings() -> Iterator[lumia.checks.Finding]:
    """Tell `lumia doctor` what is wrong with the accounts."""
    found = list(accounts.faults())
    for fault in found:
        level = lumia.checks.fail if fault.fatal else lumia.checks.risk
        yield level(f"{FILE}: [accounts.{fault.account}] {fault.what}", fault.fix)
    if not found and (known := [account.name for account in accounts.all_accounts() if account.enabled]):
        yield lumia.checks.ok(f"accounts: {', '.join(known)}")
