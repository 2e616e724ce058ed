"""The gateway: serves over HTTP what plugins mount with `@lumia.web.route` and `@lumia.web.websocket`.

`python -m lumia.gateway` starts it. It is the only part of Lumia that knows starlette and uvicorn; plugins take
`Request`, `JSONResponse` and the like from here, and nothing of it is loaded before the first of these names is used.
`start()` starts a run and commits it together with those of other requests. The core's other calls are synchronous, so
routes hand them to `call()`, which runs them on a bounded set of threads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import (
        HTMLResponse,
        JSONResponse,
        PlainTextResponse,
        RedirectResponse,
        Response,
        StreamingResponse,
    )
    from starlette.websockets import WebSocket, WebSocketDisconnect

    from lumia.gateway.app import Gateway
    from lumia.gateway.calls import BusyError, call
    from lumia.gateway.feed import JournalFeed, Subscription
    from lumia.gateway.intake import start
    from lumia.gateway.mounting import Mount
    from lumia.gateway.scope import current, is_local
    from lumia.gateway.server import Server, serve
    from lumia.gateway.settings import Settings

_HOMES = {
    "BusyError": "lumia.gateway.calls",
    "ClientDisconnect": "starlette.requests",
    "Gateway": "lumia.gateway.app",
    "HTMLResponse": "starlette.responses",
    "HTTPException": "starlette.exceptions",
    "JSONResponse": "starlette.responses",
    "JournalFeed": "lumia.gateway.feed",
    "Mount": "lumia.gateway.mounting",
    "PlainTextResponse": "starlette.responses",
    "RedirectResponse": "starlette.responses",
    "Request": "starlette.requests",
    "Response": "starlette.responses",
    "Server": "lumia.gateway.server",
    "Settings": "lumia.gateway.settings",
    "StreamingResponse": "starlette.responses",
    "Subscription": "lumia.gateway.feed",
    "WebSocket": "starlette.websockets",
    "WebSocketDisconnect": "starlette.websockets",
    "call": "lumia.gateway.calls",
    "current": "lumia.gateway.scope",
    "is_local": "lumia.gateway.scope",
    "serve": "lumia.gateway.server",
    "start": "lumia.gateway.intake",
}

__all__ = [
    "BusyError",
    "ClientDisconnect",
    "Gateway",
    "HTMLResponse",
    "HTTPException",
    "JSONResponse",
    "JournalFeed",
    "Mount",
    "PlainTextResponse",
    "RedirectResponse",
    "Request",
    "Response",
    "Server",
    "Settings",
    "StreamingResponse",
    "Subscription",
    "WebSocket",
    "WebSocketDisconnect",
    "call",
    "current",
    "is_local",
    "serve",
    "start",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)  # so that it is looked up once
    return found
