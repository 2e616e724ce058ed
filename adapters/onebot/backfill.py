"""Making up for an outage: what a chat said meanwhile, from the peer's history, in order and only what is fresh.

`get_group_msg_history` and `get_friend_msg_history` are extensions (NapCat, Lagrange). A message that was accepted
already is the same message under the same dedup key; what is older than `backfill_minutes` is left alone, since nobody
waits for an answer to it any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from .accounts import Account
from .frames import Answer, identifier, whole
from .incoming import message_id, time_of

PAGE = 20
"""Messages per request: an answer has to fit into one frame."""
ACTIONS = {"group": ("get_group_msg_history", "group_id"), "private": ("get_friend_msg_history", "user_id")}
Event = dict[str, Any]
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Answer]]


class AbsentError(Exception):
    """The peer keeps no history of this kind of chat."""


async def missed(ask: Ask, account: Account, chat: str, since: float, now: float, page: int = PAGE) -> list[Event]:
    """Return the message events of a chat from `since` on, oldest first.

    chat: e.g. `group-12`. page: messages per request. At most `backfill_max` of them, none older than
    `backfill_minutes`. Raises `AbsentError` when the peer has no such action, and what `ask` raises.
    """
    horizon = max(since, now - account.backfill_minutes * 60)
    if account.backfill_max <= 0 or account.backfill_minutes <= 0:
        return []
    newest = await _newest(ask, chat, horizon, account.backfill_max, page)
    found = [event for event in newest if time_of(event) >= horizon]
    return found[-account.backfill_max :]


async def _newest(ask: Ask, chat: str, horizon: float, most: int, size: int) -> list[Event]:
    known: set[str] = set()
    found: list[Event] = []
    oldest = ""
    while len(found) < most:
        page = in_order(await _page(ask, chat, oldest, min(size, most)))
        fresh = [event for event in page if message_id(event) not in known]
        if not fresh:
            break
        known.update(map(message_id, fresh))
        found = fresh + found
        if time_of(fresh[0]) < horizon:
            break
        oldest = message_id(fresh[0])
    return in_order(found)


async def _page(ask: Ask, chat: str, before: str, count: int) -> list[Event]:
    kind, _, id = chat.partition("-")
    action, target = ACTIONS[kind]
    # NapCat pages by message_seq, Lagrange by message_id; each ignores the other's.
    start = {"message_seq": before, "message_id": whole(before) or 0} if before else {}
    # parse_mult_msg: NapCat would unfold forwarded bundles, which may be larger than a frame.
    answer = await ask(action, {target: _number(id), "count": count, "parse_mult_msg": False, **start})
    if answer.absent:
        raise AbsentError(action)
    return listed(answer, kind, id)


def listed(answer: Answer, kind: str, id: str) -> list[Event]:
    """Return the messages of a history's answer as events, in its order."""
    data = answer.data if answer.ok else None
    messages = data.get("messages") if isinstance(data, Mapping) else data
    items = messages if isinstance(messages, list) else []
    return [_event(item, kind, id) for item in items if isinstance(item, Mapping)]


def _number(id: str) -> int | str:
    number = whole(id)
    return id if number is None else number


def _event(item: Mapping[str, Any], kind: str, id: str) -> Event:
    """Return an entry of a history with what an event would say besides."""
    sender = item.get("sender")
    speaker = item.get("user_id") or (sender.get("user_id") if isinstance(sender, Mapping) else None)
    event = {"post_type": "message", "message_type": kind, **item, "user_id": speaker}
    return {**event, "group_id": item.get("group_id") or _number(id)} if kind == "group" else event


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return events oldest first; within a second by the platform's own sequence number, else as they were listed."""
    found = list(events)
    if len(found) > 1 and time_of(found[0]) > time_of(found[-1]):
        found.reverse()
    return sorted(found, key=lambda event: (time_of(event), whole(event.get("real_seq")) or 0))


def of_bot(event: Mapping[str, Any], self_id: str) -> bool:
    """Tell whether a history's entry was said by the bot itself."""
    return event.get("post_type") == "message_sent" or identifier(event.get("user_id")) == self_id
