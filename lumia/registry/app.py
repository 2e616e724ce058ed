"""The registry's HTTP surface (spec §13.1), the worker's twin: `registry-worker/schema/` has the answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lumia.errors import LumiaError
from lumia.pkg.text import plain
from lumia.registry.catalogue import Catalogue
from lumia.registry.index import PAGE
from lumia.registry.submitting import Desk

_LONGEST_QUERY = 200
_LAST_PAGE = 1000
_MOST_BYTES = 1024 * 1024
_CACHE = "public, max-age=10, stale-while-revalidate=600, stale-if-error=86400"
_COMMON = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_TITLES = {400: "Bad request", 401: "Not authorized", 404: "Not found", 405: "Method not allowed", 413: "Too large",
           415: "No JSON", 500: "Failed", 503: "Unavailable"}  # fmt: skip


def application(catalogue: Catalogue, desk: Desk) -> Starlette:
    """Return the ASGI application over a catalogue; desk: where submissions go."""
    surface = _Surface(catalogue, desk)
    return Starlette(
        routes=[
            Route("/", surface.index, methods=["GET"]),
            Route("/search", surface.search, methods=["GET"]),
            Route("/pkg", surface.submit, methods=["POST"]),
            Route("/pkg/{name}", surface.plugin, methods=["GET"]),
            Route("/revoked", surface.revoked, methods=["GET"]),
            Route("/health", surface.health, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _problem, LumiaError: _unavailable, Exception: _failed},
    )


class _Surface:
    def __init__(self, catalogue: Catalogue, desk: Desk) -> None:
        self._catalogue = catalogue
        self._desk = desk

    async def index(self, request: Request) -> Response:
        ways = {"search": "/search?q=", "plugin": "/pkg/<name>", "revoked": "/revoked", "health": "/health"}
        return _kept(request, {"about": "a registry of Lumia plugins", **ways}, {})

    async def search(self, request: Request) -> Response:
        text = request.query_params.get("q", "").strip()
        asked = request.query_params.get("page", "1")
        if len(text) > _LONGEST_QUERY:
            raise HTTPException(400, f"A search has at most {_LONGEST_QUERY} characters.")
        page = int(asked) if re.fullmatch("[0-9]{1,6}", asked) else 0
        if not 1 <= page <= _LAST_PAGE:
            raise HTTPException(400, f"page is a number from 1 to {_LAST_PAGE}.")
        found, total = await run_in_threadpool(self._catalogue.search, text, page)
        links = []
        if page * PAGE < total and page < _LAST_PAGE:
            links.append(_link(text, page + 1, "next"))
        if page > 1:
            links.append(_link(text, page - 1, "prev"))
        headers = {"X-Total-Count": str(total)} | ({"Link": ", ".join(links)} if links else {})
        return _kept(request, found, headers)

    async def plugin(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = await run_in_threadpool(self._catalogue.plugin, name)
        if found is None:
            close, _ = await run_in_threadpool(self._catalogue.search, name[:_LONGEST_QUERY], 1)
            hint = f"; did you mean {close[0]['name']}?" if close else "."
            raise HTTPException(404, f"There is no plugin {json.dumps(plain(name, 64))}{hint}")
        return _kept(request, found, {})

    async def revoked(self, request: Request) -> Response:
        return _kept(request, await run_in_threadpool(self._catalogue.revoked), {})

    async def health(self, request: Request) -> Response:
        count = await run_in_threadpool(self._catalogue.count)
        return _answer(200, {"status": "ok", "plugins": count, "updated": None}, {"Cache-Control": "no-store"})

    async def submit(self, request: Request) -> Response:
        refusal = self._desk.refusal(request.headers.get("authorization", ""))
        if refusal:
            raise HTTPException(401, refusal, {"WWW-Authenticate": 'Bearer realm="lumia-registry"'})
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "A submission is sent as application/json.")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                raise HTTPException(413, f"A submission has at most {_MOST_BYTES} bytes.")
        try:
            data = json.loads(body)
        except ValueError as error:
            raise HTTPException(400, f"The body is no JSON: {error}") from None
        checks = await run_in_threadpool(self._desk.take, data)
        status = 202 if all(check["ok"] for check in checks) else 422
        return _answer(status, {"pull_request": None, "checks": checks}, {"Cache-Control": "no-store"})


def _link(text: str, page: int, rel: str) -> str:
    return f'</search?{urlencode({"q": text, "page": page})}>; rel="{rel}"'


def _answer(status: int, data: Any, headers: Mapping[str, str]) -> Response:
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Response(body, status, headers={**_COMMON, **headers}, media_type="application/json")


def _kept(request: Request, data: Any, headers: Mapping[str, str]) -> Response:
    """Answer with an ETag, or with 304 to who has this already."""
    answer = _answer(200, data, {"Cache-Control": _CACHE, **headers})
    etag = f'"{hashlib.sha256(bytes(answer.body)).hexdigest()[:32]}"'
    answer.headers["ETag"] = etag
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if etag in known or known == ["*"]:
        return Response(status_code=304, headers={**_COMMON, "ETag": etag, "Cache-Control": _CACHE, **headers})
    return answer


def _told(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    problem = {"type": "about:blank", "title": _TITLES.get(status, "Refused"), "status": status, "detail": detail}
    answer = _answer(status, problem, {"Cache-Control": "no-store", **(headers or {})})
    answer.headers["Content-Type"] = "application/problem+json"
    return answer


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404 and detail == "Not Found":
        detail = "There are /search?q=, /pkg/<name>, /revoked, /health and, to submit, POST /pkg."
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        detail = f"{request.method} is not for this address; it takes {allowed}."
    return _told(error.status_code, detail, error.headers)


def _unavailable(request: Request, error: Exception) -> Response:
    return _told(503, plain(str(error), 500))


def _failed(request: Request, error: Exception) -> Response:
    return _told(500, "The registry failed; its log says more. Installing by git URL still works.")
