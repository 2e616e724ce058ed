"""How well the memory finds what it was told: a file of conversations and questions in LoCoMo's format, measured
through the write and recall path of a bot (Maharana et al. 2024, "Evaluating very long-term conversational memory of
LLM agents").

A list of {conversation: {session_N: [{speaker, dia_id, text, blip_caption?}], session_N_date_time}, qa: [{question,
evidence: [dia_id], category}]}; every conversation is a scope of its own. Questions without evidence in the file and
those of category 5 (which have no answer) are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import lumia

from . import texts, writing
from .database import Database
from .ranking import Parts, part_names
from .recall import recall
from .topics import topics_of
from .types import Embedder, Observed, Origin, Scope

if TYPE_CHECKING:
    pass

DEPTHS = (1, 5, 10, 20)
ABLATION: dict[str, Parts] = {
    "dense": Parts.named("dense"),
    "lexical": Parts.named("lexical"),
    "fusion": Parts.named("dense", "lexical"),
    "+ shape": Parts.named("dense", "lexical", "shape"),
    "+ sequence": Parts.named("dense", "lexical", "shape", "sequence"),
    "+ speaker": Parts.named("dense", "lexical", "shape", "sequence", "speaker"),
    "+ spreading": Parts.named("dense", "lexical", "shape", "sequence", "speaker", "spreading"),
    "+ standing (all)": Parts(),
}
"""The rows of the table in docs/memory.md."""
_UNANSWERABLE = 5
_BATCH = 64
_SECONDS_PER_TURN, _PAUSE_SECONDS, _SECONDS_UNTIL_ASKED = 30.0, 600.0, 3600.0
_EVIDENCE = re.compile(r"D(\d+):(\d+)")
_DATE = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True)
class Turn:
    """One message of a conversation. time: seconds since 1970."""

    id: str
    speaker: str
    text: str
    time: float


@dataclass(frozen=True)
class Question:
    """A question and the ids of the turns that answer it."""

    text: str
    gold: frozenset[str]
    category: int


@dataclass(frozen=True)
class Conversation:
    """What was said and what is asked."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    @property
    def asked(self) -> float:
        """Return when the questions are asked: an hour after the last turn."""
        return self.turns[-1].time + _SECONDS_UNTIL_ASKED if self.turns else 0.0


@dataclass(frozen=True)
class Answer:
    """What came back for a question: ids of turns, best first, and how long it took without the embedding."""

    question: Question
    ids: tuple[str, ...]
    seconds: float


