"""Opening a bot: configuration, secret, backend, plugins and models of one bot root in this process."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal

from lumia import __version__, finder, system
from lumia.blobs import Blobs
from lumia.box import set_limit
from lumia.config import ConfigStore
from lumia.config_live import CHECK_EVERY
from lumia.deployment import Wanted
from lumia.effects import effect
from lumia.errors import BackendUnavailableError, ConfigError, PluginLoadError
from lumia.following import Taking
from lumia.generations import Changed
from lumia.isolation import Isolation
from lumia.loader import Loader, PluginSet, discover
from lumia.models import Models
from lumia.paths import base, find_root
from lumia.plugin import Plugin
from lumia.ports import Limits, Transport
from lumia.quarantine import Guard
from lumia.recording import recorded
from lumia.runtime import Runtime
from lumia.secrets import load_secret, redact
from lumia.services import Services

LOADS = ("none", "gateway", "all")


def open_bot(
    root: Path | str | None = None, *, load: str = "none", transport: Transport | None = None, start: bool = True
) -> Runtime:
    """Open the bot of `root` (default: the bot root of this folder) and make it the process's active one.

    load: which plugins are imported: `none`, those the `gateway` serves, or `all`. start: run their `on_load`.
    transport: instead of the configured backend. Raises `RootNotFoundError`, `ConfigError`, `BackendUnavailableError`.
    """
    if load not in LOADS:
        raise ConfigError(f"load is one of {', '.join(LOADS)}, got {load!r}")
    folder = find_root(root)
    config = ConfigStore(folder)
    limits = limits_of(config)
    set_limit(config.core.box.max_bytes)
    secret = load_secret(folder)
    carried = transport or connect(config.core.lumia.backend, folder, limits, config)
    bot = Runtime(
        folder, base(), carried, secret, config, services=Services(), limits=limits, models=_models(config),
        blobs=Blobs(folder / "data" / "blobs", max_bytes=config.core.blobs.max_bytes,
                    allowed=tuple(config.core.blobs.allowed), keep=config.core.blobs.keep,
                    min_free=config.core.blobs.min_free),
        redact=_redactor(secret, config),
    )  # fmt: skip
    bot.activate()
    finder.install(bot.base, folder)
    try:
        if load != "none":
            _load(bot, load, start)
    except BaseException:
        bot.close()
        raise
    return bot


def _load(bot: Runtime, load: str, start: bool, disabled: Collection[str] | None = None) -> None:
    use_layer(bot.root)
    with bot.activated():
        plugins = load_plugins(bot, load, disabled=disabled)
        bot.install(plugins)
        if start:
            start_plugins(bot, plugins)


def open_following(load: str, *, start: bool = True) -> tuple[Runtime, int]:
    """Open the bot of this process as one of those that take part in deployments (docs/hot-reload.md).

    Its root is brought in step with the bot before anything is loaded. Returns the bot, and the number of the
    deployment it has loaded. Raises what `open_bot` does, and `PkgError`.
    """
    from lumia.pkg.arriving import arrive

    bot = open_bot()
    try:
        arrived = arrive(bot)
        _load(bot, load, start, arrived.disabled)
    except BaseException:
        bot.close()
        raise
    return bot, arrived.number


def taking(
    bot: Runtime,
    load: str,
    *,
    switched: Callable[[Changed], None],
    busy: Callable[[Plugin], bool] = lambda plugin: False,
    hung: Callable[[], None] = lambda: None,
) -> Taking:
    """Return how a process that has loaded `load` takes deployments. switched, busy, hung: see `Taking`."""
    from lumia.pkg.bringing import Root

    assert bot.config is not None
    root = Root(bot.root, bot.config)

    def loaded(wanted: Wanted, keep: PluginSet) -> PluginSet:
        root.verified(wanted)
        use_layer(bot.root)
        return load_plugins(bot, load, keep=keep, disabled=wanted.disabled)

    def bring(wanted: Wanted, number: int) -> None:
        if wanted.origin != root.place:
            root.bring(wanted, number)

    kind: Literal["worker", "gateway", "isolated"] = "gateway" if load == "gateway" else "worker"
    if Isolation.here(bot.root).serving:
        kind = "isolated"
    return Taking(kind, loaded, bring, root.restore, switched, busy, hung, root.saw)


def use_layer(root: Path) -> None:
    """Make the Python packages of plugins importable here; an isolated plugin has an environment of its own instead.

    Raises `PluginLoadError` when this process has imported one of them in another version: then nothing is changed.
    """
    if not Isolation.here(root).inside:
        from lumia.pkg import import_path, layers

        layer = layers.current(root)
        if wrong := import_path.clashes(layer):
            raise PluginLoadError(
                f"{'; '.join(wrong)}; a running process can't exchange a library: end the bot on all its machines "
                "(`lumia down`; SIGTERM for workers you started yourself), run the same `pkg` command again, and start "
                "the bot"
            )
        import_path.activate(root, layer)


def limits_of(config: ConfigStore) -> Limits:
    """Return the figures the mechanism needs from `config/lumia.toml`."""
    worker, core = config.core.worker, config.core
    return Limits(
        step_timeout=worker.step_timeout, max_losses=worker.max_losses, dedup_window=core.dedup.window,
        keep_runs=core.runs.keep, journal_bytes=max(core.journal.hard_bytes, core.journal.max_bytes),
        fuse=worker.fuse, batch=worker.batch, batch_seconds=worker.batch_ms / 1000,
        concurrency=worker.concurrency, drain=worker.drain, ageing=worker.ageing,
    )  # fmt: skip


def load_plugins(
    bot: Runtime, load: str, *, keep: PluginSet | None = None, disabled: Collection[str] | None = None
) -> PluginSet:
    """Import the plugins of `bot` into this process; failures are logged and kept in the set.

    keep: a set whose plugins are taken over where they haven't changed. disabled: instead of what the settings say.
    """
    assert bot.config is not None and bot.services is not None
    disabled = tuple(bot.config.core.plugins.disabled if disabled is None else disabled)
    names = None
    if load == "gateway":
        found = discover(bot.base, bot.root, disabled)
        names = {item.name for item in found if item.manifest is not None and item.manifest.gateway}
    isolation = Isolation.here(bot.root)
    loader = Loader(
        bot.base, bot.root, config=bot.config, services=bot.services, core_version=__version__,
        disabled=disabled, elsewhere=isolation, guard=_guard(bot, isolation, watching=keep is None),
    )  # fmt: skip
    plugins = loader.load(names, on_load=False, keep=keep)
    for failure in plugins.failures:
        bot.log.error("%s", failure)
    for warning in plugins.warnings:
        bot.log.warning("%s", warning)
    return plugins


def _guard(bot: Runtime, isolation: Isolation, *, watching: bool) -> Guard | None:
    """Return who watches over a process's plugins; those of an isolated one end without anybody else.

    watching: end the process on an import that takes too long. One that executes steps is judged by its deployment.
    """
    assert bot.config is not None
    if isolation.only is not None:
        return None
    return Guard(bot.root, bot.config.core.plugins.import_limit if watching else 0, bot.log)


def start_plugins(bot: Runtime, plugins: PluginSet) -> None:
    """Run `on_load` once in this process; a plugin that fails there is logged and takes its handlers along."""
    before = len(plugins.failures)
    plugins.start()
    for failure in plugins.failures[before:]:
        bot.log.error("%s", failure)
    if len(plugins.failures) > before:
        bot.install(plugins)


def connect(backend: str, root: Path, limits: Limits, config: ConfigStore) -> Transport:
    folder = str(base())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(f"{backend}.backend")
    except ImportError as error:
        raise BackendUnavailableError(
            f"backend {backend!r} of config/lumia.toml, [lumia] backend, can't be imported: {error}"
        ) from error
    connected: Transport = module.connect(root, limits, config)
    return connected


def _models(config: ConfigStore) -> Models:
    return Models(
        config.table("models"),
        os.environ,
        effect=effect,
        recorded=recorded,
        clock=system.now,
        random=system.random,
        bot_name=config.core.bot.name,
    )


def _redactor(secret: bytes, config: ConfigStore) -> Callable[[str], str]:
    known = [
        value for name, value in os.environ.items() if name.endswith(("_KEY", "_TOKEN", "_SECRET")) and len(value) > 7
    ]

    hidden: tuple[str, ...] = ()
    until = 0.0

    def clean(text: str) -> str:
        nonlocal hidden, until
        if not text:
            return text
        if time.monotonic() >= until:
            # Asking every settings file costs more than all the rest; they look for changes as rarely themselves.
            hidden, until = (*known, secret.hex(), *config.known_secrets()), time.monotonic() + CHECK_EVERY
        shown: Any = redact(text, hidden)
        return str(shown)

    return clean
