"""The values the parts of the memory exchange. Times are seconds since 1970; vectors are float32 arrays, flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lumia.models import Calibration as Calibration  # noqa: PLC0414  (one of the values exchanged here)

Embedded: TypeAlias = NDArray[np.float32]
"""One vector: shape (dimension,)."""

Kind = Literal["message", "reply", "fact"]
COMENTION, SEMANTIC, RELATION = "comention", "semantic", "relation"
"""Types of edges between topics; the first two have no direction and are stored with from_topic < to_topic."""

SELF = "self"
"""The bot itself among the people of a scope."""


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """Where something was said, and so who may be told: rows of one scope are never shown in another.

    bot: the bot's name. chat: `platform:account:kind:id` as heartflow writes it; "" is the whole bot.
    """

    bot: str
    chat: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """The write of a step, made once: (run_id, step, ordinal) is unique, and a retry of the step has the same.

    message_ids: the messages it comes from. learned_in: the run whose prompt led to it, "" when it is run_id.
    """

    run_id: str
    step: int = 0
    ordinal: int = 0
    message_ids: tuple[str, ...] = ()
    learned_in: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """Return what must be unique."""
        return self.run_id, self.step, self.ordinal


@dataclass(frozen=True, slots=True)
class Observed:
    """What somebody said. message_id: the platform's, None when there is none. time: when it was said, None for now."""

    text: str
    kind: Kind = "message"
    sender: str = ""
    sender_name: str = ""
    message_id: str | None = None
    time: float | None = None
    importance: float = 0.5
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something to remember about a topic (event `memory.update`). sender: whom it is about or who said it."""

    topic: str
    text: str
    importance: float = 0.5
    sender: str = ""
    sender_name: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """One record of the memory as it is read."""

    id: str
    scope: Scope
    kind: str
    content: str
    seq: int
    topic_id: str | None
    sender: str
    sender_name: str
    importance: float
    created_at: float
    last_accessed: float
    access_count: int
    pinned: bool
    run_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """One concept as it is read. strength: decayed to the moment of the reading."""

    id: str
    scope: Scope
    name: str
    strength: float
    half_life_days: float
    access_count: int
    mentions: int
    created_at: float
    last_accessed: float
    pinned: bool


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was recalled. part: seed, lexical, spread, sequence, speaker, …; detail: words, a source."""

    part: str
    score: float
    detail: str = ""

    def __str__(self) -> str:
        """Return it as a reader sees it: `lexical`, `spread from Lake Garda`."""
        return f"{self.part} {self.detail}" if self.part == "spread" and self.detail else self.part


@dataclass(frozen=True, slots=True)
class ScoredTopic:
    """A recalled topic; a higher score is better."""

    topic: Topic
    score: float
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredInstance:
    """A recalled instance; a higher score is better."""

    instance: Instance
    score: float
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a query brought back, best first."""

    topics: tuple[ScoredTopic, ...] = ()
    instances: tuple[ScoredInstance, ...] = ()


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. model: its id, stored with each vector; dimension: numbers per vector."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def calibration(self) -> Calibration: ...

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts to be found, shape (len(texts), dimension)."""

    def query(self, text: str) -> Embedded:
        """Return the vector of a text that looks for others."""
