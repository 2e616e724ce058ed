"""Queues as Redis lists, one per priority. It imports no Celery: gateways and commands ask about queues, too."""

from __future__ import annotations

from collections.abc import Iterable

from lumia.marks import PRIORITIES, PRIVATE_PREFIX

SEPARATOR = ":"
AGED = -1
"""The priority of messages that have waited too long behind more urgent ones: their list is served first."""
STEPS = (AGED, *PRIORITIES)


def lists(names: Iterable[str]) -> list[str]:
    """Return the Redis lists of these queues, one per priority."""
    return [name if level == 0 else f"{name}{SEPARATOR}{level}" for name in names for level in STEPS]


def shared(names: Iterable[str]) -> list[str]:
    """Return the queues any worker may serve."""
    return [name for name in names if not name.startswith(PRIVATE_PREFIX)]
