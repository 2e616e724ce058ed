"""The webhook: programs post messages, replies are fetched or posted to a callback (DESIGN §10, pid 2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import lumia

from . import attachments, body, callback, source, web

__all__ = ["call_back", "deliver", "fetch_media", "find_active", "on_load", "web"]

VERSION = lumia.__version__
CALLBACK = "webhook.callback"


def on_load() -> None:
    """Register the adapter (spec §6.2) and look at the configured sources."""
    lumia.system.adapters.reg(source.NAME, VERSION, platform=source.NAME)
    source.check()


@lumia.event.consumer("bus.adapters.webhook.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(source.NAME, VERSION)


@lumia.event.consumer("msg.media.webhook", queue="media", retry=lumia.media.RETRY)
def fetch_media(content: lumia.Box[Any]) -> None:
    """Fetch the files that a post names by their URLs; its message goes on with them, or without."""
    lumia.media.receive(content, lambda item, msg: attachments.place(item, source.find(msg["account"])))


@lumia.event.consumer_re("msg.send, dest=2.webhook.*")
def deliver(src: str, content: lumia.Box[Any]) -> None:
    """Hand a reply to its message's callback; without one it waits to be fetched.

    Callbacks have a lane of their own per chat: they keep their order, and one that nobody takes does not hold up the
    chat's next message.
    """
    origin = _source(lumia.payloads.parse_destination(src).id.partition(":")[0])
    value = content.into()
    files = attachments.given(origin, value)
    attachments.note(origin, lumia.context.required("webhook.deliver").claim.root_id, files)
    if _callback_of(origin, _reply_to(value)):
        by_source = lumia.Box.any(value, meta={**content.meta, "account": origin.name})
        lumia.adapters.dispatch(source.NAME, src, by_source, event=CALLBACK)


@lumia.event.consumer(CALLBACK, retry=lumia.Retry(attempts=8, backoff=1.0, max_delay=60.0))
def call_back(content: lumia.Box[dict[str, Any]]) -> None:
    """Post one signed reply; what is not answered with 2xx is tried again, for about two minutes."""
    with lumia.adapters.delivering(content, policy="retry") as out:
        origin = _source(out.account)
        data = _letter(out, attachments.given(origin, {"segments": out.segments})).encode()
        headers = {
            "Content-Type": "application/json",
            "X-Lumia-Delivery": out.send_id,
            "Idempotency-Key": out.send_id,
            source.SIGNATURE: origin.signature(data),
        }
        url = _callback_of(origin, out.reply_to or "")
        out.part(0, _posted, url, data, headers, origin.callback_hosts)


def _posted(url: str, data: bytes, headers: dict[str, str], allowed: Sequence[str]) -> dict[str, Any]:
    return {"message_id": headers["X-Lumia-Delivery"], "status": callback.post(url, data, headers, allowed)}


def _letter(out: lumia.adapters.Outgoing, files: list[dict[str, Any]]) -> str:
    named = {"message_id": out.reply_to} if out.reply_to else {}
    more = {"media": files} if files else {}
    return json.dumps({"run_id": out.run_id, "reply": out.text, **named, **more}, ensure_ascii=False)


def _source(name: str) -> source.Source:
    found = source.find(name)
    if found is None:
        raise lumia.errors.PayloadError(f"source {name!r} is no longer in config/webhook.toml, nothing can be signed")
    return found


def _callback_of(origin: source.Source, message_id: str) -> str:
    named = lumia.store.get(body.callback_key(message_id), scope=origin.name) if message_id else None
    return str(named or origin.callback_url)


def _reply_to(value: Any) -> str:
    found = value.get("reply_to") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
