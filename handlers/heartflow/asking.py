"""The model calls of one step: which model a role has in this chat, what they cost, and what the trace says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import lumia

from . import budget
from .message import Message

MODELS = "models"
"""Store key, scoped to the chat: role to model, as chosen in the chat (`/model`)."""
SETTINGS = {"main": "main_model", "planner": "planner_model", "polish": "polish_model"}
"""Role to the key of `config/heartflow.toml` that names its model."""


def chosen(scope: str, role: str, config: Any) -> str:
    """Return the model that takes the place of the role's own: chosen in the chat, else by the plugin's settings."""
    picked = lumia.store.get(MODELS, scope=scope) or {}
    setting = SETTINGS.get(role)
    return str(picked.get(role) or (getattr(config, setting) if setting else ""))


class Asking:
    """What one layer asks of models about one message or chat; charged to the chat, summed up for the trace."""

    def __init__(self, layer: str, chat: Message | str, config: Any) -> None:
        """Begin to ask; chat: the message that is about to be answered, or the scope of its chat."""
        self._layer, self._config = layer, config
        self._scope = chat if isinstance(chat, str) else chat.scope
        self._tokens_in = self._tokens_out = 0
        self._cost: float | None = 0.0
        self._calls: Counter[str] = Counter()
        self._model = self._role = ""
        self.seen = 0
        """Number of the last line that is shown: with another one the same question is another question."""

    def chat(
        self, role: str, messages: Sequence[Mapping[str, Any]], *, system: str, key: str, output_type: Any = str
    ) -> lumia.models.Reply:
        """Return what the role answers; raises `lumia.errors.ModelError` as `lumia.models.chat` does.

        key: tells this call from the step's others in the effect ledger. Answers that nobody can use are charged, too.
        """
        override = chosen(self._scope, role, self._config)
        self._calls[role] += 1
        try:
            reply = lumia.models.chat(
                role,
                messages,
                system=system,
                key=f"{key} @{self.seen}",
                output_type=output_type,
                plugin_override=override,
            )
        except lumia.errors.ModelOutputError as error:
            if error.usage is not None:
                self.charge(role, error, self._model)
            raise
        self.charge(role, reply, reply.model)
        return reply

    def charge(self, role: str, paid: budget.Paid, model: str) -> None:
        """Add what a call has used."""
        self._role, self._model, used = role, model, paid.usage or lumia.models.Usage()
        self._tokens_in += used.input_tokens
        self._tokens_out += used.output_tokens
        self._cost = None if paid.cost is None or self._cost is None else self._cost + paid.cost
        budget.charge(self._scope, "thinker" if role == "thinker" else self._layer, paid)

    def note(self, **more: Any) -> None:
        """Write into the trace what was asked and what `more` tells."""
        asked: dict[str, Any] = {}
        if self._role:
            asked = {
                "role": self._role, "model": self._model, "calls": dict(self._calls), "tokens_in": self._tokens_in,
                "tokens_out": self._tokens_out, "cost": self._cost,
            }  # fmt: skip
        lumia.annotate(layer=self._layer, **asked, **more)
