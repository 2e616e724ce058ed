"""What Redis answers, or doesn't, when it can't be used, in our words and with the way out."""

from __future__ import annotations

import re

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from lumia.errors import BackendForbiddenError, BackendSilentError, BackendUnavailableError

AWAY = (RedisConnectionError, RedisTimeoutError, OSError)
"""Errors of a client whose server can't be reached."""
FAILURES = (*AWAY, ResponseError)
REFUSALS = {
    "OOM": "raise its maxmemory, or lower [journal] hard_bytes",
    "NOREPLICAS": "bring its replicas back, or lower min-replicas-to-write",
    "MISCONF": "free disk space on its machine",
    "READONLY": "point LUMIA_REDIS_URL at the primary",
    "MASTERDOWN": "point LUMIA_REDIS_URL at the primary, or bring that back",
    "LOADING": "it reads its data; try again soon",
    "BUSY": "a script takes long; try again soon",
}
"""What a server answers that can't write now, and the way out."""
_CODES: dict[type[Exception], str] = {
    OutOfMemoryError: "OOM", ReadOnlyError: "READONLY", MasterDownError: "MASTERDOWN"
}  # fmt: skip
"""Errors that redis-py knows by class: the code is no longer in their text."""
_LOGIN = (AuthenticationError, AuthorizationError)
_COMMAND = re.compile(r"'([a-z0-9_|. -]+)' command")
_PLACE = re.compile(r" script: [0-9a-f]{40}.*")
"""Ends what a script was refused with."""
_IN_SCRIPT = "ACL failure in script"
_UNKNOWN = "so nobody knows whether this was accepted; with the same dedup text it may be sent again"


def unavailable(error: Exception, consequence: str = "") -> BackendUnavailableError | None:
    """Return how an error of the client or the server is told where it means that Redis can't be used now.

    consequence: what follows from it, as a clause.
    """
    if isinstance(error, (NoPermissionError, *_LOGIN)) or _IN_SCRIPT in str(error):
        return _forbidden(error)
    if isinstance(error, AWAY):
        silent = isinstance(error, RedisTimeoutError) and "connecting" not in str(error)
        kind = BackendSilentError if silent else BackendUnavailableError
        return kind(f"Redis does not answer{' in time' if silent else ''} ({error}){consequence and ', '}{consequence}")
    said = f"{_CODES.get(type(error), '')} {error}"
    way_out = next((text for word, text in REFUSALS.items() if word in said), "")
    return BackendUnavailableError(f"Redis refuses to write: {error}; {way_out}") if way_out else None


def unaccepted(error: Exception) -> BackendUnavailableError | None:
    """Return the same of a call that writes."""
    return unavailable(error, _UNKNOWN)


def _forbidden(error: Exception) -> BackendForbiddenError:
    if isinstance(error, _LOGIN):
        return BackendForbiddenError(
            f"Redis refuses the login: {error}; correct user and password in LUMIA_REDIS_URL, or the user in Redis"
        )
    said = _PLACE.sub("", str(error))
    return BackendForbiddenError(
        f"Redis forbids this user what Lumia needs: {said}; add the rule {_rule(said)} to its ACL (`ACL SETUSER`), "
        "docs/redis.md has all of them"
    )


def _rule(said: str) -> str:
    if named := _COMMAND.search(said):
        return f"+{named[1]}"
    if "channel" in said:
        return "&*"
    return "~lumia:* ~_kombu* ~*celery* ~unacked* and a pattern for each queue (such as ~default*)"
