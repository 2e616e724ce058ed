"""Marks for what the gateway serves and runs: `@lumia.web.route`, `@lumia.web.websocket` and `@lumia.web.resident`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lumia.errors import RegistrationError
from lumia.marks import RESIDENT, Function, Mark, marker, put

F = TypeVar("F", bound=Function)


def route(path: str, methods: Sequence[str] = ("GET",)) -> Callable[[F], F]:
    """Mark an `async def f(request) -> Response` to be mounted at `path` (starlette syntax) by the gateway."""
    if isinstance(methods, str):
        raise RegistrationError(f"route {path!r}: methods is a list, write methods=[{methods!r}]")
    return marker("route", _checked(path), methods=[method.upper() for method in methods])


def websocket(path: str) -> Callable[[F], F]:
    """Mark an `async def f(websocket)` to be mounted at `path` by the gateway."""
    return marker("websocket", _checked(path))


def resident(fn: F) -> F:
    """Mark an `async def f() -> None` to be run by every gateway process from its start until it drains.

    One that raises is run again after a pause; one that returns has done its work. See docs/gateway.md.
    """
    return put(Mark(RESIDENT, getattr(fn, "__name__", "")), fn)


def _checked(path: str) -> str:
    if isinstance(path, str) and path.startswith("/"):
        return path
    raise RegistrationError(f"a gateway path starts with '/', got {path!r}")
