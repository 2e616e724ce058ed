"""The four ways in which a Bot API call brings its parameters: query, form, JSON and multipart."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl

Files = dict[str, tuple[str, bytes]]
_TEXTS = {"text", "caption", "parse_mode", "url", "secret_token", "callback_query_id", "file_id", "action", "title",
          "question", "emoji", "address", "first_name", "last_name", "phone_number"}  # fmt: skip


def read_parameters(content_type: str, query: str, body: bytes) -> tuple[dict[str, Any], Files]:
    """Return the parameters, with JSON in form fields decoded, and the uploaded files."""
    params = {name: _value(name, value) for name, value in parse_qsl(query)}
    files: Files = {}
    if content_type.startswith("application/json"):
        params |= json.loads(body or b"{}")
    elif content_type.startswith("application/x-www-form-urlencoded"):
        params |= {name: _value(name, value) for name, value in parse_qsl(body.decode())}
    elif content_type.startswith("multipart/form-data"):
        for name, file_name, data in _parts(content_type, body):
            if file_name is None:
                params[name] = _value(name, data.decode())
            else:
                files[name] = (file_name, data)
    return params, files


def _value(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _parts(content_type: str, body: bytes) -> list[tuple[str, str | None, bytes]]:
    found = re.search(r'boundary="?([^";]+)"?', content_type)
    assert found, "multipart without a boundary"
    parts = []
    for part in (b"\r\n" + body).split(b"\r\n--" + found[1].encode())[1:-1]:
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        named = re.search(rb'[; ]name="([^"]*)"', head)
        filed = re.search(rb'filename="([^"]*)"', head)
        assert named, head
        parts.append((named[1].decode(), filed[1].decode() if filed else None, data))
    return parts