def conversations(path: Path) -> list[Conversation]:
    """Read a file; raises `ValueError` saying what in it is no conversation."""
    try:
        raw = json.loads(path.read_text("utf-8"))
        return [_conversation(one, at) for at, one in enumerate(raw)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is no file of conversations in LoCoMo's format: {error!r}") from error


def evaluate(
    path: Path,
    url: str,
    embedder: Embedder,
    *,
    ablate: Sequence[str] = (),
    rows: dict[str, Parts] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure a file on a throw-away schema of the database at `url`; returns the figures (see `figures`).

    ablate: parts to switch off. rows: measure these sets of parts instead and return the figures of each by name.
    Raises `ValueError` for an unknown part or a file that can't be read, and `MemoryUnavailableError`.
    """
    part_names(tuple(ablate))
    said = conversations(path)
    if not any(one.questions for one in said):
        raise ValueError(f"{path} holds no questions with evidence; it is a list of conversations with `qa` each")
    wanted = rows or {"": Parts().without(*ablate)}
    answers: dict[str, list[Answer]] = {name: [] for name in wanted}
    with throwaway(url, embedder) as database:
        for conversation in said:
            progress(f"{conversation.name}: {len(conversation.turns)} messages")
            scope = Scope("evaluation", conversation.name)
            ids = write(database, scope, conversation, embedder)
            vectors = [embedder.query(question.text) for question in conversation.questions]
            for name, parts in wanted.items():
                answers[name] += asked(database, scope, conversation, vectors, ids, parts)
    found = {name: figures(given) for name, given in answers.items()}
    return found if rows else found[""]


@contextmanager
def throwaway(url: str, embedder: Embedder) -> Iterator[Database]:
    """Give a memory of its own in a new schema, which is dropped at the end."""
    name = f"evaluation_{lumia.system.new_id().lower()}"[:60].replace("-", "_")
    database = Database(
        url,
        model=embedder.model,
        dimension=embedder.dimension,
        calibration=embedder.calibration,
        schema=name,
        limit=60.0,
    )
    try:
        yield database
    finally:
        database.close()
        with Database(url, model="", dimension=1).connect() as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


def write(database: Database, scope: Scope, conversation: Conversation, embedder: Embedder) -> dict[str, str]:
    """Write a conversation as a bot does, each turn at its own time; returns instance id → turn id."""
    people = sorted({turn.speaker for turn in conversation.turns})
    ids: dict[str, str] = {}
    for start, turns in _batches(conversation.turns):
        vectors = embedder.passages([turn.text for turn in turns])
        observations = [
            writing.Observation(
                scope,
                Observed(turn.text, sender=turn.speaker, sender_name=turn.speaker, message_id=turn.id, time=turn.time),
                vector,
                Origin(f"evaluation-{conversation.name}-{start + at}"),
                terms=texts.terms(turn.text),
                topics=topics_of(turn.text, people),
            )
            for at, (turn, vector) in enumerate(zip(turns, vectors, strict=True))
        ]
        with database.transaction() as connection:
            written = writing.observe_many(connection, observations, embedder=database.embedder_id, now=turns[-1].time)
        ids |= {one.id: turn.id for one, turn in zip(written, turns, strict=True)}
    with database.connect() as connection:
        connection.execute("ANALYZE memory_instances, memory_topics, memory_terms, memory_mentions, topic_edges")
    return ids


def _batches(turns: Sequence[Turn]) -> Iterator[tuple[int, Sequence[Turn]]]:
    """Give turns that follow each other within minutes, with the place of the first: what was said days apart is not
    written at once."""
    start = 0
    for at in range(1, len(turns) + 1):
        if at == len(turns) or at - start == _BATCH or turns[at].time - turns[at - 1].time > _PAUSE_SECONDS:
            yield start, turns[start:at]
            start = at


def asked(
    database: Database,
    scope: Scope,
    conversation: Conversation,
    vectors: Sequence[NDArray[np.float32]],
    ids: dict[str, str],
    parts: Parts,
) -> list[Answer]:
    """Ask the questions of a conversation."""
    found = []
    for question, vector in zip(conversation.questions, vectors, strict=True):
        with database.transaction() as connection:
            before = lumia.system.monotonic()
            recalled = recall(
                connection, scope, question.text, vector, top_k=max(DEPTHS), parts=parts, now=conversation.asked
            )
            seconds = lumia.system.monotonic() - before
        found.append(Answer(question, tuple(ids[one.instance.id] for one in recalled.instances), seconds))
    return found


def figures(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return means in per cent: recall_at k = share of a question's gold turns among the first k; ndcg_at_10;
    by_category with the same; ms: how long a recall took, without the embedding of the query."""
    times = [answer.seconds * 1000 for answer in answers] or [0.0]
    categories = sorted({answer.question.category for answer in answers})
    return {
        "questions": len(answers),
        **_quality(answers),
        "by_category": {
            str(category): {"questions": len(own), **_quality(own)}
            for category in categories
            if (own := [answer for answer in answers if answer.question.category == category])
        },
        "ms": {f"p{share}": round(float(np.percentile(times, share)), 2) for share in (50, 95)},
    }


def _quality(answers: Sequence[Answer]) -> dict[str, Any]:
    count = max(1, len(answers))
    recalls = {
        str(depth): round(100 * sum(_recall(answer, depth) for answer in answers) / count, 2) for depth in DEPTHS
    }
    return {"recall_at": recalls, "ndcg_at_10": round(100 * sum(map(_ndcg, answers)) / count, 2)}


def _recall(answer: Answer, depth: int) -> float:
    return len(answer.question.gold & set(answer.ids[:depth])) / len(answer.question.gold)


def _ndcg(answer: Answer, depth: int = 10) -> float:
    gains = sum(1 / np.log2(at + 2) for at, id in enumerate(answer.ids[:depth]) if id in answer.question.gold)
    return float(gains / sum(1 / np.log2(at + 2) for at in range(min(depth, len(answer.question.gold)))))


def _conversation(raw: Any, at: int) -> Conversation:
    said = raw["conversation"]
    numbers = sorted(int(match[1]) for key in said if (match := re.fullmatch(r"session_(\d+)", key)))
    turns: list[Turn] = []
    clock = 0.0
    for number in numbers:
        clock = max(clock, _time(said.get(f"session_{number}_date_time", "")) or clock + 86_400.0)
        for raw_turn in said[f"session_{number}"]:
            caption = f" [{raw_turn['blip_caption']}]" if raw_turn.get("blip_caption") else ""
            turns.append(Turn(raw_turn["dia_id"], raw_turn["speaker"], raw_turn["text"] + caption, clock))
            clock += _SECONDS_PER_TURN
    known = {turn.id for turn in turns}
    questions = tuple(
        Question(one["question"], gold, int(one["category"]))
        for one in raw["qa"]
        if int(one["category"]) != _UNANSWERABLE and (gold := _gold(one.get("evidence", ())) & known)
    )
    return Conversation(str(raw.get("sample_id", f"conversation {at + 1}")), tuple(turns), questions)


def _gold(evidence: Sequence[str]) -> frozenset[str]:
    """Some evidence names two turns in one string, or a turn with a leading zero."""
    found = (_EVIDENCE.findall(one) for one in evidence)
    return frozenset(f"D{int(session)}:{int(turn)}" for pairs in found for session, turn in pairs)


def _time(text: str) -> float:
    try:
        return datetime.strptime(text, _DATE).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
