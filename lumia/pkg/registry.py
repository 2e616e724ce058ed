"""The registry, asked over HTTP (spec §13.1; its answers' shapes are `registry-worker/schema/`).

A registry is a convenience and no authority: what it says is checked, and when it is down an answer kept from before is
used with a warning. Nothing here needs it for an install by URL.
"""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from pydantic import TypeAdapter, ValidationError

from lumia import system
from lumia.errors import RegistryError
from lumia.pkg.complaint import complaint
from lumia.pkg.registry_cache import Cache, Kept
from lumia.pkg.registry_model import Hit, Info, Problem, Revoked, Submitted
from lumia.pkg.registry_wire import Reply, Wire
from lumia.pkg.text import plain

if TYPE_CHECKING:
    from lumia.config import ConfigStore

VARIABLE = "LUMIA_REGISTRY_URL"
TOKEN = "LUMIA_REGISTRY_TOKEN"
NO_REGISTRY = (
    f"no registry is configured; set {VARIABLE} or [pkg] registry in config/lumia.toml, "
    "or install by address: pkg -S https://…/plugin.git, pkg -S ./folder"
)
Found = TypeVar("Found")


def configured(config: ConfigStore, environ: Mapping[str, str] | None = None) -> str:
    """Return the registry's URL: `LUMIA_REGISTRY_URL`, else `[pkg] registry`, else ""."""
    named = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    return named or str(config.core.pkg.registry).strip()


def checked_url(url: str) -> str:
    """Return the registry's URL without its last slash; raises `RegistryError` when it is none."""
    if not url:
        raise RegistryError(NO_REGISTRY)
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not url.isprintable() or " " in url:
        raise RegistryError(f"{plain(url, 200)!r} is no registry's URL; write it like https://registry.example.org")
    if parts.query or parts.fragment:
        raise RegistryError("a registry's URL has no ? and no #; write it like https://registry.example.org")
    return url.rstrip("/")


