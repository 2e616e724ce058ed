"""Whose signature a plugin must carry: trust on first use, pinned keys, and what is refused (spec §14.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia.pkg.model import Locked
from lumia.pkg.revocation import Revoked


@dataclass(frozen=True)
class Verdict:
    """What came of looking at a package's signatures. key: fingerprint of the key that signed; text: for the reader."""

    outcome: Literal["signed", "unsigned", "refused"]
    key: str | None
    text: str


class TrustStore:
    """The keys a bot root trusts, in data/pkg/trust.json."""

    def __init__(self, root: Path) -> None:
        raise NotImplementedError


def verify(
    name: str, tag: str, digest: str, signatures: Sequence[str], *, store: TrustStore, revoked: Revoked
) -> Verdict:
    """Judge the signatures (`ed25519:<fingerprint>:<key>:<signature>`) of one version; changes nothing on disk."""
    raise NotImplementedError


def remember(root: Path, locked: Locked) -> None:
    """Trust the key that signed `locked` for its plugin from now on: called when the version was installed."""
    raise NotImplementedError
