"""What the bot has sent, by the ids the platform gave: for quotes, edits, and "what did the bot answer to this".

Each chat keeps its newest receipts for a week.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lumia.adapters.names import STORE, key_of
from lumia.adapters.sends import KEEP, Send
from lumia.payloads import lane
from lumia.store import Store

if TYPE_CHECKING:
    from lumia.ports import StoreOp

PER_CHAT = 200
"""Receipts kept per chat."""
_KEY = "receipts"


@dataclass(frozen=True)
class Receipt:
    """One message of ours at a platform. part: its number within the send. reply_to: the message it answers, or "".

    run_id: the run tree that said it, e.g. that of the message it answers. time: seconds since 1970.
    """

    platform: str
    account: str
    kind: str
    chat: str
    message_id: str
    send_id: str
    part: int = 0
    reply_to: str = ""
    thread: str = ""
    run_id: str = ""
    time: float = 0.0


def sent(platform: str, account: str, chat: Mapping[str, Any] | str, message_id: str) -> Receipt | None:
    """Return the receipt of a message of ours, None for any other one.

    chat: `msg["chat"]`, or its id alone: then of the group of this id, or of the private chat.
    """
    found = (one for one in _all(platform, account, chat) if one.message_id == str(message_id))
    return next(found, None)


def answers(platform: str, account: str, chat: Mapping[str, Any] | str, message_id: str) -> list[Receipt]:
    """Return what we sent in answer to a message, in order; see `sent`."""
    found = [one for one in _all(platform, account, chat) if one.reply_to and one.reply_to == str(message_id)]
    return list({one.message_id: one for one in found}.values())


def of_send(send: Send) -> list[Receipt]:
    """Return the receipts of one send, in order."""
    place = {"kind": send.kind, "id": send.chat}
    found = {one.part: one for one in _all(send.platform, send.account, place) if one.send_id == send.send_id}
    return [found[part] for part in sorted(found)]


def kept(receipt: Receipt) -> StoreOp:
    """Return the write that keeps a receipt."""
    from lumia.ports import StoreOp  # see lumia.store

    about = {name: value for name, value in asdict(receipt).items() if name not in _PLACE and value}
    name = key_of(_KEY, lane(receipt.platform, receipt.account, receipt.kind, receipt.chat))
    return StoreOp("append", name, json.dumps(about), ttl=KEEP, keep=PER_CHAT)


_PLACE = ("platform", "account", "kind", "chat")


def _all(platform: str, account: str, chat: Mapping[str, Any] | str) -> Iterator[Receipt]:
    places = [("group", chat), ("private", chat)] if isinstance(chat, str) else [(chat["kind"], chat["id"])]
    for kind, id in places:
        for about in Store(STORE).items(_KEY, scope=lane(platform, account, kind, id)):
            yield Receipt(platform, account, kind, id, **about)
