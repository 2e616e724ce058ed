"""What heartflow asks of its models, as types (spec §12.3–12.5): answers are validated against them, never trusted.

Fields that a model leaves out have the plainest value; what it invents beside them is ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Short = Annotated[str, StringConstraints(max_length=500)]
Text = Annotated[str, StringConstraints(max_length=4000)]


class _Output(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


def _bare(schema: dict[str, Any]) -> None:
    """Take titles and description out of a schema: the prompt says what is wanted, and each word is paid for."""
    schema.pop("description", None)
    for part in (schema, *schema.get("properties", {}).values()):
        part.pop("title", None)


def _plain(schema: dict[str, Any]) -> None:
    """Leave only names and types of a schema whose limits the prompt tells; the answer is checked against them all."""
    _bare(schema)
    for part in schema.get("properties", {}).values():
        for limit in set(part) - {"type"}:
            del part[limit]


class _Terse(_Output):
    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True, json_schema_extra=_bare)


class Relevance(_Output):
    """L1: how much the newest message wants the bot to speak, 0 to 1, and why in a few words."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True, json_schema_extra=_plain)

    relevance_score: Share
    reason: Short = ""


class NewHint(_Terse):
    """Something worth bearing in mind for a while; a commitment when it says who, what and when."""

    hint: Short
    ttl_hours: float = Field(48.0, gt=0.0, le=1440.0)
    who: Short = ""
    what: Short = ""
    when: Short = ""
    hash: Short = ""


class Route(_Terse):
    """L2: what is needed before the bot can answer: a tool's result, deeper reasoning, or nothing."""

    route: Literal["ready", "external", "reason"]
    server: Short = ""
    tool: Short = ""
    input: dict[str, Any] = {}
    question: Text = ""
    hints: list[NewHint] = Field([], max_length=5)


class ReplyBias(_Output):
    """What the bot wants to say and in which mood; polish finds the words."""

    intent: Text = ""
    emotion: Short = ""
    key_points: list[Text] = Field([], max_length=20)
    persona_hint: Text = ""


class MemoryUpdate(_Output):
    """One thing to remember or to forget."""

    action: Literal["upsert", "forget"] = "upsert"
    topic: Short
    content: Text = ""
    importance: Share = 0.5


class RelationUpdate(_Output):
    """How one person has come to stand to another; `self` is the bot."""

    from_: Short = Field(alias="from")
    to: Short
    type: Short
    weight_delta: float = Field(0.0, ge=-1.0, le=1.0, allow_inf_nan=False)


class Thought(_Output):
    """L3: what the bot makes of the message. reply_bias: None when silence is better.

    attention_shift: added to the attention vector, in the dimensions of the embedding model; focus: the same in words,
    for models that know no vectors.
    """

    reply_bias: ReplyBias | None = None
    memory_updates: list[MemoryUpdate] = Field([], max_length=10)
    relation_updates: list[RelationUpdate] = Field([], max_length=10)
    attention_shift: list[float] = Field([], max_length=4096)
    focus: Short = ""
    hints: list[NewHint] = Field([], max_length=5)


class Digest(_Terse):
    """Compression: older lines in fewer words."""

    summary: Text
