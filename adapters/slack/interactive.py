"""Slash commands, clicks, views and shortcuts. Pure; as in docs.slack.dev, "Slash commands", "Interaction payloads"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import lumia
from lumia.payloads import dedup_key, lane

from . import mrkdwn
from .accounts import NAME
from .arrivals import Context, Talk, Told, chat_of, is_ts, mentions_in, with_names
from .fields import as_dict, as_list, digest, text_at, without_secrets


def command(form: Mapping[str, str], context: Context) -> Talk | None:
    """Return a slash command as a message to the bot: the command and its words. None for what is none."""
    channel, user, name = form.get("channel_id", ""), form.get("user_id", ""), form.get("command", "")
    if not (channel and user and name):
        return None
    segments = with_names(mrkdwn.decode(f"{name} {form.get('text', '')}".strip()), context.name)
    msg = lumia.payloads.message(
        platform=NAME,
        account=context.account,
        chat=chat_of(channel, ""),
        sender={"id": user, "name": form.get("user_name") or context.name(user) or user},
        text=mrkdwn.text_of(segments),
        message_id=f"command-{digest(form.get('trigger_id') or repr(sorted(form.items())))}",
        segments=segments,
        mentions=mentions_in(segments),
        mentions_bot=True,
        time=context.time,
    )
    return Talk(msg, {"command": without_secrets(form)}, form.get("response_url", ""))


def interaction(payload: Mapping[str, Any], context: Context) -> Told | None:
    """Return a click, a submitted view or a shortcut as event `slack.<type>`. None for what is none.

    Its content names an `id`: a reply with it as `reply_to` reaches who clicked also where the bot is no member.
    """
    kind, user = text_at(payload, "type"), text_at(as_dict(payload.get("user")), "id")
    if not re.fullmatch(r"[a-z_]{1,48}", kind) or not user:
        return None
    container = as_dict(payload.get("container"))
    channel = text_at(as_dict(payload.get("channel")), "id") or text_at(container, "channel_id")
    chat = chat_of(channel, "") if channel else {"kind": "private", "id": user}
    thread = text_at(as_dict(payload.get("message")), "thread_ts") or text_at(container, "thread_ts")
    id = f"action-{digest(text_at(payload, 'trigger_id') or repr(payload))}"
    key = lane(NAME, context.account, chat["kind"], chat["id"])
    content = {
        "platform": NAME,
        "account": context.account,
        "chat": chat,
        "id": id,
        "sender": {"id": user, "name": context.name(user) or text_at(as_dict(payload.get("user")), "name") or user},
        "trigger_id": text_at(payload, "trigger_id"),
        "payload": without_secrets(payload),
        **({"thread": thread} if is_ts(thread) else {}),
    }
    return Told(f"slack.{kind}", content, key, dedup_key(key, id), id, _response_url(payload))


def _response_url(payload: Mapping[str, Any]) -> str:
    listed = [as_dict(entry) for entry in as_list(payload.get("response_urls"))]
    return text_at(payload, "response_url") or next((text_at(entry, "response_url") for entry in listed), "")
