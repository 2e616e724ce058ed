"""What `lumia up` says beside its table: what an operator would want to know before the first message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lumia.errors import BackendUnavailableError
from tasks.supervise.bot_report import BotReport, bot_report
from tasks.supervise.reported import as_lines, reported
from tasks.supervise.resp import connect, info
from tasks.supervise.state import UpState


def notes(base: Path, root: Path, state: UpState) -> list[str]:
    """Return lines about models without a provider, plugins that don't load, and a broker that forgets."""
    report = bot_report(base, root)
    return [*_of_models(report), *_of_bot(report, reported(state.redis_url)), *_of_redis(state)]


def _of_models(report: BotReport) -> Iterator[str]:
    if report.offline:
        chatting = {role for role in report.served or () if role != "embedding"}
        who = "every role" if chatting and chatting <= set(report.offline) else ", ".join(report.offline)
        yield (
            f"note: the offline model answers for {who}: rules, no LLM. For a real one set LUMIA_MODEL and its key, "
            "or [models.<role>] in config/lumia.toml"
        )
    yield from (f"warning: model of {problem}" for problem in report.models)


def _of_bot(report: BotReport, seen: Sequence[str]) -> Iterator[str]:
    """Warn about what the files show and the worker has not `seen`; what it has seen is told as it tells it."""
    yield from as_lines(seen)
    for problem in (*report.errors, *report.config, *report.plugins):
        if problem not in seen:
            yield f"warning: {problem}; see `lumia doctor`"


def _of_redis(state: UpState) -> Iterator[str]:
    """Warn about a server that was given by URL; our own one is started right."""
    if not any(one.name == "redis" for one in state.services):
        return
    try:
        with connect(state.redis_url) as redis:
            if info(redis, "persistence").get("aof_enabled") != "1":
                yield "warning: this Redis keeps no append-only file: its end loses accepted messages; set appendonly"
    except BackendUnavailableError:
        return
