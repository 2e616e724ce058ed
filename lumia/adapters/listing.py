"""Every account of the bot: what is configured, what gateways told of it, what was sent."""

from __future__ import annotations

from dataclasses import dataclass, field

from lumia import system
from lumia.adapters import sends
from lumia.adapters.names import ACCOUNTS, EVENTS, STORE, of_field
from lumia.adapters.states import ALIVE, LOST, LOST_AFTER, Standing
from lumia.store import Store


@dataclass(frozen=True)
class AccountInfo:
    """An account. since: when it entered its state, last_event: when something arrived, seconds since 1970 or None.

    sends: how many sends are in which state, see `lumia.adapters.sends`. gateway: the process that told its state.
    """

    adapter: str
    account: str
    platform: str
    state: str
    detail: str = ""
    since: float | None = None
    last_event: float | None = None
    gateway: str = ""
    sends: dict[str, int] = field(default_factory=dict)


def accounts() -> list[AccountInfo]:
    """Return every account that a gateway has told of, by adapter and name."""
    told, events = Store(STORE).fields(ACCOUNTS), Store(STORE).fields(EVENTS)
    now = system.now()
    return [_info(Standing(**told[name]), events.get(name), now) for name in sorted(told, key=of_field)]


def _info(known: Standing, event: float | None, now: float) -> AccountInfo:
    lost = known.state in ALIVE and now - known.seen > LOST_AFTER
    state = LOST if lost else known.state
    detail = f"nothing was heard of its gateway {known.gateway} since" if lost else known.detail
    counted = sends.counts(known.adapter, known.account)
    return AccountInfo(
        known.adapter, known.account, known.platform, state, detail, known.seen if lost else known.since, event,
        known.gateway, counted,
    )  # fmt: skip
