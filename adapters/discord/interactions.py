"""Slash commands, buttons and forms: signed posts in, answers by the interaction's token out.

Sources: interactions/overview.mdx, receiving-and-responding.mdx.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import lumia
from lumia.errors import RetryAfterError, UnreachableError

from . import rest
from .accounts import NAME, Account
from .api import DiscordError, RefusedError, ask
from .guilds import THREADS
from .incoming import born, display_name

PING, COMMAND, COMPONENT, AUTOCOMPLETE, FORM = 1, 2, 3, 4, 5
PONG: dict[str, Any] = {"type": 1}
DEFERRED: dict[str, Any] = {"type": 5}
NO_CHOICES: dict[str, Any] = {"type": 8, "data": {"choices": []}}
UNKNOWN: dict[str, Any] = {"type": 4, "data": {"content": "This bot can't do anything with that.", "flags": 1 << 6}}
VALID = 15 * 60.0
_MARGIN = 30.0
"""Seconds before a token's end from which on it is not used any more."""
_SETTLES = 10.0
"""Seconds in which Discord may not have read the deferred answer yet, so that a first answer finds nothing to edit."""
_PREFIX = "interaction-"
_ADMINISTRATOR = 1 << 3
_GONE = (10008, 10015, 10062, 50027)


def signed(public_key: str, signature: str, timestamp: str, body: bytes) -> bool:
    """Tell whether `signature` (hex) is the key's over timestamp and body; never raises."""
    try:
        given = bytes.fromhex(signature)
        _key(public_key).verify(given, timestamp.encode("utf-8", "surrogateescape") + body)
    except (InvalidSignature, ValueError):
        return False
    return len(given) == 64


@lru_cache(maxsize=64)
def _key(public_key: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))


def answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to answer an interaction with, once it is accepted where it is `talk`."""
    known: dict[int, dict[str, Any]] = {
        PING: PONG,
        COMMAND: DEFERRED,
        COMPONENT: DEFERRED,
        AUTOCOMPLETE: NO_CHOICES,
        FORM: DEFERRED,
    }
    kind = data.get("type")
    return known.get(kind, UNKNOWN) if isinstance(kind, int) else UNKNOWN


def is_talk(data: Mapping[str, Any]) -> bool:
    """Tell whether an interaction says something to the bot."""
    return data.get("type") in (COMMAND, COMPONENT, FORM)


def read(data: Mapping[str, Any], account: str) -> dict[str, Any]:
    """Return the `msg` payload of an interaction; raises `lumia.errors.PayloadError`."""
    private = not data.get("guild_id")
    channel = data.get("channel") or {}
    member = data.get("member") or {}
    user = member.get("user") or data.get("user") or {}
    sender: dict[str, Any] = {"id": str(user["id"]), "name": display_name(user)}
    if member.get("nick"):
        sender["card"] = str(member["nick"])
    if not private:
        rights = str(member.get("permissions") or "")
        sender["role"] = "admin" if rights.isdecimal() and int(rights) & _ADMINISTRATOR else "member"
    id = str(data.get("channel_id") or channel["id"])
    chat: dict[str, Any] = {"kind": "private" if private else "group", "id": id}
    if channel.get("name"):
        chat["name"] = str(channel["name"])
    return lumia.payloads.message(
        platform=NAME,
        account=account,
        chat=chat,
        sender=sender,
        message_id=_PREFIX + str(data["id"]),
        text=said(data),
        mentions_bot=True,
        time=born(str(data["id"])),
        **({"thread": id} if channel.get("type") in THREADS else {}),
    )


def said(data: Mapping[str, Any]) -> str:
    """Return an interaction as the text somebody would have written, such as `/ask why is the sky blue`."""
    given = data.get("data") or {}
    if data.get("type") == COMPONENT:
        return " ".join(map(str, given.get("values") or [given.get("custom_id", "")]))
    if data.get("type") == FORM:
        return "\n".join(_fields(given.get("components") or ()))
    return " ".join(filter(None, (f"/{given.get('name', '')}", *_options(given.get("options") or ()), _target(given))))


def _options(options: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for option in options:
        if "value" in option:
            value = option["value"]
            yield str(value).lower() if isinstance(value, bool) else str(value)
        else:
            yield str(option.get("name", ""))
            yield from _options(option.get("options") or ())


def _fields(components: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for component in components:
        if component.get("value"):
            yield str(component["value"])
        yield from map(str, component.get("values") or ())
        inner = component.get("components") or ([component["component"]] if component.get("component") else [])
        yield from _fields(inner)


def _target(given: Mapping[str, Any]) -> str:
    target, resolved = str(given.get("target_id") or ""), given.get("resolved") or {}
    content = (resolved.get("messages") or {}).get(target, {}).get("content")
    user = (resolved.get("users") or {}).get(target)
    return str(content or (f"@{display_name(user)}" if user else ""))


def bare(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an interaction without its token, as handlers and traces may see it."""
    return {key: value for key, value in data.items() if key != "token"}


