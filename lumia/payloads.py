"""The payloads and names that adapters, handlers and scripts share (DESIGN §10).

The models are checked where something enters: adapters, commands, callbacks. Inside, handlers receive plain dicts.
`python -m lumia.payloads` writes the JSON Schemas in `lumia/schema/`; `--check` only tells whether they are current.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from lumia import escaping, ids, system
from lumia.errors import PayloadError

is_message = ids.is_message
escape_id, unescape_id = escaping.escape_id, escaping.unescape_id

PIDS: Mapping[str, int] = {"console": 1, "webhook": 2, "qq": 3, "telegram": 4, "discord": 5, "slack": 6, "satori": 7}
"""Numeric ids of the platforms Lumia ships; a stranger's adapter takes one from 100 up."""

SCHEMA_DIR = Path(__file__).with_name("schema")
_MAX_NAME = 512
_DEST = ", dest="
ACTIONS = ("msg.send", "msg.edit", "msg.delete")
"""Events that name a destination."""
_REPLACEMENT = "\ufffd"
T = TypeVar("T", bound=BaseModel)


def clean_text(text: str) -> str:
    """Return `text` without what can't be stored or sent: NUL and lone surrogates become U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\x00", _REPLACEMENT)


def _cleaned(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _identifier(value: str) -> str:
    if not value.isprintable() and any(unicodedata.category(char) == "Cc" for char in value):
        raise ValueError("an id holds no control characters")
    return value


def _short_enough(value: str) -> str:
    if len(escape_id(value)) > _MAX_ESCAPED:
        raise ValueError(f"a chat id has at most {_MAX_ESCAPED} characters once escaped")
    return value


Text = Annotated[str, BeforeValidator(_cleaned)]
Id = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_identifier)]
Platform = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,32}$")]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]


_SCALARS = frozenset({str, int, float, bool})


class Payload(BaseModel):
    """Base of the payloads: unknown fields are refused, optional ones that are absent are left out of the dict."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    def plain(self) -> dict[str, Any]:
        """Return what `model_dump` returns, quicker: a dict of its own, in which nothing is shared with this one."""
        required, nested = _required(type(self)), None
        found = {name: value for name, value in self.__dict__.items() if value is not None or name in required}
        for name, value in found.items():
            if type(value) not in _SCALARS:
                nested = nested or []
                nested.append((name, _plain(value)))
        return found if nested is None else {**found, **dict(nested)}

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        required = _required(type(self))
        packed: dict[str, Any] = handler(self)
        return {name: value for name, value in packed.items() if value is not None or name in required}


@cache
def _required(model: type[Payload]) -> frozenset[str]:
    return frozenset(name for name, field in model.model_fields.items() if field.is_required())


def _plain(value: Any) -> Any:
    if isinstance(value, Payload):
        return value.plain()
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


class Chat(Payload):
    """Where a message was said. id: unique within platform and account, at most 384 characters once escaped."""

    kind: Literal["group", "private"]
    id: Annotated[Id, AfterValidator(_short_enough)]
    name: Text | None = None


class Sender(Payload):
    """Who said it. card: the name used in this group. role: owner, admin or member, where the platform knows."""

    id: Id
    name: Text = ""
    card: Text | None = None
    role: Text | None = None


class Segment(Payload):
    """One piece of a message: text {text}, mention {id, name}, image, file, reply {id}, or what the platform names."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    data: dict[str, Any] = Field(default_factory=dict)


class Mention(Payload):
    """Somebody named in a message."""

    id: Id
    name: Text | None = None


class Blob(Payload):
    """A reference into the blob store: what `lumia.blobs.put` returns."""

    digest: Annotated[str, Field(min_length=1, max_length=128)]
    size: Annotated[int, Field(ge=0)]
    media_type: Annotated[str, Field(max_length=128)]


class Media(Payload):
    """A file of a message, by reference. size: bytes. ref: the platform's own id of it. error: why there is no blob."""

    kind: Literal["image", "audio", "video", "file"]
    blob: Blob | None = None
    ref: Annotated[str, Field(max_length=4096)] | None = None
    error: Text | None = None
    url: Annotated[str, Field(max_length=4096)] | None = None
    name: Text | None = None
    media_type: Annotated[str, Field(max_length=128)] | None = None
    size: Annotated[int, Field(ge=0)] | None = None


class Msg(Payload):
    """A message that came in: the content of pipeline `msg`. time: seconds since 1970."""

    platform: Platform
    account: Id
    chat: Chat
    thread: Id | None = None
    sender: Sender
    message_id: Id
    text: Text = ""
    segments: list[Segment] = Field(default_factory=list)
    mentions: list[Mention] = Field(default_factory=list)
    mentions_bot: bool = False
    reply_to: Id | None = None
    media: list[Media] = Field(default_factory=list)
    time: Annotated[float, Field(ge=0)]
    sender_embedding: Blob | None = None


