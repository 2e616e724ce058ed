"""The frames a page sends over the console's WebSocket (docs/console.md)."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

import lumia
from lumia.payloads import Id, Text

from .chat import Chat
from .files import MOST

MessageId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]


class ChatName(BaseModel):
    """A chat as frames name it."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["group", "private"]
    id: Annotated[Id, Field(max_length=64)]

    def chat(self) -> Chat:
        """Return the chat."""
        return Chat(self.kind, self.id)


class Open(BaseModel):
    """Show this chat: its history, then everything new."""

    type: Literal["open"]
    chat: ChatName


class Attached(BaseModel):
    """A file that was put up at /console/media before."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    name: Annotated[Text, Field(max_length=256)] = ""


class Send(BaseModel):
    """Say something; repeated with the same message id until it is acknowledged."""

    type: Literal["send"]
    chat: ChatName
    message_id: MessageId
    sender: Annotated[Id, Field(max_length=64)]
    text: Text = ""
    media: Annotated[list[Attached], Field(max_length=MOST)] = Field(default_factory=list)


class Trace(BaseModel):
    """Tell what became of a run."""

    type: Literal["trace"]
    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Ping(BaseModel):
    """Are you there?"""

    type: Literal["ping"]


Frame = Open | Send | Trace | Ping
_frames: TypeAdapter[Frame] = TypeAdapter(Annotated[Frame, Field(discriminator="type")])


def read(text: str) -> Frame:
    """Return the frame in a WebSocket message; raises `lumia.errors.PayloadError` saying what is wrong with it."""
    try:
        return _frames.validate_python(_parsed(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "frame"
        raise lumia.errors.PayloadError(f"{path}: {first['msg']}") from None


def message_id(text: str) -> str:
    """Return the message id of a frame that could not be read, so that the page knows which message was refused."""
    try:
        found = _parsed(text).get("message_id", "")
    except (lumia.errors.PayloadError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise lumia.errors.PayloadError(f"frame: not JSON: {error}") from None
