"""What a source posts, and the message it becomes."""

from __future__ import annotations

import json
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import from_json

import lumia
from lumia import gateway
from lumia.payloads import Id, Text, escape_id

from . import attachments, callback
from .source import NAME, Source, bot_name

_SURE = 128
"""An ASCII id of so many characters is short enough, however much of it has to be escaped."""
_SURELY_SHORT = 256 // len("%F0%9F%A6%8A")
"""Characters of an id that are few enough, whatever they are."""
_CALLBACK_KEPT = 7 * 86400.0


def _numbered(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _short(value: str) -> str:
    if len(value) > _SURELY_SHORT and len(escape_id(value)) > 256:
        raise ValueError("at most 256 characters once escaped")
    return value


ShortId = Annotated[Id, BeforeValidator(_numbered), AfterValidator(_short)]


class Body(BaseModel):
    """The JSON object of a post; ids may be given as whole numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Text = ""
    media: Annotated[list[attachments.Item], Field(max_length=attachments.MOST)] = Field(default_factory=list)
    sender_id: ShortId
    group_id: ShortId | None = None
    message_id: ShortId | None = None
    callback_url: Annotated[str, Field(max_length=2048)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Body:
        if not self.text.strip() and not self.media:
            raise ValueError("text: at least one character that is not a space, or a file in media")
        return self


def read(data: bytes, source: Source) -> Body:
    """Return the posted object; raises `lumia.errors.PayloadError` saying what is wrong, and where."""
    try:
        body = Body.model_validate(from_json(data, allow_inf_nan=False))
    except ValueError:  # which says less than what follows, and refuses half characters, which are cleaned
        body = lumia.payloads.parse(Body, _json(data), what="body")
    attachments.check(body.media, source)
    if body.callback_url is not None:
        lumia.outside.check(body.callback_url, callback.places(source.callback_hosts))
    return body


def _json(data: bytes) -> Any:
    try:
        return _decoder.decode(data.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise lumia.errors.PayloadError(
            f"body: not JSON at line {error.lineno} column {error.colno}: {error.msg}"
        ) from None
    except UnicodeDecodeError as error:
        raise lumia.errors.PayloadError(f"body: byte {error.start} is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise lumia.errors.PayloadError(f"body: not JSON: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


async def submit(source: Source, body: Body) -> str:
    """Accept a message and return its run id; the same message id again gives the same run.

    The callback's address is written first, so a reply can never be quicker than it; so are files that came as data.
    Raises what `lumia.adapters.submit` raises, and `lumia.errors.BlobError` for a file that is not taken.
    """
    message_id = body.message_id or lumia.system.new_id()
    files = await gateway.call(_described, body.media) if body.media else []
    msg = compose(source, body, message_id, files)
    if body.callback_url:
        await gateway.call(_keep_callback, source, message_id, body.callback_url)
    return await lumia.adapters.submit(NAME, msg, raw=_posted(source, body, files))


def _posted(source: Source, body: Body, files: list[dict[str, Any]]) -> dict[str, Any]:
    found = {"source": source.name, "text": body.text, "sender_id": body.sender_id}
    more = {"group_id": body.group_id, "message_id": body.message_id, "callback_url": body.callback_url,
            "media": files or None}  # fmt: skip
    return found | {name: value for name, value in more.items() if value is not None}


def _described(items: list[attachments.Item]) -> list[dict[str, Any]]:
    return [attachments.described(n, item) for n, item in enumerate(items)]


def _keep_callback(source: Source, message_id: str, url: str) -> None:
    lumia.store.of(NAME).set(callback_key(message_id), url, scope=source.name, ttl=_CALLBACK_KEPT)


def callback_key(message_id: str) -> str:
    """Return the store key of a message's callback, in its source's scope."""
    return f"callback:{message_id}"


def compose(source: Source, body: Body, message_id: str, files: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the `msg` payload; the chat's id begins with the source, so a reply finds its way back."""
    kind, place = ("group", body.group_id) if body.group_id is not None else ("private", body.sender_id)
    name = bot_name()
    mentioned = lumia.payloads.names_bot(body.text, name)
    chat = {"kind": kind, "id": f"{source.name}:{place}"}
    sender = {"id": body.sender_id, "name": body.sender_id}
    if not files and not mentioned and len(chat["id"]) <= _SURE and chat["id"].isascii():
        # a body that was checked makes such a message right, and nearly all are of this kind
        return {
            "platform": NAME, "account": source.name, "chat": chat, "sender": sender, "message_id": message_id,
            "text": body.text, "segments": _segments(body.text, files), "mentions": [],
            "mentions_bot": kind == "private", "media": [], "time": lumia.system.now(),
        }  # fmt: skip
    return lumia.payloads.message(
        platform=NAME,
        account=source.name,
        chat=chat,
        sender=sender,
        text=body.text,
        message_id=message_id,
        segments=_segments(body.text, files),
        media=files,
        mentions=[{"id": source.name, "name": name}] if mentioned else [],
        mentions_bot=mentioned or kind == "private",
    )


def _segments(text: str, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    said = [{"type": "text", "data": {"text": text}}] if text else []
    return [*said, *({"type": file["kind"], "data": {"media": n}} for n, file in enumerate(files))]
