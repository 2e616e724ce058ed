"""Seals of deployment records: only who has the bot's secret can say what the bot's machines install (DESIGN §9).

Every machine clones and executes what a record names, so a record is signed as dill is (`lumia.boxwire`): HMAC-SHA256
(RFC 2104) over its JSON with the bot's secret. An older record is told by its serial (`Root.verified`).
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import TYPE_CHECKING

from lumia.errors import DeploymentRecordError, PkgError
from lumia.pkg import lockfile

if TYPE_CHECKING:
    from lumia.deployment import Wanted

_WAY_OUT = "have the same version of Lumia on all machines, or `pkg sync` with a lock you trust replaces the record"
_DOMAIN = b"lumia deployment 1\0"


def sealed(wanted: Wanted, secret: bytes) -> Wanted:
    """Return it with its seal."""
    return replace(wanted, seal=_seal(wanted, secret))


def verified(wanted: Wanted, secret: bytes) -> Wanted:
    """Return what bears the seal of this bot and holds a lock that could be written.

    Raises `DeploymentRecordError` for anything else, as what another version of Lumia has sealed.
    """
    if not hmac.compare_digest(wanted.seal.encode("utf-8", "replace"), _seal(wanted, secret).encode()):
        raise DeploymentRecordError(
            "the deployment record in Redis is not signed with this bot's secret, so nothing of it is installed or "
            "loaded: it was changed, or written with another data/secret.key. Every machine needs the same key, and "
            "only the bot may write to its Redis; `pkg sync` with a lock you trust replaces the record"
        )
    try:
        lockfile.of_fields(wanted.plugins or {}, "the lock of the deployment record", _WAY_OUT)
    except PkgError as error:
        raise DeploymentRecordError(str(error)) from error
    return wanted


def _seal(wanted: Wanted, secret: bytes) -> str:
    return hmac.digest(secret, _DOMAIN + replace(wanted, seal="").dump().encode(), "sha256").hex()
