"""The models say the same as the JSON Schemas that the registry's own tests read."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped,unused-ignore]
from pydantic import TypeAdapter, ValidationError

import lumia
from lumia.pkg.registry_model import Hit, Info, Problem, Revoked, Submitted
from tests.lumia.pkg.test_registry import HIT, INFO
from tests.support.registry import DATE

SCHEMAS = Path(lumia.__file__).resolve().parents[1] / "registry-worker" / "schema"
LOADED = {file.stem: json.loads(file.read_text("utf-8")) for file in SCHEMAS.glob("*.json")}
MODELS: dict[str, TypeAdapter[Any]] = {
    "search": TypeAdapter(list[Hit]),
    "pkg": TypeAdapter(Info),
    "revoked": TypeAdapter(Revoked),
    "submitted": TypeAdapter(Submitted),
    "problem": TypeAdapter(Problem),
}
GOOD: dict[str, Any] = {
    "search": [HIT],
    "pkg": INFO,
    "revoked": {
        "keys": [{"fingerprint": "SHA256:abcdefgh", "reason": "lost", "date": DATE}],
        "versions": [{"name": "weather", "tag": "v1.0.0", "reason": "bad", "date": DATE}],
    },
    "submitted": {"pull_request": None, "checks": [{"name": "schema", "ok": True, "text": ""}]},
    "problem": {"title": "Not found", "status": 404, "detail": "no such plugin"},
}
ODD: list[Any] = [
    None, True, 7, -1, 1.5, "", "x", "v1", "-v1", "a b", "A", "a" * 70, "a" * 600, "é", "0" * 40, [], {}, [{}],
    "https://e.org/x", "ext::sh", "sha256:" + "a" * 64, "2026-11-22", DATE, "ed25519:f:QQ==:QQ==", "ed25519:f",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside, except in a manifest, which is checked where it is installed."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list) and key != "manifest":
            yield from places(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any, *, drop: bool = False) -> Any:
    copied = copy.deepcopy(value)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return copied


def variants(good: Any) -> Iterator[Any]:
    yield good
    for path in places(good):
        yield changed(good, path, None, drop=True)
        if path[-1] != "manifest":
            yield from (changed(good, path, odd) for odd in ODD)


def whole(schema: Any) -> Any:
    """Return a schema with the other ones it refers to in it, instead of their names."""
    if isinstance(schema, list):
        return [whole(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    other = str(schema.get("$ref", ""))
    if other.startswith("lumia:registry/"):
        return LOADED[other.rpartition("/")[2]]
    return {key: whole(value) for key, value in schema.items()}


def accepted(model: TypeAdapter[Any], value: Any) -> bool:
    try:
        model.validate_json(json.dumps(value))
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model_and_schema_accept_and_refuse_the_same(name: str) -> None:
    schema = Draft202012Validator(whole(LOADED[name]))
    seen = {True: 0, False: 0}
    for value in variants(GOOD[name]):
        wanted = schema.is_valid(value)
        seen[wanted] += 1
        assert accepted(MODELS[name], value) == wanted, value
    assert seen[True] and seen[False]
