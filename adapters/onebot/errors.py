"""What a call of an action may end with, besides the errors every adapter knows (docs/adapters.md)."""

from __future__ import annotations

import lumia


class UnknownOutcomeError(lumia.errors.LumiaError):
    """The request went out and nobody knows what became of it; `on_unknown` of the account decides."""
