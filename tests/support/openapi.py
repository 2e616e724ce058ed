"""The gateway's HTTP surface as an OpenAPI description, made from what plugins mount."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lumia.gateway.mounting import Mount

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
BODIES = ("POST", "PUT", "PATCH")


def description(
    mounts: Iterable[Mount],
    *,
    headers: Mapping[str, Sequence[str]],
    parameters: Mapping[str, Sequence[str]],
    bodies: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the description of every route.

    headers: values that some requests carry, by header. parameters: values of path parameters that lead somewhere,
    beside any text. bodies: JSON schemas of what a path takes; others take any JSON.
    """
    paths: dict[str, dict[str, Any]] = {"/": {"get": _operation([])}, "/healthz": {"get": _operation([])}}
    common = [{"name": name, "in": "header", "required": False, "schema": _one_of(values)}
              for name, values in headers.items()]  # fmt: skip
    for mount in mounts:
        if mount.kind != "route":
            continue
        found = [{"name": name, "in": "path", "required": True, "schema": _one_of(parameters.get(name, ()))}
                 for name in _PARAMETER.findall(mount.path)]  # fmt: skip
        operations = paths.setdefault(_PARAMETER.sub(r"{\1}", mount.path), {})
        for method in mount.methods:
            operations[method.lower()] = _operation([*found, *common])
            if method in BODIES:
                schema = bodies.get(mount.path, {})
                content = {"application/json": {"schema": schema},
                           "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}  # fmt: skip
                operations[method.lower()]["requestBody"] = {"required": False, "content": content}
    return {"openapi": "3.1.0", "info": {"title": "the gateway", "version": "1"}, "paths": paths}


def _operation(parameters: list[dict[str, Any]]) -> dict[str, Any]:
    return {"parameters": parameters, "responses": {"default": {"description": "anything but a 5xx"}}}


def _one_of(values: Sequence[str]) -> dict[str, Any]:
    anything = {"type": "string", "minLength": 1, "maxLength": 60}
    return {"anyOf": [{"type": "string", "enum": list(values)}, anything]} if values else anything
