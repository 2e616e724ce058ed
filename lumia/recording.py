"""What a step saw of the world around it: recorded while it runs, given back when it is replayed (DESIGN §2).

`Reads` collects the reads of one try for the journal. A `Recording` is one recorded try as read from the journal, and a
`Player` answers a replayed try from it: reads, time and effects, without store, network or clock. Ids and randomness
need no record, they follow from (run, step, attempt).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lumia.context import active, here
from lumia.errors import PayloadError

if TYPE_CHECKING:
    from lumia.context import StepContext
    from lumia.journal import JournalEntry

PLAIN_BYTES = 32 * 1024
"""Reads up to this size stand in the journal as they are, larger ones compressed."""
MAX_BYTES = 512 * 1024
"""Reads above this size are not kept."""
MAX_TIMES = 64
"""How many different moments of one step are kept."""
MAX_READS = 10_000

_inner: ContextVar[str] = ContextVar("lumia_inner", default="")


@dataclass(frozen=True)
class Read:
    """A value a step has read. first: the how-manieth read of this name, from 0, gave it for the first time.

    hidden: the value is not exact, since a secret was taken out or it has no JSON form.
    """

    kind: str
    name: str
    value: Any
    first: int = 0
    hidden: bool = False


@dataclass(frozen=True)
class Made:
    """What became of one use of an effect. outcome: done, failed, unknown or held; value: Box wire text when done.

    error: "module:class" of the exception when the call raised. args: digest of the arguments. hidden: see `Read`.
    figures: model, tokens and cost of a call that was made in this try. wait: seconds a `RetryAfterError` named.
    """

    key: str
    outcome: str
    value: str = ""
    reason: str = ""
    error: str = ""
    kind: str = "call"
    args: str = ""
    hidden: bool = False
    figures: Mapping[str, Any] = field(default_factory=dict)
    wait: float = 0.0


@dataclass(frozen=True)
class Recording:
    """One try of a step: what it read and what its effects came to, in the order of use.

    too_large: the reads were not kept.
    """

    run_id: str
    step: int
    attempt: int
    reads: tuple[Read, ...] = ()
    effects: tuple[Made, ...] = ()
    too_large: bool = False

    @classmethod
    def of(cls, step: JournalEntry, entries: Iterable[JournalEntry]) -> Recording:
        """Return the recording of the try that `step` (a step entry) ended; entries: those of the whole run tree."""
        reads, too_large = unpacked(step.detail.get("reads"), step.detail.get("hidden", ()))
        return cls(step.run_id, step.step or 0, step.attempt, reads, tuple(_effects(step, entries)), too_large)


@dataclass(frozen=True)
class Missed:
    """A replayed step asked for what was not recorded, or (in `leftovers`) did not ask for what was."""

    kind: str
    name: str
    why: str = ""


class Source(Protocol):
    """What answers a step instead of the world: a `Player`, or a stand-in of the same kind."""

    recording: Recording

    def read(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        """Return the value a read gives; `call` would make it."""

    def effect(self, key: str, kind: str, args: str) -> Made | None:
        """Return what the next use of an effect came to, None when nothing is recorded."""


class Player:
    """Answers one replayed try from its recording. misses: what was asked for and is not there.

    inexact: what was given although a secret was taken out of it. A read that is not recorded is made (`call`), which
    in an offline replay gives what the replay's own store, configuration and clock hold.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.misses: list[Missed] = []
        self.inexact: list[Missed] = []
        self._reads: dict[tuple[str, str], list[Read]] = {}
        self._asked: dict[tuple[str, str], int] = {}
        self._effects: dict[str, list[Made]] = {}
        self._used: set[str] = set()
        for read in recording.reads:
            self._reads.setdefault((read.kind, read.name), []).append(read)
        for made in recording.effects:
            self._effects.setdefault(made.key, []).append(made)

    def read(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        """Return the recorded value of this read, else what `call` gives."""
        known = self._reads.get((kind, name))
        number = self._asked[kind, name] = self._asked.get((kind, name), -1) + 1
        if known is None:
            if number == 0:
                why = "reads not recorded: too large" if self.recording.too_large else "not read when it was recorded"
                self.misses.append(Missed(kind, name, why))
            return call()
        found = next(read for read in reversed(known) if read.first <= number or read is known[0])
        if found.hidden and number == found.first:
            self.inexact.append(Missed(kind, name, "a secret was taken out of the recorded value"))
        return found.value

    def effect(self, key: str, kind: str, args: str) -> Made | None:
        """Return what this use of `key` came to; the last recorded outcome holds for every further one."""
        self._used.add(key)
        known = self._effects.get(key)
        if not known:
            self.misses.append(Missed(f"effect {kind}", key, "not called when it was recorded"))
            return None
        made = known.pop(0) if len(known) > 1 else known[0]
        if args and made.args and args != made.args:
            self.misses.append(Missed(f"effect {kind}", key, "called with other arguments than when it was recorded"))
        if made.hidden:
            self.inexact.append(Missed(f"effect {kind}", key, "a secret was taken out of the recorded value"))
        return made

    def leftovers(self) -> list[Missed]:
        """Return what was recorded and not asked for, reads first."""
        reads = [Missed(*place, "no longer read") for place in self._reads if place not in self._asked]
        effects = [(made.kind, key) for key, (made, *_) in self._effects.items() if key not in self._used]
        return reads + [Missed(f"effect {kind}", key, "no longer called") for kind, key in effects]


# --- recording


@dataclass
class Reads:
    """The reads of one try, as they will stand in its journal entry."""

    items: list[list[Any]] = field(default_factory=list)
    hidden: list[int] = field(default_factory=list)
    _seen: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    _times: int = 0
    _over: bool = False

    def note(self, kind: str, name: str, value: Any, *, hide: Callable[[], bool] | None = None) -> None:
        """Note a value unless the last read of this name gave it too. hide: tells whether it is a secret."""
        place = (kind, name)
        known = self._seen.get(place)
        number = known[0] if known is not None else 0
        self._seen[place] = (number + 1, value)
        if (known is not None and known[1] == value) or self._full(kind):
            return
        if hide is not None and hide():
            self.hidden.append(len(self.items))
        self.items.append([kind, name, value] if number == 0 else [kind, name, value, number])

    def _full(self, kind: str) -> bool:
        if kind == "now":
            self._times += 1
            return self._times > MAX_TIMES
        self._over = self._over or len(self.items) >= MAX_READS
        return self._over

    def detail(self, redact: Callable[[str], str]) -> dict[str, Any]:
        """Return what the step's journal entry says of them, without the secrets that `redact` knows."""
        if self._over:
            return {"reads": {"too_large": True}}
        for index, item in enumerate(self.items):
            item[2], changed = _clean(item, index in self.hidden, redact)
            if changed and index not in self.hidden:
                self.hidden.append(index)
        packed = {"reads": _packed(self.items)}
        return packed if not self.hidden else {**packed, "hidden": sorted(self.hidden)}


def _clean(item: list[Any], hide: bool, redact: Callable[[str], str]) -> tuple[Any, bool]:
    from lumia.redaction import HIDDEN, cleaned, cleaned_stored

    kind, name, value = item[:3]
    if hide or kind == "now" or value is None or isinstance(value, bool | int | float):
        return HIDDEN if hide else value, hide
    return (cleaned_stored if kind == "store" else cleaned)(value, redact, name)


def _packed(items: list[list[Any]]) -> Any:
    text = json.dumps(items, separators=(",", ":"), default=str)
    if len(text) <= PLAIN_BYTES:
        return json.loads(text)  # a copy: a configured list may be changed by the time the entry is written
    if len(text) > MAX_BYTES:
        return {"too_large": True}
    from lumia.compressed import pack

    return {"z": pack(text)}


def unpacked(reads: Any, hidden: Sequence[int] = ()) -> tuple[tuple[Read, ...], bool]:
    """Return the reads of a step entry's detail, and whether they were too large to keep."""
    if isinstance(reads, Mapping):
        if "z" not in reads:
            return (), True
        from lumia.compressed import unpack

        reads = json.loads(unpack(reads["z"]))
    found = [
        Read(item[0], item[1], item[2], item[3] if len(item) > 3 else 0, number in hidden)
        for number, item in enumerate(reads or ())
    ]
    return tuple(found), False


def observed(kind: str, name: str, call: Callable[[], Any], *, hide: Callable[[], bool] | None = None) -> Any:
    """Make a read of the running step known: note what `call` gives, or give what was recorded in a replay."""
    step = here()
    if step is None or step.closed or _inner.get():
        return call()
    if step.player is not None:
        return step.player.read(kind, name, call)
    value = call()
    noted(step, kind, name, value, hide=hide)
    return value


def noted(step: StepContext, kind: str, name: str, value: Any, *, hide: Callable[[], bool] | None = None) -> None:
    """Note a read of `step`."""
    if step.reads is None:
        step.reads = Reads()
    step.reads.note(kind, name, value, hide=hide)


def recorded(kind: str, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return `call(*args, **kwargs)`, a read of a service, and record it for replay; its result is JSON values.

    kind: what is read, e.g. "memory". name: which one, the same for the same question. In a replay the recorded value
    is given and nothing is called; what the call itself reads, asks a model or draws by chance belongs to it and is not
    recorded apart. Outside of a step the call is simply made. Raises `PayloadError` for a result that is no JSON.
    """
    if active("lumia.recorded()") is None or _inner.get():
        return call(*args, **kwargs)

    def read() -> Any:
        with inside(f"{kind} {name}"):
            value = call(*args, **kwargs)
        try:
            return json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(
                f"lumia.recorded({kind!r}, {name!r}): {error}; what is recorded are JSON values, turn it into them"
            ) from error

    return observed(kind, name, read)


@contextmanager
def inside(what: str) -> Iterator[None]:
    """Within this block nothing is recorded on its own: all of it is part of `what`, whose result is recorded."""
    token = _inner.set(_inner.get() or what)
    try:
        yield
    finally:
        _inner.reset(token)


def inner() -> str:
    """Return what is being recorded as a whole here, or "" for nothing."""
    return _inner.get()


# --- reading recordings


def _effects(step: JournalEntry, entries: Iterable[JournalEntry]) -> Iterator[Made]:
    """Yield the outcomes of a try's effects; a recorded result of an earlier try stands where that was given again."""
    results: dict[tuple[str, str], JournalEntry] = {}
    for entry in entries:
        if entry.kind != "effect":
            continue
        key = str(entry.detail.get("effect", ""))
        place = (str(entry.detail.get("ledger") or f"{entry.run_id}/{entry.step}"), key)
        mine = (entry.run_id, entry.step, entry.attempt) == (step.run_id, step.step or 0, step.attempt)
        if mine and "inside" not in entry.detail and not _is_news_of_another(entry):
            result = results.get(place, entry) if entry.outcome == "replayed" else entry
            yield _made(key, result, paid=result is entry)
        if entry.outcome == "done":
            results[place] = entry


def _is_news_of_another(entry: JournalEntry) -> bool:
    """Tell whether an entry is of a call that an earlier try has begun: this one's has an error, or a result."""
    return entry.outcome == "unknown" and "error" not in entry.detail


def _made(key: str, entry: JournalEntry, *, paid: bool) -> Made:
    detail = entry.detail
    figures = {name: detail[name] for name in ("model", "tokens_in", "tokens_out", "cost") if name in detail}
    return Made(
        key, entry.outcome, str(detail.get("value", "")), entry.reason, str(detail.get("error", "")),
        str(detail.get("kind", "call")), str(detail.get("args", "")), bool(detail.get("hidden")),
        figures if paid else {}, float(detail.get("wait", 0.0)),
    )  # fmt: skip
