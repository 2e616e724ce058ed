"""Model roles: what `small`, `planner`, `thinker`, `main`, `polish` and `embedding` answer with (docs/models.md).

Importing this package loads no provider library; the first call of a role that isn't offline does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lumia.errors import NotRunningError
from lumia.models.calibration import Calibration, Scale
from lumia.models.reply import Reply, Usage
from lumia.models.roles import ROLES, RoleInfo
from lumia.models.service import InputType, Models

__all__ = [
    "ROLES",
    "Calibration",
    "InputType",
    "Models",
    "Reply",
    "RoleInfo",
    "Scale",
    "Usage",
    "achat",
    "aembed",
    "chat",
    "describe",
    "embed",
    "openness",
    "scale",
]


def chat(
    role: str,
    messages: Iterable[Mapping[str, Any]],
    *,
    system: str | None = None,
    output_type: Any = str,
    key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    plugin_override: str | None = None,
) -> Reply:
    """Ask the active bot's model of `role`; see `Models.chat`."""
    return _active().chat(
        role,
        messages,
        system=system,
        output_type=output_type,
        key=key,
        settings=settings,
        plugin_override=plugin_override,
    )


async def achat(
    role: str,
    messages: Iterable[Mapping[str, Any]],
    *,
    system: str | None = None,
    output_type: Any = str,
    key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    plugin_override: str | None = None,
) -> Reply:
    """Ask the active bot's model of `role` without blocking the running loop; see `Models.chat`."""
    return await _active().achat(
        role,
        messages,
        system=system,
        output_type=output_type,
        key=key,
        settings=settings,
        plugin_override=plugin_override,
    )


def embed(
    texts: Sequence[str],
    role: str = "embedding",
    *,
    input_type: InputType = "document",
    key: str | None = None,
    model: str = "",
) -> list[list[float]]:
    """Return one vector per text from the active bot's embedding model; see `Models.embed`."""
    return _active().embed(texts, role, input_type=input_type, key=key, model=model)


async def aembed(
    texts: Sequence[str],
    role: str = "embedding",
    *,
    input_type: InputType = "document",
    key: str | None = None,
    model: str = "",
) -> list[list[float]]:
    """Return what `embed` returns, without blocking the running loop."""
    return await _active().aembed(texts, role, input_type=input_type, key=key, model=model)


def scale(input_type: InputType = "document") -> Scale:
    """Return how similar unrelated texts are to the active bot's embedding model; see `Models.scale`."""
    return _active().scale(input_type)


def openness(vector: Sequence[float], input_type: InputType = "query") -> float | None:
    """Return whether anyone could answer a text, or only those present, by its vector; see `Models.openness`."""
    return _active().openness(vector, input_type)


def describe(overrides: Mapping[str, str] | None = None) -> list[RoleInfo]:
    """Return what serves each role of the active bot; see `Models.describe`."""
    return _active().describe(overrides)


def _active() -> Models:
    from lumia import runtime

    models = runtime.current().models
    if models is None:
        raise NotRunningError("the active bot was opened without its models; open it with lumia.runtime.open_bot()")
    return models
