"""The service `memory`: what other plugins ask the memory, as typed values (DESIGN §3).

    memory = lumia.services.get("memory")
    found = memory.recall("where does Ann's sister live?", chat, sender_id="7")

`chat` is the scope text of a chat, `platform:account:kind:id`; what is asked there is answered from that chat and from
what belongs to the whole bot. Reads are recorded as a whole for replay, embeddings within them once per step. A
database or a model that is away never raises here: the answer is empty and `missing` says why.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

import lumia

from . import embedding, engine, hints, knowledge, observing, people
from .commitments import Commitment
from .content import fitted
from .errors import MemoryUnavailableError
from .hints import Hint
from .types import Recalled

USED = "memory.used"
"""Event: what stood in a prompt is to be strengthened."""
TOP_K, MOST = 10, 50
_AWAY_SECONDS = 5.0
LONGEST_QUERY = 2000
"""Characters of a query that count."""
LONGEST_SHOWN = 1000
"""Characters of a memory that are given, and so recorded: a prompt shows no more, and a replay needs no more."""


@dataclass(frozen=True)
class RecalledTopic:
    """A topic that a query brought back. strength: decayed to now, in [0, 1]."""

    id: str
    name: str
    strength: float
    score: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecalledInstance:
    """Something said or learned. kind: message, reply (the bot's) or fact. said_at: seconds since 1970.

    text: the first 1,000 characters of it, with a mark of how many more there are; `lumia memory show ID` has them all.
    """

    id: str
    kind: str
    text: str
    sender: str
    sender_name: str
    said_at: float
    score: float
    reasons: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    topic_id: str = ""


@dataclass(frozen=True)
class Recollection:
    """What a query brought back, best first. missing: why there may be more than this, "" when there isn't."""

    topics: tuple[RecalledTopic, ...] = ()
    instances: tuple[RecalledInstance, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class SenderProfile:
    """Who somebody is (spec §12.4 `sender_profile`). relation_summary: one line for a prompt, "" for a stranger."""

    id: str
    name: str = ""
    relation_summary: str = ""
    messages: int = 0
    missing: str = ""


@dataclass(frozen=True)
class KnowledgePassage:
    """A passage of a file. source: where it stands, as `faq.md, Shop › Returns (2/3)`."""

    text: str
    source: str
    name: str
    number: int
    heading: str = ""
    page: int | None = None
    score: float = 0.0


@dataclass(frozen=True)
class KnowledgeFound:
    """The passages a query brought back, best first."""

    passages: tuple[KnowledgePassage, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class ForgottenPerson:
    """How much went with somebody. batch: `lumia memory restore` brings records back with it, "" when none went.

    missing: why nothing could be forgotten, "" when it could.
    """

    records: int = 0
    topics: int = 0
    hints: int = 0
    batch: str = ""
    missing: str = ""


@dataclass
class Memory:
    """The memory of this bot as other plugins see it; safe in threads."""

    _away_until: float = field(default=0.0, repr=False)
    _away_because: str = field(default="", repr=False)

    def recall(
        self, query: str, chat: str = "", *, sender_id: str | None = None, top_k: int = TOP_K
    ) -> Recollection:  # fmt: skip
        """Return what a chat's memory holds on `query`; sender_id: who asks, whose own words come a little sooner."""
        wanted = _bounded(top_k)
        found = self._read(f"recall {query[:80]}", lambda: _recall(query, chat, sender_id, wanted))
        return Recollection(
            tuple(RecalledTopic(**_tuples(one)) for one in found.get("topics", ())),
            tuple(RecalledInstance(**_tuples(one)) for one in found.get("instances", ())),
            found.get("missing", ""),
        )

    def used(self, chat: str, recollection: Recollection | Iterable[RecalledInstance]) -> None:
        """Note in a step that this stood in its prompt: once the step has committed, its strength grows, once per run.

        Instances strengthen their topic, too. It goes through an event, so a step that fails strengthens nothing and
        nobody waits for the database.
        """
        shown = list(recollection.instances if isinstance(recollection, Recollection) else recollection)
        named = [one.id for one in recollection.topics] if isinstance(recollection, Recollection) else []
        topics = sorted({*named, *(one.topic_id for one in shown if one.topic_id)})
        instances = [one.id for one in shown]
        if not topics and not instances:
            return
        run_id, step = lumia.context.origin()
        ordinal = zlib.crc32(" ".join([*topics, *instances]).encode()) >> 1
        content = {"chat": chat, "topics": topics, "instances": instances, "run_id": run_id, "step": step}
        # In the memory's own lane: one of the chat's would wait while the database is away, and the chat with it.
        lumia.event.start(
            USED, lumia.Box.any({**content, "ordinal": ordinal}), key=observing.lane_of(chat), detach=True, priority=6
        )

    def profile(self, sender_id: str, chat: str = "") -> SenderProfile:
        """Return who `sender_id` is in a chat and how they relate to others; of a stranger only the id."""
        found = self._read(f"profile {sender_id}", lambda: _profile(sender_id, chat))
        return SenderProfile(**{"id": sender_id, **found})

    def knowledge(self, query: str, chat: str = "", *, top_k: int = 5) -> KnowledgeFound:
        """Return the passages of the knowledge base nearest to `query`, each with its source."""
        wanted = _bounded(top_k)
        found = self._read(f"knowledge {query[:80]}", lambda: _knowledge(query, chat, wanted))
        passages = tuple(KnowledgePassage(**one) for one in found.get("passages", ()))
        return KnowledgeFound(passages, found.get("missing", ""))

    def hints(self, text: str, chat: str, *, sender_id: str = "", top: int = hints.SIMILAR) -> tuple[Hint, ...]:
        """Return what a message should bring to mind (spec §12.7); without a model only commitments it names."""
        now = lumia.system.now()
        found = lumia.recorded("memory", f"hints {text[:80]}", lambda: _hints(text, chat, sender_id, now, top))
        return tuple(Hint(**one) for one in found)

    def hinted(self, chat: str, used: Iterable[Hint]) -> None:
        """Note the hints of this turn's prompt, in every turn, also when there are none: that frees the last ones."""
        hints.injected(chat, used)

    def hint(
        self,
        chat: str,
        text: str,
        *,
        ttl_hours: float,
        commitment: Commitment | Mapping[str, Any] | None = None,
        hash: str = "",
        people: Iterable[str] = (),
    ) -> str:
        """Keep a hint for a chat until its time is over and return its hash; commits with the running step.

        commitment: who (ids), what and when, where the hint is one. people: ids of whom it is about or comes from: it
        is forgotten with them, as one that names them is.
        Raises `lumia.errors.ModelError` when it can't be embedded.
        """
        if isinstance(commitment, Mapping):
            commitment = Commitment(tuple(commitment["who"]), commitment["what"], commitment["when"])
        embedder = embedding.current()
        vector = embedder.passages([text])[0]
        return hints.add(
            chat, text, ttl_hours=ttl_hours, vector=vector, model=embedder.model, now=lumia.system.now(),
            commitment=commitment, hash=hash, people=people,
        )  # fmt: skip

    def forget_person(self, sender_id: str, chat: str | None = None) -> ForgottenPerson:
        """Forget what somebody said, their profile, relations and hints in a chat, or in all: for a chat command.

        Records go to the recycle table for `retention_days`, the rest for good. In a step the hints go when it commits.
        Whether whoever asks may ask for it is the caller's business. A memory that is away forgets nothing and says so.
        """
        from . import operations

        whose = self._read(f"person {sender_id}", lambda: _named(sender_id, chat))
        if missing := whose.get("missing"):
            return ForgottenPerson(missing=missing)
        known = operations.Named(whose["person"], tuple(whose["names"]), tuple(whose["chats"]))
        hinted = operations.forget_hints(known)
        key = blake2b(f"{chat}|{sender_id}".encode("utf-8", "replace"), digest_size=16).hexdigest()
        gone = lumia.effect(f"forget {key}", self._guarded, lambda: _forget_person(sender_id, chat))
        return ForgottenPerson(hints=hinted, **gone)

    def _read(self, name: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = lumia.recorded("memory", name, self._guarded, call)
        return found

    def _guarded(self, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what `call` gives, or why it can't; what was away is left alone for some seconds."""
        if not engine.wanted():
            off = "the memory is switched off, or the bot has no database (`lumia up`, LUMIA_DATABASE_URL)"
            return {"missing": off}
        if lumia.system.monotonic() < self._away_until:
            return {"missing": self._away_because}
        try:
            return call()
        except MemoryUnavailableError as error:
            why = str(error)
        except lumia.errors.ModelError as error:
            why = f"the embedding model does not answer: {error}"
        self._away_because, self._away_until = why, lumia.system.monotonic() + _AWAY_SECONDS
        return {"missing": why}


def memory_query(given: Mapping[str, Any], *, chat: str = "", memory: Memory | None = None) -> dict[str, Any]:
    """Answer the tool `memory_query` (spec §10.2.7): `{query, sender_id?, top_k?}` to `{topics, instances}`.

    chat: where it is asked, given by the caller and never by the model; "" sees only what belongs to the whole bot.
    Raises `lumia.errors.PayloadError` for another input.
    """
    query, sender, top_k = given.get("query"), given.get("sender_id"), given.get("top_k", TOP_K)
    if not isinstance(query, str) or not query.strip():
        raise lumia.errors.PayloadError(f"memory_query: query is {query!r}; it must be a text that is not empty")
    if sender is not None and not isinstance(sender, str):
        raise lumia.errors.PayloadError(f"memory_query: sender_id is {sender!r}; it must be a text or null")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MOST:
        raise lumia.errors.PayloadError(f"memory_query: top_k is {top_k!r}; it must be a number from 1 to {MOST}")
    found = (memory or lumia.services.get("memory")).recall(query, chat, sender_id=sender or None, top_k=top_k)
    answer: dict[str, Any] = {
        "topics": [_listed(asdict(one)) for one in found.topics],
        "instances": [_listed(asdict(one)) for one in found.instances],
    }
    return {**answer, "missing": found.missing} if found.missing else answer


def as_json(found: Recalled) -> dict[str, Any]:
    """Return what `recall.recall` found as the JSON that is recorded."""
    topics = [
        RecalledTopic(
            one.topic.id, one.topic.name, round(one.topic.strength, 4), round(one.score, 4),
            tuple(map(str, one.reasons)),
        )
        for one in found.topics
    ]  # fmt: skip
    instances = [
        RecalledInstance(
            one.instance.id, one.instance.kind, fitted(one.instance.content, LONGEST_SHOWN),
            people.sender_of(one.instance.sender), one.instance.sender_name,
            one.instance.created_at, round(one.score, 4), tuple(map(str, one.reasons)),
            one.instance.message_ids, one.instance.topic_id or "",
        )
        for one in found.instances
    ]  # fmt: skip
    return {"topics": [asdict(one) for one in topics], "instances": [asdict(one) for one in instances]}


def found_for(query: str, chat: str, sender_id: str | None, top_k: int) -> Recalled:
    """Return what the graph holds on `query`, with all its reasons; raises what reading and embedding raise."""
    from . import recall

    text, sender = lumia.payloads.clean_text(query)[:LONGEST_QUERY], lumia.payloads.clean_text(sender_id or "")
    work = engine.current()
    vector = work.embedder.query(text)
    scope, now = engine.scope(chat), lumia.system.now()
    with work.database.comparing() as connection, work.database.beside() as beside:
        asks = people.person_of(sender) or None
        return recall.recall(connection, scope, text, vector, sender=asks, top_k=top_k, now=now, beside=beside)


def _recall(query: str, chat: str, sender_id: str | None, top_k: int) -> dict[str, Any]:
    return as_json(found_for(query, chat, sender_id, top_k))


def _profile(sender_id: str, chat: str) -> dict[str, Any]:
    with engine.stored().transaction() as connection:
        person = people.person_of(lumia.payloads.clean_text(sender_id))
        found = people.profile(connection, engine.scope(chat), person, now=lumia.system.now())
    return {"name": found.name, "relation_summary": found.summary, "messages": found.messages}


def _named(sender_id: str, chat: str | None) -> dict[str, Any]:
    from . import operations

    with engine.stored().transaction() as connection:
        return asdict(operations.named(connection, engine.bot_name(), sender_id, chat))


def _forget_person(sender_id: str, chat: str | None) -> dict[str, Any]:
    from . import operations

    with engine.stored().transaction() as connection:
        found = operations.selected(connection, engine.bot_name(), (), sender_id, chat or "", exact=True)
    gone = operations.forget(found, sender=sender_id)
    return {"records": gone.instances, "topics": gone.topics, "batch": gone.batch}


def _knowledge(query: str, chat: str, top_k: int) -> dict[str, Any]:
    work = engine.current()
    text = lumia.payloads.clean_text(query)[:LONGEST_QUERY]
    vector = work.embedder.query(text)
    calibration = embedding.calibrated(work.database, work.embedder)
    with work.database.comparing() as connection:
        found = knowledge.search(connection, engine.scope(chat), text, vector, top_k=top_k, calibration=calibration)
    passages = [
        KnowledgePassage(one.text, one.cited, one.name, one.number, one.heading, one.page, one.score) for one in found
    ]
    return {"passages": [asdict(one) for one in passages]}


def _hints(text: str, chat: str, sender_id: str, now: float, top: int) -> list[dict[str, Any]]:
    try:
        embedder = embedding.current()
        vector, model, scale = embedder.query(text[:LONGEST_QUERY]), embedder.model, embedder.calibration
    except lumia.errors.ModelError:
        vector, model, scale = None, "", embedding.UNMEASURED
    found = hints.select(
        chat, text, vector, sender=sender_id, model=model, calibration=scale, now=now, top=top
    )  # fmt: skip
    return [asdict(one) for one in found]


def _bounded(top_k: int) -> int:
    return max(1, min(MOST, top_k))


def _tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _listed(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