def is_open(url: str) -> bool:
    """Tell whether others on the way to `url` read and change what is said: http to another machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost" or host.endswith(".localhost")
    return parts.scheme == "http" and not loopback


def refuse_open(url: str) -> None:
    """Raise `RegistryError` for a registry to which a token would travel open."""
    if is_open(url):
        raise RegistryError(
            f"{url} is not encrypted, so the token would be open to whoever is on the way; nothing was sent. Put the "
            f"registry's https address into {VARIABLE} or [pkg] registry"
        )


class Registry:
    """A registry. cache: folder for its answers, which are asked for again only when they changed (ETag).

    warn: told once in a sentence for each answer that had to come from the cache, and of a connection others can read.
    Once it was away it isn't asked again: with many plugins that would be many times the wait.
    """

    def __init__(self, url: str, cache: Path, *, warn: Callable[[str], None] = lambda text: None) -> None:
        self.url = checked_url(url)
        self._wire = Wire(self.url)
        self._cache = Cache(cache)
        self._warn = warn
        self._told_open = not is_open(self.url)
        self._away: RegistryError | None = None

    def search(self, query: str, page: int = 1) -> tuple[list[Hit], int]:
        """Return one page of hits, best first, and the number of all."""
        path = f"/search?{urlencode({'q': query, 'page': page})}"
        reply = self._get(path)
        hits = self._read(TypeAdapter(list[Hit]), reply.body, path)
        total = reply.headers.get("x-total-count", "")
        return hits, int(total) if total.isdecimal() and len(total) < 10 else len(hits)

    def info(self, name: str) -> Info:
        """Return what it knows of a plugin; raises `RegistryError` when it knows none of that name, or lies."""
        path = f"/pkg/{quote(name, safe='')}"
        found = self._read(TypeAdapter(Info), self._get(path, name).body, path)
        if found.name != name:
            raise self._lies(path, f"it was asked for {name!r} and answers with {found.name!r}")
        if found.manifest.get("name", name) != name:
            raise self._lies(path, f"the manifest it gives for {name!r} names another plugin")
        if found.release(found.latest_tag) is None:
            raise self._lies(path, f"its latest tag {found.latest_tag} is none of the versions it lists")
        return found

    def revoked(self) -> Revoked:
        """Return the keys and versions that were called back."""
        return self._read(TypeAdapter(Revoked), self._get("/revoked").body, "/revoked")

    def submit(self, package: Mapping[str, Any], token: str) -> Submitted:
        """Hand in a version (`submission.json`); the answer's checks say what is wrong when there is no pull request.

        Raises `RegistryError` when the token is refused or would travel open, or the registry can't be reached.
        """
        refuse_open(self.url)
        reply = self._wire.post("/pkg", json.dumps(package).encode(), token)
        if reply.status in (202, 422):
            return self._read(TypeAdapter(Submitted), reply.body, "POST /pkg")
        raise self._unauthorized(reply, token) if reply.status == 401 else self._failed(reply, "/pkg", None)

    def admit(self, token: str) -> None:
        """Raise `RegistryError`, saying what the registry says, unless it takes versions with this token ("": none).

        It is asked by handing in nothing, which is refused for its content.
        """
        refuse_open(self.url)
        reply = self._wire.post("/pkg", b"{}", token)
        if reply.status not in (202, 400, 422):
            raise self._unauthorized(reply, token) if reply.status == 401 else self._failed(reply, "/pkg", None)

    # --- asking

    def _get(self, path: str, name: str | None = None) -> Reply:
        if not self._told_open:
            self._told_open = True
            self._warn(
                f"{self.url} is not encrypted: whoever is on the way can change what it says; use its https address"
            )
        kept = self._cache.get(self.url + path)
        try:
            if self._away is not None:
                raise self._away
            reply = self._wire.get(path, kept.etag if kept else "")
            if reply.status >= 500 or reply.status == 429:
                raise self._failed(reply, path, name)
        except RegistryError as error:
            if error.__cause__ is not None:  # no answer came: what speaks against an answer has no cause
                self._away = error
            if kept is None:
                raise
            self._warn(f"{error}; what it said before ({kept.day}) is used")
            return Reply(200, kept.headers, kept.body)
        if reply.status == 304 and kept is not None:
            return Reply(200, kept.headers, kept.body)
        if reply.status != 200:
            raise self._failed(reply, path, name)
        self._cache.put(self.url + path, Kept.of(reply.headers, reply.body))
        return reply

    def _unauthorized(self, reply: Reply, token: str) -> RegistryError:
        if token:
            return RegistryError(f"the registry {self.url} refuses the token in {TOKEN} (401){_detail(reply)}")
        return RegistryError(f"set {TOKEN} to your token of the registry {self.url} (401){_detail(reply)}")

    def _failed(self, reply: Reply, path: str, name: str | None) -> RegistryError:
        if reply.status == 404 and name is not None:
            return RegistryError(f"the registry {self.url} knows no plugin {name!r}; {self._instead(name)}")
        if reply.status == 429:
            after = _until(reply.headers.get("retry-after", ""))
            return RegistryError(f"the registry {self.url} was asked too often; try again {after}")
        if 300 <= reply.status < 400:
            place = plain(reply.headers.get("location", ""), 200)
            return RegistryError(f"the registry {self.url} says it is elsewhere ({place}); put that into {VARIABLE}")
        return RegistryError(f"the registry {self.url} answers {path} with status {reply.status}{_detail(reply)}")

    def _instead(self, name: str) -> str:
        """Return what to do about a name the registry doesn't know: its search forgives a slip."""
        try:
            close = difflib.get_close_matches(name, [hit.name for hit in self.search(name)[0]], n=1)
        except RegistryError:
            close = []
        return f"did you mean {close[0]!r}?" if close else "look for it with `pkg -Ss`"

    def _read(self, kind: TypeAdapter[Found], body: bytes, path: str) -> Found:
        try:
            return kind.validate_json(body)
        except ValidationError as error:
            raise self._lies(path, complaint(error, "the answer")) from None

    def _lies(self, path: str, problem: str) -> RegistryError:
        self._cache.drop(self.url + path)
        return RegistryError(
            f"the registry {self.url} answers {path} with something else than it must: {problem}; see that {VARIABLE} "
            "or [pkg] registry names a registry of Lumia's and tell whoever runs it, or install by address: "
            "pkg -S https://…/plugin.git"
        )


def _until(retry_after: str) -> str:
    """Return when to come back: Retry-After is in seconds, or a date (RFC 9110, 10.2.3)."""
    if retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 8:
        return f"after {retry_after} s"
    try:
        seconds = parsedate_to_datetime(retry_after).timestamp() - system.now()
    except (ValueError, OverflowError):
        return "later"
    return f"after {max(1, math.ceil(seconds))} s"


def _detail(reply: Reply) -> str:
    try:
        return f": {plain(Problem.model_validate_json(reply.body).detail, 300)}"
    except ValidationError:
        return ""
