"""Polish (spec §12.6): from what the bot wants to say to the words it says, in its persona's manner.

The words are the last thing that can fail: where no model finds them, the key points themselves are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lumia

from . import prompt, remembering
from .asking import Asking
from .lines import Line
from .message import Message, clean, cut
from .outputs import ReplyBias

SEEN = 4
"""Lines polish looks at: enough for the tone and the language."""


def words(
    message: Message, bias: ReplyBias, lines: Sequence[Line], persona: str, bot_name: str, role: str, asking: Asking,
    config: Any,
) -> str:  # fmt: skip
    """Return the reply; "" when there is nothing to say. lines: the newest of the chat, the message among them."""
    draft = " ".join(point.strip() for point in bias.key_points if point.strip()) or bias.intent.strip()
    known, notes = remembering.knowledge(message, f"{message.text} {draft}"[:2000], config)
    told = prompt.told([known, prompt.bias(bias.model_dump())])
    said = prompt.messages(lines[-SEEN:], bot_name, private=message.private)
    system = prompt.polish(persona, bot_name, private=message.private)
    try:
        text = asking.chat(role, [*told, *said], system=system, key="polish").text
    except lumia.errors.ModelError as error:
        notes["degraded"] = f"nobody polished: {error}"[:300]
        text = ""
    asking.note(**notes)
    return cut(prompt.presentable(clean(text), bot_name) or clean(draft).strip(), config.max_reply_chars)
