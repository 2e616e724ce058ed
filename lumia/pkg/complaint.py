"""What is wrong with a file or an answer, in plain words, from what pydantic found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from lumia.pkg.text import plain

_KINDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "string_type": "is no text",
    "int_type": "is no whole number",
    "bool_type": "is neither true nor false",
    "list_type": "is no list",
    "tuple_type": "is no list",
    "dict_type": "is no object",
    "model_type": "is no object",
    "dataclass_type": "is no object",
    "string_pattern_mismatch": "is not written as it must be",
}
_LIMITS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "string_too_long": lambda limits: f"is longer than {limits['max_length']} characters",
    "string_too_short": lambda limits: f"is shorter than {_many(limits['min_length'], 'character')}",
    "too_long": lambda limits: f"has more than {limits['max_length']} entries",
    "too_short": lambda limits: f"has fewer than {_many(limits['min_length'], 'entry')}",
    "greater_than_equal": lambda limits: f"is less than {limits['ge']}",
    "less_than_equal": lambda limits: f"is more than {limits['le']}",
    "literal_error": lambda limits: f"is none of {limits['expected']}",
}


def complaint(error: ValidationError, whole: str) -> str:
    """Return the first thing that is wrong: `versions.0.commit is not written as it must be`.

    whole: what to call all of it, where no field of it is to blame.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    kind, place = first["type"], ".".join(str(part) for part in first["loc"] if part != "[key]")
    if kind == "json_invalid":
        return f"{whole} is no JSON"
    if kind in _LIMITS:
        told = _LIMITS[kind](first.get("ctx", {}))
    elif kind == "value_error":
        told = f"can't be right: {first['msg'].removeprefix('Value error, ')}"
    else:
        told = _KINDS.get(kind) or f"can't be right: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return plain(f"{place or whole} {told}", 200)


def _many(number: int, what: str) -> str:
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"
