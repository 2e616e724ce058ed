"""The bot that a lab run is compared with: it asks the main model about every message, with the full context.

Its request is that of layer 3 (`prompt`, `outputs.Thought`): persona and rules, the chat's last lines word for word,
the form of the answer. It pays for the words of a reply where the chain replied, and for saying nothing elsewhere.
Memory, hints, summaries and polishing are left out, which flatters it. A plain bot, which asks for text and has no form
of an answer to send along, is counted beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lumia.models.tokens import estimate, of_schema

from . import prompt
from .lab_steps import Heard
from .lab_world import ACCOUNT, World
from .lines import Line
from .outputs import Thought

SILENCE_TOKENS = 5
"""What it takes to say that nothing is to be said."""


@dataclass(frozen=True)
class Baseline:
    """Tokens of the bots that ask about every message. plain: without the form of a typed answer."""

    thinking: int = 0
    plain: int = 0

    def __add__(self, other: Baseline) -> Baseline:
        """Return the sum of both."""
        return Baseline(self.thinking + other.thinking, self.plain + other.plain)


def tokens(found: Sequence[Heard], world: World) -> Baseline:
    """Return what such bots would have used for these messages of one group, in their order."""
    forms = [form(world.persona, world.bot_name, private=False) for form in (prompt.think, prompt.system)]
    thinking, plain = estimate(forms[0]) + of_schema(Thought), estimate(forms[1])
    lines: list[Line] = []
    used = Baseline()
    for at, one in enumerate(found, 1):
        entry = one.entry
        who = (entry.sender_id, entry.sender_name)
        lines.append(Line("user", *who, entry.text, entry.time, at, entry.message_id, entry.reply_to))
        own = _shown(lines[-world.lines :], world) + (sum(map(estimate, one.replies)) or SILENCE_TOKENS)
        used += Baseline(own + thinking, own + plain)
        lines += [
            Line("bot", ACCOUNT, world.bot_name, reply, entry.time, at, reply_to=entry.message_id)
            for reply in one.replies
        ]
    return used


def _shown(lines: Sequence[Any], world: World) -> int:
    asked = prompt.messages(lines, world.bot_name, private=False)
    texts = (f"{one['name']}: {one['content']}" if one.get("name") else one["content"] for one in asked)
    return sum(map(estimate, texts))