class MsgSend(Payload):
    """A message to be sent: the content of event `msg.send, dest=…`. A bare string stands for its text (spec §12.6)."""

    text: Text | None = None
    segments: list[Segment] | None = None
    reply_to: Id | None = None
    idempotency_key: Id | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _says_something(self) -> MsgSend:
        if self.text is None and not self.segments:
            raise ValueError("a message to send has a text or segments")
        return self


class MsgEdit(Payload):
    """A message of ours gets another text: the content of event `msg.edit, dest=…`."""

    message_id: Id
    text: Text | None = None
    segments: list[Segment] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> MsgEdit:
        if self.text is None and not self.segments:
            raise ValueError("an edit has the new text or segments")
        return self


class MsgDelete(Payload):
    """A message is taken back: the content of event `msg.delete, dest=…`."""

    message_id: Id


class Origin(Payload):
    """Where an update comes from. run_id: the run that learned it."""

    platform: Platform
    account: Id
    chat: Chat
    sender: Sender
    run_id: Id


class MemoryUpdate(Payload):
    """Something to remember or to forget: the content of event `memory.update` (spec §12.5)."""

    action: Literal["upsert", "forget"] = "upsert"
    topic: Annotated[Text, Field(min_length=1, max_length=256)]
    content: Text = ""
    importance: Unit = 0.5
    origin: Origin


class RelationUpdate(Payload):
    """A change between two people: the content of event `relation.update` (spec §12.5). "self" is the bot."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    source: Annotated[Id, Field(alias="from")]
    to: Id
    type: Annotated[str, Field(min_length=1, max_length=64)]
    weight_delta: Annotated[float, Field(ge=-1.0, le=1.0)]
    origin: Origin

    def plain(self) -> dict[str, Any]:
        """Return what `model_dump` returns."""
        return self.model_dump()

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        packed: dict[str, Any] = handler(self)
        return packed


class ReplyBias(Payload):
    """What to say, before how it is said (spec §12.5)."""

    intent: Text
    emotion: Text = ""
    key_points: list[Text] = Field(default_factory=list)
    persona_hint: Text = ""


class ReplyPolish(Payload):
    """The content of pipeline `reply.polish` (spec §12.6): the thought and the message it answers."""

    reply_bias: ReplyBias
    msg: Msg


MODELS: Mapping[str, type[Payload]] = {
    "msg": Msg,
    "msg.send": MsgSend,
    "msg.edit": MsgEdit,
    "msg.delete": MsgDelete,
    "memory.update": MemoryUpdate,
    "relation.update": RelationUpdate,
    "reply.polish": ReplyPolish,
}


def validate(kind: str, value: Any) -> dict[str, Any]:
    """Return `value` as the plain dict that handlers of `kind` receive.

    kind: a key of `MODELS`, or an id such as `msg.send, dest=…` that begins with one. Raises `PayloadError` naming the
    path of the first wrong field.
    """
    model = MODELS.get(kind.split(",", 1)[0])
    if model is None:
        raise PayloadError(f"no payload is called {kind!r}; there are {', '.join(MODELS)}")
    return parse(model, value, what=kind).plain()


def message(
    *,
    platform: str,
    account: str,
    chat: Mapping[str, Any],
    sender: Mapping[str, Any],
    text: str = "",
    message_id: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return a valid `msg` payload of plain text; what `fields` leave out is filled in.

    message_id: a new one unless given. A private chat is always for the bot. Raises `PayloadError`.
    """
    filled = {
        "message_id": message_id or system.new_id(),
        "time": system.now(),
        "segments": [{"type": "text", "data": {"text": clean_text(text)}}] if isinstance(text, str) and text else [],
        "mentions_bot": chat.get("kind") == "private",
    }
    named = {"platform": platform, "account": account, "chat": chat, "sender": sender, "text": text}
    return validate("msg", {**filled, **named, **fields})


def parse(model: type[T], value: Any, *, what: str) -> T:
    """Return `value` as a `model`; raises `PayloadError` saying which field of `what` is wrong and why."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise PayloadError(f"{what}: {_explained(error)}") from None


def _explained(error: ValidationError) -> str:
    first, *others = error.errors(include_url=False, include_context=False)
    path = ".".join(str(part) for part in first["loc"]) or "the body"
    more = f" (and {len(others)} more)" if others else ""
    return f"{path}: {first['msg'].removeprefix('Value error, ')}{more}"


@dataclass(frozen=True)
class Destination:
    """Where a message goes. kind: group or private. id: the chat, unescaped."""

    pid: int
    platform: str
    kind: str
    id: str

    def __str__(self) -> str:
        return destination(self.pid, self.platform, self.kind, self.id)


_MAX_ESCAPED = 384
_HEAD = re.compile(r"(\d{1,9})\.([a-z0-9_]{1,32})\.(group|private)")
_STRAY = re.compile(r"-|%(?![0-9A-Fa-f]{2})")


def destination(pid: int, platform: str, kind: str, id: str, *, action: str = "msg.send") -> str:
    """Return the event id that sends to a chat, e.g. `msg.send, dest=3.qq.group-12`; raises `PayloadError`.

    action: one of `ACTIONS`.
    """
    if action not in ACTIONS:
        raise PayloadError(f"no destination for {action!r}; an action is one of {', '.join(ACTIONS)}")
    head = f"{pid}.{platform}.{kind}"
    if not _HEAD.fullmatch(head):
        raise PayloadError(
            f"no destination {head!r}: pid is a number, platform is [a-z0-9_]+ and kind is group or private"
        )
    return f"{action}{_DEST}{head}-{escape_id(id)}"


def reply_to(msg: Mapping[str, Any], pid: int | None = None) -> str:
    """Return the destination that answers a `msg` payload in its own chat.

    pid: of a platform that is not in `PIDS` (100 or more). Raises `PayloadError` for such a platform without one.
    """
    platform, chat = msg["platform"], msg["chat"]
    number = PIDS.get(platform) if pid is None else pid
    if number is None:
        raise PayloadError(f"platform {platform!r} has no number of its own; pass its pid, 100 or more")
    return destination(number, platform, chat["kind"], chat["id"])


@lru_cache(maxsize=4096)
def lane(platform: str, account: str, kind: str, id: str) -> str:
    """Return the key under which a chat's messages are served in order (DESIGN §4), e.g. `qq:10001:group-12`."""
    return f"{platform}:{escape_id(account)}:{kind}-{escape_id(id)}"


