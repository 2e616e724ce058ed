"""L3, the main model of spec §12.5: what the bot makes of a message, and whether it wants to say something.

The answer is a typed `Thought`. One that doesn't fit is given back to the model once to be mended (by the model layer);
then the model is asked for plain words, which become the key point of a reply without anything to remember. What
follows from the thought (memories, relations, hints, the shift of attention) commits with the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import lumia

from . import prompt, remembering, state
from .asking import Asking
from .lines import Line
from .message import Message, clean
from .outputs import MemoryUpdate, RelationUpdate, ReplyBias, Thought
from .package import lines_in, shown

SHIFT = "attention_shift"
"""Key in a Box's meta: `{vector: base64 float16, model}`, added to the attention vector where the chain ends."""
_PULL = 0.6
"""Length of the shift towards what the talk is about, where the model gives none of its own."""


@dataclass(frozen=True)
class Answered:
    """A thought, and how it was come by: `degraded` says why it is less than was asked for."""

    thought: Thought
    degraded: str = ""


def think(
    message: Message, package: Mapping[str, Any], knowledge: str, persona: str, bot_name: str, role: str, asking: Asking
) -> Answered:
    """Ask `role` about the last line of `package`; raises `lumia.errors.ModelError` when nobody answers.

    knowledge: passages of the knowledge base as a system message: what isn't thought of can't be said.
    """
    told, said = (
        [*_context(package), *prompt.told([knowledge])],
        prompt.messages(lines_in(package), bot_name, private=message.private),
    )
    try:
        system = prompt.think(persona, bot_name, private=message.private)
        reply = asking.chat(role, [*told, *said], system=system, key="thought", output_type=Thought)
        return Answered(reply.output)
    except lumia.errors.ModelOutputError as error:
        degraded = f"no usable thought, asked for plain words: {error}"[:300]
    plain = asking.chat(
        role, [*told, *said], system=prompt.system(persona, bot_name, private=message.private), key="plain"
    )
    text = prompt.presentable(clean(plain.text), bot_name)[:4000]
    return Answered(Thought(reply_bias=ReplyBias(key_points=[text]) if text else None), degraded)


def has_words(bias: ReplyBias | None) -> bool:
    """Tell whether there is anything to say."""
    return bias is not None and bool(bias.intent.strip() or any(point.strip() for point in bias.key_points))


def remember(message: Message, payload: Mapping[str, Any], thought: Thought, *, bias: bool) -> dict[str, int]:
    """Emit what is to be remembered (spec §12.5) and return how much of each kind; bias: what is said, too."""
    origin = _origin(message, payload)
    updates = [one for one in thought.memory_updates if one.topic.strip()]
    if bias and has_words(thought.reply_bias):
        updates.append(_said(thought))
    for one in updates:
        _emit("memory.update", _memory(one), origin)
    relations = [one for one in thought.relation_updates if one.from_.strip() and one.to.strip() and one.type.strip()]
    for relation in relations:
        _emit("relation.update", _relation(relation), origin)
    counted = {
        "memories": len(updates),
        "relations": len(relations),
        "new_hints": remembering.keep_hints(message, thought.hints),
    }
    return {name: number for name, number in counted.items() if number}


def shift(thought: Thought, message: Message) -> dict[str, str]:
    """Return the shift of attention as it travels in meta: the model's own, else towards what the talk is about.

    {} when the embedding model is away: attention then stays where it is.
    """
    model = state.embedding_model()
    text = f"{thought.focus} {message.text}".strip()[:2000]
    try:
        vector = lumia.models.embed([text], input_type="query", key="attention")[0]
    except lumia.errors.ModelError:
        return {}
    given = thought.attention_shift
    fits = len(given) == len(vector) and any(given)
    return {"vector": state.packed(given if fits else [_PULL * x for x in vector]), "model": model}


def _context(package: Mapping[str, Any]) -> list[dict[str, str]]:
    return prompt.told([
        prompt.earlier(str(package.get("context_summary") or "")),
        remembering.block(package.get("memory_rag") or ()),
        prompt.profile(package.get("sender_profile") or {}),
        prompt.hints(package.get("hint_injections") or ()),
        prompt.tool_results(package.get("tool_results") or ()),
    ])  # fmt: skip


def _origin(message: Message, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "platform": message.platform, "account": message.account, "chat": payload.get("chat"),
        "sender": payload.get("sender"), "run_id": lumia.context.origin()[0],
    }  # fmt: skip


def _said(thought: Thought) -> MemoryUpdate:
    bias = thought.reply_bias or ReplyBias()
    content = "; ".join(filter(None, (bias.intent, *bias.key_points)))[:4000]
    return MemoryUpdate(topic=thought.focus.strip() or "what I said", content=content, importance=0.3)


def _memory(one: MemoryUpdate) -> dict[str, Any]:
    return {
        "action": one.action,
        "topic": one.topic.strip()[:256],
        "content": one.content,
        "importance": one.importance,
    }


def _relation(one: RelationUpdate) -> dict[str, Any]:
    return {"from": one.from_[:256], "to": one.to[:256], "type": one.type[:64], "weight_delta": one.weight_delta}


def _emit(event: str, content: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    """Start an update; one that isn't valid as a payload is left out, since a model made it up."""
    try:
        whole = lumia.payloads.validate(event, {**content, "origin": origin})
    except lumia.errors.PayloadError:
        return
    lumia.event.start(event, lumia.Box.any(whole))


def asked(package: Mapping[str, Any]) -> str:
    """Return what the last speaker of a package has said in its last lines: all of a burst."""
    said = lines_in(package)
    last = said[-1].id if said else ""
    burst = takewhile(lambda line: line.by == "user" and line.id == last, reversed(said))
    return "\n".join(reversed([line.text for line in burst]))


def last_of(package: Mapping[str, Any]) -> int:
    """Return the number of the last line of a package."""
    return max((line.n for line in lines_in(package)), default=0)


def newest(added: Sequence[tuple[Line, Message]], package: Mapping[str, Any]) -> dict[str, Any]:
    """Return the package with lines that came in since, the newest last; a mention among them counts for all."""
    lines = [*(package.get("recent_messages") or ()), *(shown(line) for line, _ in added)]
    force = bool(package.get("force_engage")) or any(one.addressed for _, one in added)
    return {**package, "recent_messages": lines, "force_engage": force}
