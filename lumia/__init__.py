"""Lumia: LLM chat bots as serverless event functions on a durable task queue.

Everything a plugin author needs is named here. Importing it is cheap: what needs pydantic models, dill or an LLM
client is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lumia import config, context, lanes, runs, system, utils, web
from lumia.box import Box
from lumia.bus import cron, event, pipe
from lumia.context import annotate
from lumia.effects import effect
from lumia.errors import LumiaError
from lumia.lanes import Rate, limit
from lumia.marks import Retry, command
from lumia.recording import recorded
from lumia.store import Store

if TYPE_CHECKING:
    from lumia import (
        adapters,
        blobs,
        checks,
        errors,
        gateway,
        mcp,
        media,
        models,
        outside,
        payloads,
        runtime,
        services,
        testing,
    )

__version__ = "0.2.0"

store = Store()
"""The store of the plugin whose handler is running."""

__all__ = [
    "Box",
    "LumiaError",
    "Rate",
    "Retry",
    "__version__",
    "adapters",
    "annotate",
    "blobs",
    "checks",
    "command",
    "config",
    "context",
    "cron",
    "effect",
    "errors",
    "event",
    "gateway",
    "lanes",
    "limit",
    "mcp",
    "media",
    "models",
    "outside",
    "payloads",
    "pipe",
    "recorded",
    "runs",
    "runtime",
    "services",
    "store",
    "system",
    "testing",
    "utils",
    "web",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"lumia.{name}")
    raise AttributeError(f"module 'lumia' has no attribute {name!r}; its public names are {', '.join(__all__)}")