def dedup_key(lane: str, message_id: str) -> str:
    """Return the text under which a message of a lane is accepted once; a long message id is hashed."""
    key = f"{lane}:{escape_id(message_id)}"
    return key if len(key) <= _MAX_NAME else f"{lane}:{hashlib.sha256(message_id.encode()).hexdigest()[:32]}"


def parse_destination(id_str: str) -> Destination:
    """Return the parts of an id that `destination` made, of whichever action.

    Hand-written ids may leave harmless characters unescaped; raises `PayloadError` when the id can't be read one way.
    """
    action, _, rest = id_str.partition(_DEST)
    head, dash, escaped = rest.partition("-")
    found = _HEAD.fullmatch(head)
    if action not in ACTIONS or not found or not dash or not escaped:
        raise PayloadError(
            f"{id_str!r} is no destination; expected {ACTIONS[0]}{_DEST}<pid>.<platform>.<group|private>-<id>"
        )
    if _STRAY.search(escaped) or escaping.has_surrogate(escaped):
        raise PayloadError(f"{id_str!r}: a '-' or '%' inside a chat id is escaped; use lumia.payloads.destination(…)")
    try:
        return Destination(int(found[1]), found[2], found[3], unescape_id(escaped))
    except UnicodeDecodeError:
        raise PayloadError(f"{id_str!r}: the escapes of the chat id are no UTF-8") from None


def text_of(value: Any) -> str:
    """Return the plain text of a `msg.send` or `msg` content: a string, or a dict with text or segments."""
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, Mapping):
        raise PayloadError(f"a message is a string or a dict with text or segments, got {type(value).__name__}")
    if isinstance(value.get("text"), str):
        return clean_text(value["text"])
    segments = value.get("segments")
    if not isinstance(segments, list):
        raise PayloadError(
            f"a message has a text or segments, this one has only {', '.join(map(str, value)) or 'nothing'}"
        )
    return clean_text("".join(_segment_text(segment) for segment in segments))


def _segment_text(segment: Any) -> str:
    kind, data = (segment.get("type"), segment.get("data")) if isinstance(segment, Mapping) else ("", None)
    data = data if isinstance(data, Mapping) else {}
    if kind == "text":
        return str(data.get("text", ""))
    if kind == "mention":
        return f"@{data.get('name') or data.get('id', '')}"
    return "" if kind == "reply" else f"[{kind or 'segment'}]"


def names_bot(text: str, name: str) -> bool:
    """Tell whether `text` names the bot as `@name`, in any case and as a whole word."""
    return bool(name) and "@" in text and _naming(name).search(text) is not None


@lru_cache(maxsize=64)
def _naming(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)@{re.escape(name)}(?!\w)", re.IGNORECASE)


def schema_text(kind: str) -> str:
    """Return the JSON Schema file of a payload."""
    schema = MODELS[kind].model_json_schema(mode="validation")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"lumia/schema/{kind}.json"}
    return json.dumps({**head, **schema}, indent=2, sort_keys=True) + "\n"


def outdated(folder: Path | None = None) -> list[Path]:
    """Return the schema files in `folder` (default: Lumia's own) that differ from the models."""
    folder = folder or SCHEMA_DIR
    wanted = {folder / f"{kind}.json": schema_text(kind) for kind in MODELS}
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    return stale + [path for path in folder.glob("*.json") if path not in wanted]


def main(arguments: list[str]) -> int:
    """Write the schema files, or with `--check` only tell which are not current; returns the exit code."""
    if "--check" in arguments:
        for path in outdated():
            sys.stderr.write(f"{path} is not current; run `python -m lumia.payloads`\n")
        return 1 if outdated() else 0
    SCHEMA_DIR.mkdir(exist_ok=True)
    for kind in MODELS:
        (SCHEMA_DIR / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")
    sys.stdout.write(f"wrote {len(MODELS)} schemas to {SCHEMA_DIR}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
