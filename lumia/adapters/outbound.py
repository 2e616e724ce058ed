"""From `msg.send, dest=…` to a run of the adapter's own, in a lane per chat: a slow chat holds up no other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from lumia import payloads, system
from lumia.adapters import sends
from lumia.adapters.names import send_lane
from lumia.adapters.sends import QUEUED, Send
from lumia.box import Box
from lumia.bus import event as events
from lumia.context import annotate, here
from lumia.errors import PayloadError
from lumia.payloads import Destination


def dispatch(
    adapter: str, src: str, content: Box[Any], *, event: str = "", account: str = "", queue: str | None = None
) -> str:
    """Hand a message on to the run that delivers it, and return the send's id; called by the consumer of `msg.send`.

    src: the destination, also of `msg.edit` and `msg.delete`. account: who sends it when `content.meta["account"]`
    doesn't say. event: `<adapter>.send` (`.edit`, `.delete`) unless given. queue: `lumia.adapters.queue(…)` for what
    only the process with the account's connection can do. The same `idempotency_key` to the same chat is sent once.

    Raises `PayloadError` for what is no message to send, and when no account is named.
    """
    step = here()
    to, action = payloads.parse_destination(src), src.partition(",")[0]
    said = payloads.validate(src, content.into())
    by = _account(adapter, src, content.meta, account)
    send_id = send_id_of(adapter, by, to, said.get("idempotency_key"))
    call = {
        "send_id": send_id,
        "adapter": adapter,
        "account": by,
        "platform": to.platform,
        "action": action.partition(".")[2],
        "kind": to.kind,
        "chat": to.id,
        "thread": content.meta.get("thread"),
        "run_id": step.claim.root_id if step is not None else "",
        "send": said,
    }
    if action == "msg.send":
        if said.get("idempotency_key") and sends.find(send_id) is not None:
            return send_id
        annotate(send=send_id, account=by)
        send = Send(send_id, adapter, by, to.platform, to.kind, to.id)
        sends.write(sends.moved(send, QUEUED, "", system.now(), fresh=True)[1])
    options: dict[str, Any] = {"queue": queue} if queue else {}
    if said.get("idempotency_key"):  # two that looked at the same moment found neither's send
        options["dedup"] = f"send:{call['action']}:{send_id}"
    events.start(
        event or f"{adapter}.{call['action']}",
        Box.any(call, meta={"account": by}),
        key=send_lane(to.platform, by, to.kind, to.id),
        detach=True,
        **options,
    )
    return send_id


def edit(src: str, message_id: str, content: str | Mapping[str, Any], *, account: str = "") -> str:
    """Give a message of ours another text or other segments, and return the run's id.

    src: the destination it was sent to. account: whose message it is, the running step's unless given.
    """
    said = {"text": content} if isinstance(content, str) else dict(content)
    return _about(src, "msg.edit", {**said, "message_id": message_id}, account)


def delete(src: str, message_id: str, *, account: str = "") -> str:
    """Take a message back, and return the run's id; see `edit`."""
    return _about(src, "msg.delete", {"message_id": message_id}, account)


def _about(src: str, action: str, value: dict[str, Any], account: str) -> str:
    to = payloads.parse_destination(src)
    id = payloads.destination(to.pid, to.platform, to.kind, to.id, action=action)
    content = Box.any(payloads.validate(id, value), meta={"account": account} if account else {})
    return events.start(id, content)


def _account(adapter: str, src: str, meta: Mapping[str, Any], default: str) -> str:
    named = meta.get("account") or default
    if not isinstance(named, str) or not named:
        raise PayloadError(
            f"{src}: nobody says which account of {adapter} sends this; name it in the Box: "
            'lumia.Box.any(…, meta={"account": "…"}), as the message it answers does'
        )
    return named


def send_id_of(adapter: str, account: str, to: Destination, key: str | None) -> str:
    """Return the id of a send: one idempotency key to one chat is one send, without a key each is a new one."""
    if key is None:
        return system.new_id()
    named = f"{adapter}\n{account}\n{to.kind}\n{to.id}\n{key}"
    return hashlib.sha256(named.encode()).hexdigest()[:22]
