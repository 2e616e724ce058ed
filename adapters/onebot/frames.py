"""Frames of a OneBot v11 socket: one JSON object each, an event if it has `post_type`, else the answer to an action.

NapCat answers stream actions (`*_stream`) with several frames of one echo, of which the last is not of type `stream`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from lumia.errors import PayloadError
from lumia.payloads import clean_text

ASYNC, BAD_REQUEST, NO_TOKEN, BAD_TOKEN, UNKNOWN_ACTION, THREW = 1, 1400, 1401, 1403, 1404, 1200
_TOKEN_CODES = (NO_TOKEN, BAD_TOKEN, 401, 403)


@dataclass(frozen=True)
class Answer:
    """What became of an action. echo: None when the peer could not read the request. parts: a stream's other frames."""

    status: str
    retcode: int
    data: Any = None
    message: str = ""
    echo: Any = None
    stream: bool = False
    parts: tuple[Answer, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether it was done. Lagrange says `ok` with a retcode other than 0 for a message it could not send."""
        return self.status == "ok" and self.retcode == 0

    @property
    def deferred(self) -> bool:
        """Tell whether it was only taken note of: nobody will ever know the result."""
        return self.status == "async" or self.retcode == ASYNC

    @property
    def last(self) -> bool:
        """Tell whether no other frame of this echo follows."""
        return not (self.stream and isinstance(self.data, Mapping) and self.data.get("type") == "stream")

    @property
    def refused_token(self) -> bool:
        """Tell whether the peer did not accept our token."""
        return self.retcode in _TOKEN_CODES and self.status == "failed"

    @property
    def absent(self) -> bool:
        """Tell whether the peer has no such action."""
        return self.status == "failed" and self.retcode in (UNKNOWN_ACTION, 404)

    def __str__(self) -> str:
        said = f": {self.message[:300]}" if self.message else ""
        return f"{self.status or 'no status'}, retcode {self.retcode}{said}"


def parse(data: str | bytes) -> dict[str, Any]:
    """Return the object of a frame or of a posted body; what can't be stored (NUL, lone surrogates) becomes U+FFFD.

    Raises `PayloadError` for anything that is no JSON object.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = json.loads(text, parse_constant=_no_constant)
        unclean = "\\u" in text or "\x00" in text or not text.isascii()
        if isinstance(value, dict):
            return cleaned(value) if unclean else value
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"a OneBot frame that is no JSON: {type(error).__name__}") from None
    raise PayloadError(f"a OneBot frame is a JSON object, got a {type(value).__name__}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def cleaned(value: Any) -> Any:
    """Return JSON with every text in it made storable."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): cleaned(item) for key, item in value.items()}
    return value


def is_event(frame: Mapping[str, Any]) -> bool:
    """Tell whether a frame is an event."""
    return "post_type" in frame


def answer(frame: Mapping[str, Any]) -> Answer:
    """Return the answer in a frame that is no event; absent and odd fields are "", None or -1."""
    retcode = whole(frame.get("retcode"))
    status = frame.get("status")
    return Answer(
        status=status if isinstance(status, str) else "",
        retcode=-1 if retcode is None else retcode,
        data=frame.get("data"),
        message=str(frame.get("message") or frame.get("wording") or frame.get("msg") or ""),
        echo=frame.get("echo"),
        stream=frame.get("stream") == "stream-action",
    )


def request(action: str, params: Mapping[str, Any], echo: str) -> str:
    """Return the frame that asks for an action."""
    body = {"action": action, "params": params, "echo": echo}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def whole(value: Any) -> int | None:
    """Return a whole number given as one, or as its digits; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**63 else None
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 32:
        return int(value)
    return None


def identifier(value: Any) -> str:
    """Return an id as text: OneBot gives them as numbers or as digits; "" where there is none."""
    number = whole(value)
    if number is not None:
        return str(number)
    return value.strip() if isinstance(value, str) else ""