def is_interaction(message_id: str) -> bool:
    """Tell whether a message id is one that `read` gave."""
    return message_id.startswith(_PREFIX)


def keep(account: str, data: Mapping[str, Any]) -> None:
    """Keep an interaction's token as long as it is good for; without one the answer is an ordinary message."""
    channel = data.get("channel_id") or (data.get("channel") or {}).get("id")
    if not (data.get("application_id") and data.get("token") and channel):
        return
    left = born(str(data["id"])) + VALID - _MARGIN - lumia.system.now()
    if left > 1:
        kept = {"application": str(data["application_id"]), "token": str(data["token"])}
        store = lumia.store.of(NAME)
        store.set(_PREFIX + str(data["id"]), kept, scope=account, ttl=min(left, VALID))
        store.set(f"open:{channel}", True, scope=account, ttl=VALID)


def begun(account: str, chat: str, run_id: str) -> str:
    """Return the message id of the interaction that a run began with, "" when it began otherwise.

    chat: where the run wants to say something; nothing is looked up where no interaction is open.
    """
    if not lumia.store.of(NAME).get(f"open:{chat}", False, scope=account):
        return ""
    return str(lumia.recorded(NAME, f"first message of {run_id}", _first_message, run_id))


def _first_message(run_id: str) -> str:
    bot = lumia.runtime.current()
    record = bot.transport.run(run_id)
    if record is None or not record.box:
        return ""
    msg = lumia.Box.load(record.box, bot.secret).into()
    found = str(msg.get("message_id", "")) if isinstance(msg, dict) else ""
    return found if is_interaction(found) else ""


def is_answered(account: str, message_id: str) -> bool:
    """Tell whether an interaction has its first answer already."""
    return bool(lumia.store.of(NAME).get(f"answered:{message_id}", False, scope=account))


def respond(
    name: str,
    message_id: str,
    n: int,
    kind: str,
    chat: str,
    body: Mapping[str, Any],
    files: Sequence[Mapping[str, Any]],
) -> dict[str, str]:
    """Send one message as an answer to an interaction; when its time is over, as an ordinary message.

    The first one takes the place of "thinking …", the others follow. Both need no token of the bot's.
    """
    account = rest.account_of(name)
    kept = lumia.store.of(NAME).get(message_id, scope=name)
    if kept is None:
        return rest.post(name, kind, chat, body, files)
    plain = {key: value for key, value in body.items() if key not in ("nonce", "enforce_nonce", "message_reference")}
    path = f"/webhooks/{kept['application']}/{kept['token']}"
    try:
        return rest.sent(_answered(account, message_id, n, path, plain, files), chat)
    except RefusedError as error:
        if error.status != 404 and error.code not in _GONE:
            raise
        if lumia.system.now() - born(message_id.removeprefix(_PREFIX)) < _SETTLES:
            raise RetryAfterError("Discord doesn't know of the interaction yet", wait=0.4) from error
        lumia.store.of(NAME).delete(message_id, scope=name)
        return rest.post(name, kind, chat, body, files)


def _answered(
    account: Account, message_id: str, n: int, path: str, body: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
) -> Any:
    uploads = [rest.upload(file) for file in files]
    if n > 0 or is_answered(account.name, message_id):
        return ask(account, "POST", f"{path}?wait=true", body, files=uploads, bearer=False)
    try:
        made = ask(account, "PATCH", f"{path}/messages/@original", body, files=uploads, bearer=False)
    except DiscordError as error:
        raise UnreachableError(f"{error}; the same edit is made again") from error
    lumia.store.of(NAME).set(f"answered:{message_id}", True, scope=account.name, ttl=VALID)
    return made


def acknowledge(account: Account, data: Mapping[str, Any]) -> None:
    """Answer an interaction that came by the Gateway, once it is accepted; a second answer is refused and harmless."""
    if data.get("token"):
        ask(account, "POST", f"/interactions/{data['id']}/{data['token']}/callback", answer(data), bearer=False)
