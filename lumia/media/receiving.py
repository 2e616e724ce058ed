"""The files of a message that came in: fetched before the message goes on, and never in its way."""

from __future__ import annotations

import hashlib
import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import lumia
from lumia.errors import (
    BackendUnavailableError,
    BlobError,
    EffectError,
    LumiaError,
    MediaError,
    OutsideError,
    RetryAfterError,
    StaleClaimError,
    TransientMediaError,
    UnreachableError,
)
from lumia.marks import Retry
from lumia.media.fetching import fetch, shown, size_limit, store, too_large
from lumia.media.links import is_sealed, with_links
from lumia.mediatypes import UNKNOWN, fits
from lumia.outside import PASSING

RETRY = Retry(attempts=8, backoff=1.0, max_delay=60.0)
"""How the step is tried again when it can't commit; files that can't be had don't make it fail."""
PAUSE = 0.5
"""Seconds before a file is tried for once more."""
SHARE = 2 / 3
"""Of the time a step has, files may take so much: one that is overdue would be given up, and its message with it."""
MAX_ERROR = 300
_TYPES: Mapping[str, tuple[str, ...]] = {
    "image": ("image/*",),
    "audio": ("audio/*", "video/*", "application/ogg", UNKNOWN),
    "video": ("video/*", "image/gif", UNKNOWN),
}
_log = logging.getLogger("lumia.media")


