"""What tests of the chain say: messages, and the plugins that answer them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.testing import Bot

_HANDLERS = Path(__file__).parents[3] / "handlers"
PLUGINS, COMMANDS = (_HANDLERS / "persona_loader", _HANDLERS / "heartflow"), _HANDLERS / "chat_commands"
GROUP, PRIVATE = {"kind": "group", "id": "g-1"}, {"kind": "private", "id": "7"}


def msg(text: str = "hi", *, chat: Any = GROUP, sender: str = "7", name: str = "Ann", **fields: Any) -> dict[str, Any]:
    """Return a `msg` payload as an adapter would start it."""
    who = {"id": sender, "name": name}
    base = {"platform": "console", "account": "me", "chat": chat, "sender": who, "message_id": "m1", "text": text}
    return {**base, **fields}


@contextmanager
def reading(bot: Bot, of: str) -> Iterator[list[str]]:
    """Give the names, with `of` in them, that are read from the bot's store from here on."""
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        read = bot.transport.read

        def noted(name: str, *last: Any) -> Any:
            if of in name:
                found.append(name)
            return read(name, *last)

        patch.setattr(bot.transport, "read", noted)
        yield found


def lane(payload: dict[str, Any]) -> str:
    """Return the lane in which an adapter starts a message."""
    chat = payload["chat"]
    return str(lumia.payloads.lane(payload["platform"], payload["account"], chat["kind"], chat["id"]))


class Model:
    """Stands for the offline model: keeps what each role was shown, and answers or raises what it is told to."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answer: Any = "fine"
        self.roles: dict[str, Any] = {}

    def __call__(self, request: Any, **options: Any) -> str:
        self.requests.append(request)
        answer = self.roles.get(request.role, self.answer)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        if request.output_type is str or not isinstance(answer, str):
            return answer if isinstance(answer, str) else json.dumps(answer)
        return json.dumps(self._typed(request.role, answer))

    def _typed(self, role: str, answer: str) -> dict[str, Any]:
        """Return the plainest structured answer of a role; the main model means what it is told to say."""
        plain: dict[str, dict[str, Any]] = {
            "small": {"relevance_score": 0.9, "reason": "asked"}, "planner": {"route": "ready"},
            "main": {"reply_bias": {"intent": "", "key_points": [answer]}, "focus": "this"},
        }  # fmt: skip
        return plain[role]

    def of(self, role: str) -> list[Any]:
        """Return the requests to one role."""
        return [request for request in self.requests if request.role == role]

    @property
    def seen(self) -> list[tuple[str | None, str]]:
        """Author and text of each line that the main model saw last."""
        shown = [line for line in self.of("main")[-1].messages if line.role != "system"]
        return [(line.name or line.role, line.content) for line in shown]
