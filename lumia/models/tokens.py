"""How many tokens a text is, roughly and always the same: what a bill would count where no model tells.

Byte-pair vocabularies of today's models take about four characters of an alphabet and one and a half of Chinese or
Japanese per token. The offline model reports its usage by this, and whoever compares costs without a model counts so.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from lumia.models.reply import Usage, adapter

if TYPE_CHECKING:
    from lumia.models.messages import Request

_DENSE = re.compile(r"[\u1100-\u11ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+")
_DENSE_PER_TOKEN, _OTHER_PER_TOKEN = 1.5, 4.0


def estimate(text: str) -> int:
    """Return the estimated tokens of `text`: 0 for an empty one, at least 1 for any other."""
    if not text:
        return 0
    dense = 0 if text.isascii() else sum(map(len, _DENSE.findall(text)))
    return max(1, round(dense / _DENSE_PER_TOKEN + (len(text) - dense) / _OTHER_PER_TOKEN))


def of_request(request: Request) -> int:
    """Return the estimated tokens of a prompt: system text, messages with their authors' names, and output schema."""
    texts = [
        request.system or "",
        *(f"{one.name}: {one.content}" if one.name else one.content for one in request.messages),
    ]
    return sum(map(estimate, texts)) + of_schema(request.output_type)


def of_schema(output_type: Any) -> int:
    """Return the estimated tokens of a structured output's JSON schema without its titles; 0 for text."""
    if output_type is str:
        return 0
    try:
        return _of_schema(output_type)
    except TypeError:  # a type that can't be hashed
        return _of_schema.__wrapped__(output_type)


@cache
def _of_schema(output_type: Any) -> int:
    return estimate(
        json.dumps(_untitled(adapter(output_type).json_schema()), ensure_ascii=False, separators=(",", ":"))
    )


def usage(request: Request, text: str) -> Usage:
    """Return the estimated usage of one request that was answered with `text`."""
    return Usage(of_request(request), estimate(text), 1)


def _untitled(schema: Any) -> Any:
    """Return a schema without the titles pydantic makes of names: providers aren't sent them."""
    if isinstance(schema, list):
        return [_untitled(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _untitled(part) for key, part in schema.items() if not (key == "title" and isinstance(part, str))}
