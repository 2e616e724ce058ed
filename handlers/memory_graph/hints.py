"""Hints (spec §12.7, DESIGN §11): what is worth bearing in mind in a chat for a while, above all commitments.

They live in `lumia.store` under the plugin's name and the chat's scope, not in Postgres: its writes commit with the
step or not at all. A turn that fails has injected nothing and its retry sees the same hints, which a row written in a
transaction of its own could not promise; (run, step, ordinal) needs no key, since a step commits once. A chat holds at
most 64 hints and 128 commitments, each list read at once.

Two ways lead to a hint: similarity of its text to the message (the five nearest), and the hash of a commitment the
message is about. What was injected in the last turn by similarity alone is not injected again in this one; that mark is
all that clearing takes away. A commitment stays until it expires and comes back whenever a message names it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Literal

import numpy as np

import lumia

from . import texts
from .commitments import Commitment, keys_of
from .topics import names_in
from .types import Calibration, Embedded

PLUGIN = "memory-graph"
HINTS, COMMITMENTS, INJECTED = "hints", "commitments", "hints_injected"
KEPT = {HINTS: 64, COMMITMENTS: 128}
SIMILAR = 5
"""How many of the nearest hints are candidates."""
FLOOR = 0.2
"""Closeness (`Calibration.closeness`) below which a hint has nothing to do with the message."""
MAX_TTL_HOURS = 24.0 * 60
_MARK_SECONDS = 7 * 86400.0
_LONGEST = 500


@dataclass(frozen=True)
class Hint:
    """A hint as it is chosen. hash: its key. expires_at: seconds since 1970. found: by which way.

    score: closeness of its text to the message; 1 for a commitment that was named.
    """

    text: str
    hash: str
    expires_at: float
    commitment: bool
    found: Literal["exact", "similar"] = "similar"
    score: float = 0.0


@dataclass(frozen=True)
class _Kept:
    text: str
    hash: str
    expires_at: float
    vector: Embedded | None
    model: str
    keys: frozenset[str]
    commitment: bool


def add(
    chat: str,
    text: str,
    *,
    ttl_hours: float,
    vector: Embedded,
    model: str,
    now: float,
    commitment: Commitment | None = None,
    hash: str = "",
    people: Iterable[str] = (),
    zone: tzinfo | None = None,
) -> str:
    """Keep a hint for a chat and return its hash; one with the same hash is replaced, and lives until the later end.

    chat: the store scope of the chat. vector, model: of `text`. hash: as the caller has it; otherwise that of the
    normalised commitment, else of the text's words. people: ids of whom it is about or comes from, besides those who
    are committed. now: seconds since 1970.
    """
    normal = commitment.normalised(now, zone) if commitment else None
    key = hash or (normal.digest if normal else _text_hash(text))
    known = {one.hash: one for one in _kept(chat, now)}.get(key)
    expires = now + min(max(ttl_hours, 0.0), MAX_TTL_HOURS) * 3600
    item = {
        "text": text.strip()[:_LONGEST],
        "hash": key,
        "expires_at": max(expires, known.expires_at if known else 0.0),
        "vector": packed(vector),
        "model": model,
        "keys": sorted(normal.keys()) if normal else [],
        "people": sorted({*people, *(normal.who if normal else ())}),
    }
    name = COMMITMENTS if normal else HINTS
    _store().append(name, item, scope=chat, keep=KEPT[name], ttl=MAX_TTL_HOURS * 3600)
    return key


def select(
    chat: str,
    text: str,
    vector: Embedded | None,
    *,
    sender: str,
    model: str,
    calibration: Calibration,
    now: float,
    top: int = SIMILAR,
    zone: tzinfo | None = None,
) -> tuple[Hint, ...]:
    """Return the hints for a message, named commitments first, then by closeness; at most `top`.

    vector: of the message as a query, None when it could not be embedded: then only named commitments are found.
    """
    kept = list(_kept(chat, now))
    named = keys_of(text, sender, now, zone)
    exact = [_hint(one, "exact", 1.0) for one in kept if one.keys & named]
    known = {hint.hash for hint in exact} | _injected(chat)
    near = _nearest([one for one in kept if one.hash not in known], vector, model, calibration)
    return (*exact, *near)[:top]


def injected(chat: str, hints: Iterable[Hint]) -> None:
    """Note which hints the prompt of this turn holds; those of the turn before are free again."""
    _store().set(INJECTED, [hint.hash for hint in hints], scope=chat, ttl=_MARK_SECONDS)


def forget(chat: str) -> None:
    """Drop all hints and commitments of a chat."""
    for name in (HINTS, COMMITMENTS, INJECTED):
        _store().delete(name, scope=chat)


def forget_person(chat: str, person: str, names: Iterable[str]) -> int:
    """Drop the hints and commitments of a chat that are about a person, or name one of `names`; returns how many."""
    called = [one for one in {person, *names} if len(one) > 1]
    gone = 0
    for name, most in KEPT.items():
        items = _store().items(name, scope=chat)
        left = [item for item in items if not _is_about(item, person, called)]
        if len(left) == len(items):
            continue
        gone += len(items) - len(left)
        _store().delete(name, scope=chat)
        for item in left:
            _store().append(name, item, scope=chat, keep=most, ttl=MAX_TTL_HOURS * 3600)
    return gone


def _is_about(item: Any, person: str, called: Sequence[str]) -> bool:
    if not isinstance(item, dict):
        return False
    return person in (item.get("people") or ()) or bool(names_in(texts.folded(str(item.get("text", ""))), called))


def packed(vector: Embedded) -> str:
    """Return a vector as base64 of little-endian float16: a sixth of its size as a JSON list."""
    return base64.b64encode(np.asarray(vector, "<f2").tobytes()).decode()


def unpacked(text: str) -> Embedded:
    """Return the vector that `packed` wrote."""
    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float32)


def _store() -> Any:
    return lumia.store.of(PLUGIN)


def _injected(chat: str) -> set[str]:
    return set(_store().get(INJECTED, scope=chat) or ())


def _kept(chat: str, now: float) -> Iterator[_Kept]:
    """Yield what has not expired, each hash once, the newest of it; items of another shape are passed over."""
    for name in (COMMITMENTS, HINTS):
        seen: set[str] = set()
        for item in reversed(_store().items(name, scope=chat)):
            if isinstance(item, dict) and item.get("hash") not in seen and item.get("expires_at", 0) > now:
                seen.add(item["hash"])
                yield _read(item, commitment=name == COMMITMENTS)


def _read(item: dict[str, Any], *, commitment: bool) -> _Kept:
    vector = unpacked(item["vector"]) if item.get("vector") else None
    keys = frozenset(item.get("keys") or ())
    return _Kept(
        str(item.get("text", "")), item["hash"], item["expires_at"], vector, item.get("model", ""), keys, commitment
    )


def _nearest(kept: Sequence[_Kept], vector: Embedded | None, model: str, calibration: Calibration) -> list[Hint]:
    if vector is None:
        return []
    comparable = [one for one in kept if one.model == model and one.vector is not None]
    scored = [_hint(one, "similar", calibration.closeness(_cosine(one.vector, vector))) for one in comparable]
    near = sorted((hint for hint in scored if hint.score >= FLOOR), key=lambda hint: -hint.score)
    return near[:SIMILAR]


def _cosine(left: Any, right: Embedded) -> float:
    if left.shape != right.shape:
        return -1.0
    return float(left @ right / max(1e-12, float(np.linalg.norm(left) * np.linalg.norm(right))))


def _hint(kept: _Kept, found: Literal["exact", "similar"], score: float) -> Hint:
    return Hint(kept.text, kept.hash, kept.expires_at, kept.commitment, found, round(score, 4))


def _text_hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(' '.join(texts.words(text)).encode('utf-8', 'replace')).hexdigest()}"
