"""Memory graph: observes the chat, takes in what the models learn, and forgets what nobody needs.

Nobody waits for it: the stage of `msg` and the consumer of `msg.send` only emit a detached `memory.observe`, which is
written in a lane of its own. Without a database the chain goes on without memory, and `lumia doctor` says why. What
can't be embedded until the operator does something (another model is configured than the one whose vectors are stored,
a key is missing) waits in `memory.later` for as long as a month.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import lumia

from . import commands, doctor, engine, knowledge_commands, observing, tools, usage, work
from .errors import EmbedderError, MemoryUnavailableError
from .service import USED, Memory
from .types import Origin

log = logging.getLogger("lumia.memory")
PATIENT = lumia.Retry(attempts=12, backoff=2.0, max_delay=300.0)
"""Half an hour for a database to come back; after that a dead letter keeps the text."""
BESIDE = lumia.Retry(attempts=12, backoff=2.0, max_delay=300.0, lane="release")
"""The same for what is written within a message's run: its lane goes on meanwhile."""
LATER = "memory.later"
"""Event: a write that waits for the operator, tried again every quarter of an hour at most."""
_SOON, _SELDOM = 30.0, 900.0
_LONGEST_WAIT = 30 * 86400.0
_told: set[str] = set()

__all__ = ["check", "commands", "knowledge_commands", "on_load", "on_unload", "tools"]


def on_load() -> None:
    """Offer the service `memory`."""
    lumia.services.provide("memory", Memory())


def on_unload() -> None:
    """Close the connections of this process; a temporary memory is gone with them."""
    engine.close()
    if lumia.config.get(engine.NAME).temporary:
        engine.drop()


@lumia.pipe.on("msg", priv=150)
def observe_message(content: lumia.Box[Any]) -> None:
    """Hand a message that passed the filter (priv 200) to the memory, and the run to whoever comes next."""
    lumia.utils.next()
    if _wants("observe"):
        payload = content.into()
        _hand_over(observing.of_message(payload) if isinstance(payload, dict) else None)


@lumia.event.consumer_re("msg.send, dest=*", priv=-100)
def observe_reply(src: str, content: lumia.Box[Any]) -> None:
    """Hand what the bot says to the memory, once the adapter has been given it; answers to commands are no talk."""
    if content.meta.get("command") or not _wants("observe_replies"):
        return
    try:
        found = observing.of_reply(src, content.into(), content.meta)
    except lumia.errors.PayloadError as error:
        log.debug("a reply is not observed: %s", error)
        return
    _hand_over(found)


@lumia.event.consumer(observing.EVENT, retry=PATIENT)
def write_observed(content: lumia.Box[dict[str, Any]]) -> None:
    """Write what was observed, once however often this is tried."""
    _write("observed", content.into())


@lumia.event.consumer("memory.update", retry=BESIDE)
def update_memory(content: lumia.Box[dict[str, Any]]) -> None:
    """Remember or forget what a model says (spec §12.5); found by the next query."""
    _write("update", content.into())


@lumia.event.consumer("relation.update", retry=BESIDE)
def update_relation(content: lumia.Box[dict[str, Any]]) -> None:
    """Change what two people are to each other (spec §12.5)."""
    _write("relation", content.into())


@lumia.event.consumer(LATER, retry=PATIENT)
def write_later(content: lumia.Box[dict[str, Any]]) -> None:
    """Write what waited for the operator, or let it wait on."""
    _write(content.into()["what"], content.into()["payload"], content.into())


@lumia.event.consumer(USED, retry=PATIENT)
def strengthen_used(content: lumia.Box[dict[str, Any]]) -> None:
    """Strengthen what stood in a prompt, once per run."""
    if _wants("enabled"):
        lumia.annotate(**lumia.effect("strengthen", lambda: _telling(usage.strengthen, content.into())))


@lumia.event.consumer("cron.1d", timeout=3600, retry=3)
def forget_daily(content: lumia.Box[Any]) -> None:
    """Move what has faded to the recycle table, and empty that of what has been there for its time (spec §11.4)."""
    if _wants("forget"):
        now = lumia.system.now()
        gone = lumia.effect("forget", lambda: _telling(work.forget_daily, now))
        lumia.annotate(**gone)


@lumia.checks.check("memory-graph")
def check() -> Iterator[lumia.checks.Finding]:
    """Tell `lumia doctor` whether there is a memory, and if not why."""
    yield from doctor.examine()


def _wants(setting: str) -> bool:
    """Tell whether the bot has a memory that does this; a replay gets the recorded answer."""
    return bool(lumia.recorded("memory", f"wanted {setting}", _wanted, setting))


def _wanted(setting: str) -> bool:
    return engine.wanted() and bool(getattr(lumia.config.get(engine.NAME), setting))


def _hand_over(found: dict[str, Any] | None) -> None:
    if found is not None:
        lumia.event.start(
            observing.EVENT, lumia.Box.any(found), key=observing.lane_of(found["chat"]), detach=True, priority=6
        )


_WRITES: dict[str, Callable[..., dict[str, Any]]] = {
    "observed": work.write_observed, "update": work.update_memory, "relation": work.update_relation,
}  # fmt: skip


def _write(what: str, payload: dict[str, Any], waited: Mapping[str, Any] | None = None) -> None:
    """Make one write of this step as an effect, so that a replay touches no database.

    waited: the content of `memory.later`; the write keeps the origin of its first try, so it is made once.
    """
    if not lumia.recorded("memory", "wanted", engine.wanted):
        lumia.annotate(memory="off")
        return
    now = lumia.system.now()
    run_id, step = waited["origin"] if waited else lumia.context.origin()
    try:
        ready = work.prepared(payload)
        done = lumia.effect(what, lambda: _unless_another(what, payload, ready, Origin(run_id, step), now))
    except lumia.errors.ModelConfigError as error:
        done = {"outcome": "waits", "because": str(error)}
    if done["outcome"] == "waits":
        since, times = (waited["since"], waited["times"]) if waited else (now, 0)
        if now - since > _LONGEST_WAIT:
            raise EmbedderError(str(done["because"]))
        content = {"what": what, "payload": payload, "origin": [run_id, step], "since": since, "times": times + 1}
        lumia.event.start(
            LATER, lumia.Box.any(content), key=work.lane_of(payload), detach=True, priority=9,
            delay=min(_SELDOM, _SOON * 2**times),
        )  # fmt: skip
    lumia.annotate(memory=done)


def _unless_another(what: str, payload: dict[str, Any], *args: Any) -> dict[str, Any]:
    """Make a write; where the vectors there are another model's, it waits: trying again soon would help nobody."""
    try:
        return _telling(_WRITES[what], payload, *args)
    except EmbedderError as error:
        return {"outcome": "waits", "because": str(error)}


def _telling(write: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """Call `write`; the log tells of a memory that is away once, and once that it is back."""
    try:
        done = write(*args)
    except MemoryUnavailableError as error:
        if type(error).__name__ not in _told:
            _told.add(type(error).__name__)
            log.warning("the memory is away, messages are answered without it: %s", error)
        raise
    if _told:
        _told.clear()
        log.info("the memory is back")
    return done