@dataclass(frozen=True)
class Place:
    """Where a file is. headers: sent to the URL's host only, e.g. its Authorization.

    allowed_hosts: inner places it may be at, as for `lumia.media.fetch`; a platform's server of one's own. name,
    media_type: what became known of the file on the way.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_hosts: Sequence[str] = ()
    name: str = ""
    media_type: str = ""


Locate = Callable[[dict[str, Any], dict[str, Any]], "Place | bytes"]
Same = Callable[[dict[str, Any]], str]


def _by_ref(item: dict[str, Any]) -> str:
    return str(item.get("ref") or "")


def receive(content: lumia.Box[Any], locate: Locate, *, same: Same = _by_ref) -> None:
    """Fetch the files of a `msg` payload into the blob store, and start pipeline `msg` in the same lane.

    To be called by the consumer of `msg.media.<platform>`. Each file is an effect; its item gets `blob`, `size` and
    `media_type`, or `error` in plain words. `locate(item, msg)` tells where a file is, or returns its bytes; it runs
    inside the effect, so it may ask the platform. How many files, how large and for how long: `[media]` of
    config/lumia.toml. A file that can't be had never holds up its message: a second try for passing trouble, and it
    goes on without. An item that has an `error` already keeps it. `locate` sees links that were sealed
    (`lumia.media.guarded`) as they are; once a file is here, its item has none any more.

    same: tells by what text a file is known; one with the text of a file fetched lately is taken for that file and not
    fetched again, one with "" is always fetched. It is the item's `ref` unless given: give it where a `ref` may be a
    mere name, which different files can have.
    """
    msg: dict[str, Any] = deepcopy(content.into())
    settings = lumia.config.get("lumia").media
    wanted = [(n, item) for n, item in enumerate(msg.get("media") or ()) if not (item.get("blob") or item.get("error"))]
    step = lumia.context.required("lumia.media.receive()")
    longest = (step.step.timeout or step.runtime.limits.step_timeout) * SHARE
    seconds = min(float(settings.seconds), longest)
    intake = _Intake(locate, same, msg, limit=size_limit(), remember=settings.remember, seconds=seconds)
    for place, (n, item) in enumerate(wanted):
        if place < settings.max_files:
            item.update(intake.had(n, item, ahead=min(len(wanted), settings.max_files) - place - 1))
            for name in [name for name in ("url", "ref") if item.get("blob") and is_sealed(item.get(name))]:
                del item[name]
        else:
            item["error"] = f"not fetched: only {settings.max_files} files of a message are ([media] max_files)"
    failed = sum(1 for _, item in wanted if "error" in item)
    lumia.annotate(files=len(wanted) - failed, files_failed=failed)
    lumia.pipe.start("msg", lumia.Box.any(msg, meta=dict(content.meta)))


class _Intake:
    """The files of one message. limit: bytes of one. remember, seconds: as configured."""

    def __init__(
        self, locate: Locate, same: Same, msg: dict[str, Any], *, limit: int, remember: float, seconds: float
    ) -> None:
        self._locate, self._same, self._msg, self._limit, self._remember = locate, same, msg, limit, remember
        self._until = time.monotonic() + seconds

    def had(self, n: int, item: dict[str, Any], *, ahead: int) -> dict[str, Any]:
        """Return what a file's item gets. ahead: how many files come after it, which need time as well."""
        item.pop("error", None)
        try:
            found = self._tried(n, item, ahead)
        except (MediaError, BlobError) as error:
            return {"error": _short(str(error))}
        blob: dict[str, Any] = found["blob"]
        same = self._same(deepcopy(item))
        if same and self._remember and not found.get("known"):
            lumia.store.set(_key(same), blob, scope=self._msg["account"], ttl=float(self._remember))
        named = {"name": found["name"]} if found.get("name") and not item.get("name") else {}
        return {"blob": blob, "size": blob["size"], "media_type": blob["media_type"], **named}

    def _tried(self, n: int, item: dict[str, Any], ahead: int) -> dict[str, Any]:
        def obtain(item: dict[str, Any]) -> dict[str, Any]:
            return self._obtained(item, ahead)

        def again(item: dict[str, Any]) -> dict[str, Any]:
            time.sleep(max(0.0, min(PAUSE, self._until - time.monotonic())))
            return obtain(item)

        given = deepcopy(item)
        try:
            return dict(lumia.effect(f"media {n}", obtain, given, kind="http"))
        except TransientMediaError:
            return dict(lumia.effect(f"media {n}, again", again, given, kind="http"))

    def _obtained(self, item: dict[str, Any], ahead: int) -> dict[str, Any]:
        types = _TYPES.get(str(item.get("kind")))
        known = _remembered(self._same(deepcopy(item)), self._msg["account"], types)
        if known is not None:
            return {"blob": known, "known": True}
        if (item.get("size") or 0) > self._limit:
            raise too_large(shown(item["size"]), self._limit)
        left = self._until - time.monotonic()
        if left <= 0:
            raise MediaError("not fetched: the files before it took all the time there is ([media] seconds)")
        place = self._located(item)
        declared = str(item.get("media_type") or "")
        if isinstance(place, bytes):
            return {"blob": store(place, declared, types=types, limit=self._limit).as_dict()}
        left = max(0.01, self._until - time.monotonic())
        ref = fetch(
            place.url, headers=place.headers, allowed_hosts=place.allowed_hosts, max_bytes=self._limit, types=types,
            media_type=place.media_type or declared, seconds=left / 2 if ahead else left,
        )  # fmt: skip
        return {"blob": ref.as_dict(), **({"name": place.name} if place.name else {})}

    def _located(self, item: dict[str, Any]) -> Place | bytes:
        try:
            place = self._locate(with_links(deepcopy(item)), self._msg)
        except (MediaError, BackendUnavailableError, StaleClaimError, EffectError):
            raise
        except (UnreachableError, RetryAfterError) as error:
            raise TransientMediaError(_short(str(error))) from None
        except LumiaError as error:
            transient = isinstance(error, OutsideError) and error.transient
            raise (TransientMediaError if transient else MediaError)(_short(str(error))) from None
        except Exception as error:  # its text may quote a URL with a token
            frame = traceback.extract_tb(error.__traceback__)[-1]
            what = f"where it is can't be told: {type(error).__name__}"
            _log.warning(
                "%s at %s:%s, locating a file of %s", what, frame.filename, frame.lineno, self._msg["platform"]
            )
            transient = isinstance(error, PASSING)
            raise (TransientMediaError if transient else MediaError)(what) from None
        if not isinstance(place, (Place, bytes)):
            raise MediaError(f"where it is can't be told: locate returned a {type(place).__name__}")
        return place


def _remembered(same: str, account: str, types: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the blob of a file that was fetched lately and is still here."""
    found = lumia.store.get(_key(same), scope=account) if same else None
    if not isinstance(found, dict) or not lumia.blobs.holds(found):
        return None
    return found if not types or any(fits(found["media_type"], wanted) for wanted in types) else None


def _key(same: str) -> str:
    return f"media:{hashlib.sha256(same.encode('utf-8', 'replace')).hexdigest()[:32]}"


def _short(text: str) -> str:
    shown = lumia.runtime.current().redact(text)
    return shown if len(shown) <= MAX_ERROR else f"{shown[: MAX_ERROR - 1]}…"
