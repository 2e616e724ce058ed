"""Marks for what the gateway serves: `@lumia.web.route` and `@lumia.web.websocket`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lumia.errors import RegistrationError
from lumia.marks import Function, marker

F = TypeVar("F", bound=Function)


def route(path: str, methods: Sequence[str] = ("GET",)) -> Callable[[F], F]:
    """Mark an `async def f(request) -> Response` to be mounted at `path` (starlette syntax) by the gateway."""
    if isinstance(methods, str):
        raise RegistrationError(f"route {path!r}: methods is a list, write methods=[{methods!r}]")
    return marker("route", _checked(path), methods=[method.upper() for method in methods])


def websocket(path: str) -> Callable[[F], F]:
    """Mark an `async def f(websocket)` to be mounted at `path` by the gateway."""
    return marker("websocket", _checked(path))


def _checked(path: str) -> str:
    if isinstance(path, str) and path.startswith("/"):
        return path
    raise RegistrationError(f"a gateway path starts with '/', got {path!r}")
