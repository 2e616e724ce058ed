"""What a gateway does for the accounts: it asks Slack who they are, and keeps the sockets of Socket Mode open."""

from __future__ import annotations

import asyncio

import lumia
from lumia.errors import LumiaError, RetryAfterError

from . import accounts, api
from .accounts import NAME, Account
from .people import people
from .socketmode import REFUSED_PAUSE, SocketMode

AGAIN = 3600.0
"""Seconds after which an account is asked again who it is."""
_PAUSE = 30.0


@lumia.web.resident
async def connections() -> None:
    """Serve every configured account."""
    await lumia.adapters.following(
        NAME, _wanted, _serve, names=lambda: {account.name for account in accounts.all_accounts()}
    )


def _wanted() -> set[Account]:
    broken: dict[str, str] = {}
    for fault in filter(lambda one: one.fatal, accounts.faults()):
        broken.setdefault(fault.account, f"{fault.what}; {fault.fix}")
    wanted = set()
    for account in accounts.all_accounts():
        state = lumia.adapters.account(NAME, account.name)
        if not account.enabled:
            state.disabled()
        elif account.name in broken:
            state.refused(broken[account.name])
        else:
            wanted.add(account)
    return wanted


async def _serve(account: Account) -> None:
    known = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_introduced(account, known))
        if account.socket:
            group.create_task(_connected(account, known))


async def _connected(account: Account, known: asyncio.Event) -> None:
    """Keep the account's socket open wherever it is this gateway's turn.

    Nothing is taken for a bot whose token Slack refuses: Slack keeps it for a while, and nobody could answer.
    """
    await known.wait()
    state = lumia.adapters.account(NAME, account.name)
    await lumia.adapters.keeping_up(state, lambda owned: SocketMode(account, state).run())


async def _introduced(account: Account, known: asyncio.Event) -> None:
    while True:
        pause, refused = await _introduce(account)
        if not refused:
            known.set()
        await asyncio.sleep(pause)


async def _introduce(account: Account) -> tuple[float, bool]:
    """Ask who the bot is, so that its own id is known; return when to ask again, and whether its token is refused."""
    state = lumia.adapters.account(NAME, account.name)
    try:
        known = await asyncio.to_thread(api.call, account, "auth.test", {})
    except RetryAfterError as error:
        return error.wait, False
    except api.SlackError as error:
        if error.code in api.REFUSED:
            state.refused(str(error))
        return REFUSED_PAUSE, error.code in api.REFUSED
    except LumiaError as error:
        if not account.socket:
            state.listening(f"not asked yet who it is: {error}")
        return _PAUSE, False
    people.bots[account] = str(known.get("user_id", ""))
    if not account.socket:
        state.listening(identity(known))
    return AGAIN, False


def identity(known: dict[str, object]) -> str:
    """Return who an answer of auth.test speaks of, e.g. `lumia (U0LUMIA) in Acme`."""
    return f"{known.get('user', '?')} ({known.get('user_id', '?')}) in {known.get('team', '?')}"
