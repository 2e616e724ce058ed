"""Checks of the bot root: folders, secret, configuration, plugins, models, ports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lumia.errors import LumiaError, SupervisorError
from tasks.supervise.bot_report import bot_report
from tasks.supervise.check_loading import check_loading
from tasks.supervise.findings import Finding, fail, ok, risk
from tasks.supervise.folders import Folders
from tasks.supervise.ports import is_free, owner
from tasks.supervise.reported import is_quarantined, reported
from tasks.supervise.settings import Settings
from tasks.supervise.state import UpState
from tasks.supervise.versions import RESTART, outdated, running

_PARTS = ("tasks", "handlers", "adapters")


def check_bot(base: Path, root: Path, settings: Settings, state: UpState | None) -> Iterator[Finding]:
    """Yield what the bot's own files say. state: of the running bot, if it runs."""
    yield _base(base)
    yield _root(root)
    yield _secret(root)
    yield from _ports(settings, state)
    url = state.redis_url if state is not None else ""
    yield from check_loading(base, root)
    yield from _contents(base, root, reported(url))
    for text in outdated(base, root, running(url)):
        yield risk("versions", text, RESTART)


def _base(base: Path) -> Finding:
    missing = [name for name in _PARTS if not (base / name).is_dir()]
    if missing:
        return fail("base", f"{base} has no {', '.join(missing)}", "install Lumia again, or complete the checkout")
    return ok("base", str(base))


def _root(root: Path) -> Finding:
    try:
        Folders(root).prepare()
    except SupervisorError as error:
        what, _, way_out = str(error).partition("; ")
        return fail("root", what, way_out)
    return ok("root", f"{root} is writable")


def _secret(root: Path) -> Finding:
    from lumia.secrets import SECRET_FILE, load_secret

    file = root / SECRET_FILE
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    try:
        load_secret(root)
    except LumiaError as error:
        what, _, way_out = str(error).partition("; ")
        return fail("secret", what, way_out)
    if "LUMIA_SECRET" in os.environ:
        return ok("secret", "from LUMIA_SECRET")
    if mode & 0o077:
        return risk("secret", f"{file} was readable by others (mode {mode:04o}) and is 0600 now", "consider a new one")
    return ok("secret", f"{file} is readable by you alone")


def _ports(settings: Settings, state: UpState | None) -> Iterator[Finding]:
    wanted = [
        (settings.gateway_host, settings.gateway_port, "[gateway] port"),
        ("127.0.0.1", settings.flower_port, "[flower] port"),
        *(() if os.environ.get("LUMIA_REDIS_URL") else (("127.0.0.1", settings.redis_port, "[redis] port"),)),
    ]
    if settings.postgres_enabled and not os.environ.get("LUMIA_DATABASE_URL"):
        wanted.append(("127.0.0.1", settings.postgres_port, "[postgres] port"))
    if state is not None:
        yield ok("ports", f"in use by this bot, which is up (pid {state.pid})")
        return
    taken = [(port, key) for host, port, key in wanted if not is_free(host, port)]
    for port, key in taken:
        yield fail("ports", f"{port} is taken by {owner(port) or 'another process'}", f"end it, or change {key}")
    if not taken:
        yield ok("ports", ", ".join(str(port) for _, port, _ in wanted) + " are free")


def _contents(base: Path, root: Path, seen: Sequence[str]) -> Iterator[Finding]:
    """Yield what the files show. seen: the plugin failures that the running worker reports."""
    report = bot_report(base, root, checks=True)
    for text in report.errors:
        yield fail("bot", text, "correct it; the bot can't be opened")
    for text in report.config:
        yield fail("config", text, "correct the file; a running bot keeps its last good values")
    for text in report.config_warnings:
        yield risk("config", text, "correct the file")
    if not (report.errors or report.config or report.config_warnings):
        yield ok("config", f"the files in {root / 'config'} are valid")
    for text in dict.fromkeys((*report.plugins, *seen)):
        if not is_quarantined(text):  # that is told with a way out of its own
            yield risk("plugins", text, "correct or disable it ([plugins] disabled); the others run")
    for text in report.plugin_warnings:
        yield risk("plugins", text, "see docs/plugins.md")
    if report.loaded:
        yield ok("plugins", f"{len(report.loaded)} load from the files here: {', '.join(report.loaded)}")
    if report.tools:
        yield ok("tools", ", ".join(report.tools))
    for text in report.models:
        yield risk("models", text, "see [models.<role>] in config/lumia.toml")
    if report.served:
        yield ok("models", ", ".join(f"{role} = {model}" for role, model in report.served.items()))
    for name, level, message, fix in report.checks:
        yield Finding(level, name, message, fix)
    if report.offline:
        yield risk("models", f"offline (rules, no LLM): {', '.join(report.offline)}", "set LUMIA_MODEL and its key")
