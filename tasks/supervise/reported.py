"""Plugin failures that the running worker reports: only it starts plugins, so only it knows that an `on_load` failed.

`lumia:failures` in Redis is a JSON list of sentences, written by the worker; no such key means that all plugins work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress

from lumia.errors import BackendUnavailableError
from lumia.quarantine import STAGE as QUARANTINE
from tasks.keys import FAILURES, PREFIX
from tasks.supervise.resp import connect


def reported(url: str) -> list[str]:
    """Return the failures the worker has reported; none when the server doesn't answer, which others report."""
    if not url:
        return []
    with suppress(BackendUnavailableError, ValueError), connect(url) as redis:
        text = redis.ask("GET", PREFIX + FAILURES)
        found = json.loads(text) if isinstance(text, bytes) else []
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
    return []


def as_lines(failures: Iterable[str]) -> list[str]:
    """Return failures as lines for a terminal, `! plugin …`."""
    return [" ".join(f"! {'' if one.startswith('plugin ') else 'plugin '}{one}".split()) for one in failures]


def is_quarantined(failure: str) -> bool:
    """Tell whether a failure is that the plugin was left out for ending processes; their marks tell more of it."""
    return f" ({QUARANTINE}, " in failure
