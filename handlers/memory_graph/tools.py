"""The tool a planner asks the memory with (spec §10.2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

import lumia

from . import service


@lumia.mcp.tool(
    "memory", "memory_query",
    description="Look up what was said in this chat before and what is known of people and topics",
)  # fmt: skip
def memory_query(
    query: Annotated[str, Field(min_length=1, description="what to look for, in words")],
    sender_id: Annotated[
        str | None, Field(description="id of the person who asks, whose own words come sooner")
    ] = None,
    top_k: Annotated[int, Field(ge=1, le=service.MOST)] = service.TOP_K,
    *,
    context: Mapping[str, Any],
) -> dict[str, Any]:
    """Answer from the chat of `context["chat"]`, which the caller gives; "" sees only what belongs to the whole bot."""
    given = {"query": query, "sender_id": sender_id, "top_k": top_k}
    return service.memory_query(given, chat=str(context.get("chat") or ""))
