"""The webhook: programs post messages, replies are fetched or posted to a callback (DESIGN §10, pid 2)."""

from __future__ import annotations

import json
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
    to = lumia.payloads.parse_destination(src)
    value = content.into()
    origin = _source(to.id.partition(":")[0])
    url, files = _callback_of(origin, value), attachments.given(origin, value)
    run_id = lumia.context.required("webhook.deliver").claim.root_id
    attachments.note(origin, run_id, files)
    if url:
        letter = _letter(run_id, value, files)
        call = {"source": origin.name, "url": url, "delivery": lumia.system.new_id(), "letter": letter}
        lumia.event.start(CALLBACK, lumia.Box.any(call), key=f"webhook.callback:{src}"[:512], detach=True)


@lumia.event.consumer(CALLBACK, retry=lumia.Retry(attempts=8, backoff=1.0, max_delay=60.0))
def call_back(content: lumia.Box[dict[str, str]]) -> None:
    """Post one signed reply; what is not answered with 2xx is tried again, for about two minutes."""
    call = content.into()
    origin = _source(call["source"])
    data = call["letter"].encode()
    headers = {
        "Content-Type": "application/json",
        "X-Lumia-Delivery": call["delivery"],
        "Idempotency-Key": call["delivery"],
        source.SIGNATURE: origin.signature(data),
    }
    lumia.effect("callback", callback.post, call["url"], data, headers, origin.callback_hosts, kind="send")


def _letter(run_id: str, value: Any, files: list[dict[str, Any]]) -> str:
    named = {"message_id": _reply_to(value)} if _reply_to(value) else {}
    more = {"media": files} if files else {}
    return json.dumps({"run_id": run_id, "reply": lumia.payloads.text_of(value), **named, **more}, ensure_ascii=False)


def _source(name: str) -> source.Source:
    found = source.find(name)
    if found is None:
        raise lumia.errors.PayloadError(f"source {name!r} is no longer in config/webhook.toml, nothing can be signed")
    return found


def _callback_of(origin: source.Source, value: Any) -> str:
    message_id = _reply_to(value)
    named = lumia.store.get(body.callback_key(message_id), scope=origin.name) if message_id else None
    return str(named or origin.callback_url)


def _reply_to(value: Any) -> str:
    found = value.get("reply_to") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
