"""What a model gives back, as JSON-exact values: the effect ledger records them and replay reads them again."""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lumia.errors import ModelError


@dataclass(frozen=True)
class Usage:
    """Tokens and requests of one call, summed over its own retries."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens,
            self.requests + other.requests,
        )  # fmt: skip


@dataclass(frozen=True)
class Reply:
    """The answer of a model role.

    `output` is the text, or an instance of the asked `output_type`; `text` is always the text (JSON for a structured
    output). `cost` is US dollars or None when the price isn't known, `ms` the time of the whole call in milliseconds,
    `offline` tells that rules answered and no model; `attempts` names each model that failed before this one answered.
    """

    output: Any
    text: str
    model: str
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    offline: bool = False
    ms: float = 0.0
    attempts: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; a structured output travels as its JSON text."""
        rest = {"model": self.model, "usage": asdict(self.usage), "cost": self.cost, "offline": self.offline}
        return {"text": self.text, **rest, "ms": self.ms, "attempts": list(self.attempts)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], output_type: Any = str) -> Reply:
        """Read what `as_dict` wrote; raises `ModelError` when the text doesn't fit `output_type` (any more)."""
        text = data["text"]
        return cls(
            output=text if output_type is str else read_output(text, output_type),
            text=text,
            model=data["model"],
            usage=Usage(**data["usage"]),
            cost=data["cost"],
            offline=data["offline"],
            ms=data["ms"],
            attempts=tuple(data["attempts"]),
        )


def write_output(value: Any, output_type: Any) -> str:
    """Return the JSON text of a structured output (the text itself for `str`)."""
    if output_type is str:
        return str(value)
    text: str = adapter(output_type).dump_json(value).decode()
    return text


def read_output(text: str, output_type: Any) -> Any:
    """Return the `output_type` instance that `text`, its JSON, stands for; raises `ModelError` when it doesn't fit."""
    try:
        return adapter(output_type).validate_json(text)
    except ValueError as error:
        wrong = " ".join(str(error).split())[:300]
        raise ModelError(
            f"the model's recorded answer doesn't fit {getattr(output_type, '__name__', output_type)}: {wrong}; "
            "has the output type changed since? Start the run anew"
        ) from None


def adapter(output_type: Any) -> Any:
    """Return pydantic's `TypeAdapter` of `output_type`."""
    from pydantic import TypeAdapter

    return TypeAdapter(output_type)


def schema_of(output_type: Any) -> str:
    """Return the JSON schema of `output_type` as stable text; `"text"` for `str`."""
    return "text" if output_type is str else json.dumps(adapter(output_type).json_schema(), sort_keys=True)


def pack_vectors(vectors: Sequence[Sequence[float]]) -> list[str]:
    """Return each vector as base64 of little-endian float32: a third of its size as a JSON list."""
    return [base64.b64encode(_little_endian(array("f", vector)).tobytes()).decode() for vector in vectors]


def unpack_vectors(packed: Sequence[str]) -> list[list[float]]:
    """Return the vectors `pack_vectors` wrote, at float32 precision."""
    return [_little_endian(array("f", base64.b64decode(text))).tolist() for text in packed]


def _little_endian(values: array[float]) -> array[float]:
    if sys.byteorder == "big":  # pragma: no cover  (no such machine in the tests)
        values.byteswap()
    return values
