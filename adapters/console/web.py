"""What the console mounts on the gateway: the page, its files, the login and the WebSocket."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import parse_qs

import lumia
from lumia import gateway

from . import files, session
from .chat import ACCOUNT, NAME
from .conversation import Conversation

STATIC = Path(__file__).with_name("static")
_TYPES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "files.js": "text/javascript; charset=utf-8",
    "trace.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_WRONG, _LATER = "That is not the token.", "Too many wrong tokens; wait a minute."
LOGIN_NEEDED = 4401
CLOSED = 4403


@lumia.web.route("/console")
async def page(request: gateway.Request) -> gateway.Response:
    """Serve the chat page, or what stands before it."""
    if "token" in request.query_params:
        return _login(request, request.query_params["token"])
    state = session.access(request)
    if state == "open":
        return _html("console.html")
    return _html("login.html", 401) if state == "login" else _html("closed.html", 403)


@lumia.web.route("/console/login", methods=["POST"])
async def login(request: gateway.Request) -> gateway.Response:
    """Take the login form."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    return _login(request, form.get("token", [""])[0])


@lumia.web.route("/console/logout", methods=["POST"])
async def logout(request: gateway.Request) -> gateway.Response:
    """Forget the session."""
    response = gateway.RedirectResponse("/console", 303)
    response.delete_cookie(session.COOKIE, path="/console")
    return response


@lumia.web.route("/console/static/{name}")
async def static(request: gateway.Request) -> gateway.Response:
    """Serve one of the page's files."""
    name = request.path_params["name"]
    if name not in _TYPES:
        raise gateway.HTTPException(404, "the console has no such file")
    data = (STATIC / name).read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return gateway.Response(status_code=304, headers=headers)
    return gateway.Response(data, media_type=_TYPES[name], headers=headers)


@lumia.web.route("/console/media", methods=["POST"])
async def put_up(request: gateway.Request) -> gateway.Response:
    """Keep a file, the request's body, for a message that will name it."""
    _must_be_open(request)
    name, declared = request.query_params.get("name", "")[:256], request.headers.get("content-type", "")
    try:
        return gateway.JSONResponse(await gateway.call(files.keep, await request.body(), name, declared), 201)
    except lumia.errors.BlobWriteError as error:
        raise gateway.HTTPException(503, str(error), {"Retry-After": "30"}) from None
    except lumia.errors.BlobError as error:
        raise gateway.HTTPException(400, str(error)) from None


@lumia.web.route("/console/media/{digest}")
async def media(request: gateway.Request) -> gateway.Response:
    """Give a file of a chat; what a browser might run is only saved."""
    _must_be_open(request)
    found = await gateway.call(files.served, request.path_params["digest"])
    if found is None:
        raise gateway.HTTPException(404, "the console has no such file, or it is no longer kept")
    data, media_type = found
    how = "attachment" if media_type == "application/octet-stream" else "inline"
    headers = {"Content-Disposition": how, "Content-Security-Policy": "sandbox; default-src 'none'",
               "Cache-Control": "private, max-age=86400"}  # fmt: skip
    return gateway.Response(data, media_type=media_type, headers=headers)


def _must_be_open(request: gateway.Request) -> None:
    state = session.access(request)
    if state != "open":
        raise gateway.HTTPException(401 if state == "login" else 403, "log in at /console")


@lumia.web.websocket("/console/ws")
async def socket(websocket: gateway.WebSocket) -> None:
    """Carry one page's conversation; the frames are described in docs/console.md."""
    state = session.access(websocket)
    await websocket.accept()
    if state != "open":
        await websocket.close(LOGIN_NEEDED if state == "login" else CLOSED, "log in at /console")
        return
    await Conversation(websocket).run()


@lumia.web.resident
async def tell_of_the_page() -> None:
    """Tell that the page is served (`lumia adapters`)."""
    lumia.adapters.account(NAME, ACCOUNT).listening("/console")


def _login(request: gateway.Request, token: str) -> gateway.Response:
    if not session.attempts.allowed():
        return _html("login.html", 429, _LATER, {"Retry-After": "60"})
    if session.is_token(token):
        return session.keep_in(gateway.RedirectResponse("/console", 303), secure=request.url.scheme == "https")
    session.attempts.failed()
    return _html("login.html", 401, _WRONG)


def _html(
    name: str, status: int = 200, message: str = "", headers: dict[str, str] | None = None
) -> gateway.HTMLResponse:
    text = (STATIC / name).read_text(encoding="utf-8")
    return gateway.HTMLResponse(text.replace("<!--message-->", message), status, headers)
