"""The bot's secret, and keeping secrets out of traces, logs and the journal (DESIGN §9)."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from lumia.atomic import locked, replace
from lumia.errors import SecretError

HIDDEN = "***"
SECRET_FILE = Path("data") / "secret.key"
_SIZE = 32
_SHORTEST_KNOWN = 4  # replacing shorter values would shred ordinary text
_DEEPEST = 100
_log = logging.getLogger("lumia.secrets")

_ALWAYS = ("password", "passwd", "passphrase", "pwd", "secret", "authorization", "cookie", "credential", "apikey")
_TEXT_ONLY = "token"  # `tokens: 512` is usage, `token: "abc"` a secret
_KEYS_OF = {"api", "access", "private", "secret", "signing", "encryption", "auth"}  # …_key
_ABOUT = {"env", "file", "path", "name", "url", "count", "limit"}  # `api_key_env` names a secret, it holds none
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IN_URL = re.compile(r"(?P<head>\b[A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s/:@]{0,256}):[^\s/@]{1,512}@")
_IN_TEXT = re.compile(
    r"(?P<head>\bbearer\s+)(?=[^\s\d]*\d)[\w.~+/=-]{16,}"
    r"|\b(?:sk|xox[a-z]|ghp|gho|github_pat)[-_][\w-]{16,}|(?:\b|(?<=/bot))\d{8,10}:[\w-]{35}(?![\w-])",
    re.IGNORECASE,
)
_IN_LINK = re.compile(
    r"(?P<head>(?:[?&;]|\\u0026)(?:rkey|sig|sign|signature|hm|hmac|hdnea|auth|auth_?key|jwt|pub_secret|q-signature"
    r"|[\w-]{0,32}token|[\w-]{0,32}access-?_?key(?:-?_?id)?|api_?key|x-[a-z]{2,4}-(?:signature|credential))=)"
    r"[^\s&\"'<>\\#\[\](){},;]{6,}"
    r"|(?P<path>/ftn_handler/|\bslack-files\.com/T\w{1,32}-F\w{1,32}-)[0-9a-zA-Z]{8,}",
    re.IGNORECASE,
)
"""What makes a link to a file one that anybody may follow: the signature in its query (`rkey` of QQ, `hm` of Discord,
those of S3 and its like), or the part of its path that nobody can guess."""


def load_secret(root: Path | str) -> bytes:
    """Return the bot's 32 secret bytes: `LUMIA_SECRET` (64 hex digits), else `root/data/secret.key`, made if absent.

    The file holds the bytes as hex and has mode 0600; processes that create it at the same time all get the same bytes.
    A file others may read is set to 0600 with a warning; one others may *write* is refused.

    Raises `SecretError` when the variable or the file holds something else, can't be trusted, read or made.
    """
    given = os.environ.get("LUMIA_SECRET")
    if given is not None:
        return _decoded(given, "the environment variable LUMIA_SECRET", "set it to 64 hex digits")
    path = Path(root) / SECRET_FILE
    try:
        if not path.exists():
            _create(path)
        _guard(path)
        text = path.read_bytes().decode("ascii", "replace")
    except OSError as error:
        raise SecretError(
            f"{path}: the bot's secret can't be read or made ({error.strerror}); give this user the rights on it, "
            "or set LUMIA_SECRET"
        ) from error
    return _decoded(text, str(path), "restore it from a backup, or delete it so that the next start makes a new one")


def _create(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with locked(path.parent):
        if not path.exists():
            replace(path, os.urandom(_SIZE).hex().encode() + b"\n", mode=0o600)


def _guard(path: Path) -> None:
    mode = path.stat().st_mode & 0o777
    if mode & 0o022:
        raise SecretError(
            f"{path} has mode {mode:04o}: other users can write it, so it may not be this bot's secret; "
            f"if you trust it run `chmod 600 {path}`, else delete it and a new one is made"
        )
    if mode & 0o077:
        path.chmod(0o600)
        _log.warning("%s had mode %04o and other users could read it; it is 0600 now", path, mode)


def _decoded(text: str, where: str, way_out: str) -> bytes:
    digits = text.strip()
    if len(digits) == 2 * _SIZE and re.fullmatch("[0-9a-fA-F]+", digits):
        return bytes.fromhex(digits)
    raise SecretError(f"{where} does not hold {2 * _SIZE} hex digits; {way_out}")


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Tell whether a key's name says that its value is a secret, as `api_key`, `botToken` and `Set-Cookie` do.

    `api_key_env`, `token_count` and `cookie_file` are about a secret and hold none.
    """
    return bool(_secrecy(key))


def redact(value: object, known_secrets: Iterable[str] = ()) -> object:
    """Return a copy of nested JSON data with secrets replaced by `***`.

    Hidden are values under a key whose name speaks of a secret (`is_secret_key`; numbers under `token` are usage and
    stay), every occurrence of one of `known_secrets` (also percent-encoded; those under 4 characters are left alone),
    passwords and signatures in URLs, and text that has the shape of a bearer or API token. Anything nested deeper than
    100 levels is hidden as a whole. Objects that are not JSON are returned as they are.
    """
    return _redacted(value, _pattern(known_secrets), "", _DEEPEST)


def unsigned(text: str) -> str:
    """Return a text in which no link can be followed any more by who isn't known there: signatures become `***`."""
    if "://" not in text:
        return text
    return _IN_LINK.sub(lambda found: f"{found['head'] or found['path']}{HIDDEN}", text)


def _pattern(known: Iterable[str]) -> re.Pattern[str] | None:
    forms = {form for secret in known if len(secret) >= _SHORTEST_KNOWN for form in (secret, _percent(secret))}
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None


def _percent(secret: str) -> str:
    return quote(secret, safe="", errors="replace")


def _redacted(value: object, known: re.Pattern[str] | None, secrecy: str, depth: int) -> object:
    if isinstance(value, str | bytes) and secrecy:
        return HIDDEN if value else value
    if isinstance(value, str):
        return _clean(value, known)
    if value is None or isinstance(value, bool):
        return value
    if depth == 0 or (secrecy == "always" and not isinstance(value, Mapping | list | tuple)):
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            _redacted(key, known, "", depth - 1): _redacted(item, known, secrecy or _secrecy(key), depth - 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(item, known, secrecy, depth - 1) for item in value]
    return value


@lru_cache(maxsize=4096)
def _secrecy(key: object) -> str:
    """Return "always", "text" (only text under this key is a secret) or "" for a key's name."""
    words = [word.lower() for word in _WORD.findall(key)] if isinstance(key, str) else []
    if not words or words[-1] in _ABOUT:
        return ""
    names = [word.removesuffix("s") for word in words]
    if any(name.endswith(_ALWAYS) for name in names) or any(
        kind in _KEYS_OF and noun == "key" for kind, noun in zip(words, names[1:], strict=False)
    ):
        return "always"
    return "text" if any(name.endswith(_TEXT_ONLY) for name in names) else ""


def _clean(text: str, known: re.Pattern[str] | None) -> str:
    if known is not None:
        text = known.sub(HIDDEN, text)
    if "://" in text:
        text = unsigned(_IN_URL.sub(rf"\g<head>:{HIDDEN}@", text))
    return _IN_TEXT.sub(lambda found: (found["head"] or "") + HIDDEN, text)
