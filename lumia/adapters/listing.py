"""Every account of the bot: what is configured, what gateways told of it, what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lumia import runtime, system
from lumia.adapters import sends
from lumia.adapters.configured import Plugin, configured, plugins
from lumia.adapters.names import ACCOUNTS, EVENTS, STORE, account_field, of_field
from lumia.adapters.states import ALIVE, DISABLED, LOST, LOST_AFTER, UNSEEN, Standing
from lumia.runtime import Runtime
from lumia.store import Store


@dataclass(frozen=True)
class AccountInfo:
    """An account.

    state: connected, connecting, listening, disconnected, offline, refused, disabled, unseen (no gateway has spoken of
    it) or lost (the one that did is gone). since: when it entered it; last_event: when something arrived; both in
    seconds since 1970, or None. lag: seconds from the platform's time of the last message to its acceptance. sends: how
    many sends are in which state, see docs/adapters.md. gateway: the process that told of it.
    """

    adapter: str
    account: str
    platform: str
    state: str
    detail: str = ""
    since: float | None = None
    last_event: float | None = None
    lag: float | None = None
    gateway: str = ""
    sends: dict[str, int] = field(default_factory=dict)


def accounts() -> list[AccountInfo]:
    """Return every account that is configured, or that a gateway speaks of, by adapter and name.

    Raises `BackendUnavailableError` when the bot isn't running, `NotRunningError` without one.
    """
    store, now = Store(STORE), system.now()
    events = store.fields(EVENTS)
    told = {name: _told(Standing(**about), now) for name, about in store.fields(ACCOUNTS).items()}
    known = {account_field(one.adapter, one.account): one for one in from_files()}
    ours = {plugin.name for plugin in _plugins()}
    for name, info in told.items():
        gone = info.adapter in ours and name not in known and info.state not in ALIVE
        if not gone and (name not in known or known[name].state != DISABLED):
            known[name] = info
    return [_counted(known[name], events.get(name)) for name in sorted(known, key=of_field)]


def from_files() -> list[AccountInfo]:
    """Return the configured accounts, as they are before any gateway speaks of them: `disabled` or `unseen`."""
    bot = runtime.current()
    return [
        AccountInfo(one.plugin.name, one.account, one.plugin.adapter.platform, UNSEEN if one.enabled else DISABLED)
        for one in configured(bot.base, bot.root, _disabled(bot))
    ]


def _counted(info: AccountInfo, event: Sequence[float] | None) -> AccountInfo:
    at, lag = event or (None, None)
    return replace(info, last_event=at, lag=lag, sends=sends.counts(info.adapter, info.account))


def _told(known: Standing, now: float) -> AccountInfo:
    lost = known.state in ALIVE and now - known.seen > LOST_AFTER
    return AccountInfo(
        known.adapter,
        known.account,
        known.platform,
        LOST if lost else known.state,
        f"its gateway {known.gateway} has not been heard of since" if lost else known.detail,
        known.seen if lost else known.since,
        gateway=known.gateway,
    )


def _plugins() -> list[Plugin]:
    bot = runtime.current()
    return plugins(bot.base, bot.root, _disabled(bot))


def _disabled(bot: Runtime) -> tuple[str, ...]:
    return tuple(bot.config.core.plugins.disabled) if bot.config is not None else ()
