"""Bots as commands need them: opened for a block, closed after it."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lumia import paths
from lumia.errors import PluginLoadError, RootNotFoundError
from lumia.marks import Function

if TYPE_CHECKING:
    from lumia.loader import Configuration, PluginSet
    from lumia.ports import Transport
    from lumia.routes import RouteTable
    from lumia.runtime import Runtime


class Deferred:
    """A transport that connects when it is first used, so `--help` and offline commands need no running bot."""

    def __init__(self) -> None:
        self.connect: Callable[[], Any] | None = None
        self._real: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._real is None:
            assert self.connect is not None
            self._real = self.connect()
        return getattr(self._real, name)

    def close(self) -> None:
        """Close the connection if there is one."""
        if self._real is not None:
            self._real.close()


@contextmanager
def opened(root: Path | None = None) -> Iterator[Runtime]:
    """Open the bot of `root` (default: of this folder) without plugins; it connects to its backend at the first use."""
    from lumia import opening

    later = Deferred()
    bot = opening.open_bot(root, transport=cast("Transport", later))
    assert bot.config is not None
    config = bot.config
    later.connect = lambda: opening.connect(config.core.lumia.backend, bot.root, bot.limits, config)
    try:
        yield bot
    finally:
        bot.close()


@contextmanager
def read_from_files() -> Iterator[tuple[PluginSet, RouteTable]]:
    """Load every plugin from its files, start none and connect to nothing; yield the plugins and their routes."""
    from lumia.inmemory import InMemoryTransport
    from lumia.runtime import open_bot

    bot = open_bot(load="all", transport=InMemoryTransport(), start=False)
    try:
        assert bot.plugins is not None
        yield bot.plugins, bot.install(bot.plugins)
    finally:
        bot.close()


@contextmanager
def command_of(plugin: str, command: str) -> Iterator[Function]:
    """Load `plugin` and what it depends on and yield the function of its command.

    Only calling the function starts the plugins, and raises `RootNotFoundError` outside of a bot root. Raises
    `PluginLoadError` saying why the plugin could not be loaded.
    """
    with ExitStack() as stack:
        root, missing = _root(stack)
        bot = stack.enter_context(opened(root))
        plugins = load_plugin(bot, plugin)
        fn = next(
            (item.fn for item in plugins.handlers("command") if (item.plugin, item.mark.id) == (plugin, command)), None
        )
        if fn is None:
            raise _unusable(plugin, command, plugins)

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            if missing is not None:
                raise missing
            plugins.start()
            if plugin not in plugins.plugins:
                bot.transport.routes()  # says so when the bot isn't running, the likeliest reason
                raise _unusable(plugin, command, plugins)
            return fn(*args, **kwargs)

        yield call


def _root(stack: ExitStack) -> tuple[Path, RootNotFoundError | None]:
    """Return the bot root; where there is none, an empty one to show the command's help with, and the error."""
    try:
        return paths.find_root(), None
    except RootNotFoundError as error:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lumia-help-")))
        (root / paths.CONFIG_FILE).parent.mkdir()
        (root / paths.CONFIG_FILE).touch()
        return root, error


def load_plugin(bot: Runtime, plugin: str) -> PluginSet:
    """Load a plugin and what it depends on into an opened bot, without starting them."""
    assert bot.config is not None
    return _loaded(bot, plugin, bot.config, tuple(bot.config.core.plugins.disabled))


def look_at_plugin(bot: Runtime, plugin: str) -> PluginSet:
    """Load a plugin likewise, also a disabled one, without making or completing its settings file."""
    return _loaded(bot, plugin, _Unwritten(), ())


class _Unwritten:
    """Takes the settings that plugins declare, and makes no files."""

    def register(self, plugin_name: str, schema_file: Path | None, declared: dict[str, Any]) -> None:
        """Do nothing."""


def _loaded(bot: Runtime, plugin: str, config: Configuration, disabled: tuple[str, ...]) -> PluginSet:
    from lumia import __version__
    from lumia.loader import Loader
    from lumia.quarantine import Guard

    assert bot.config is not None and bot.services is not None
    loader = Loader(
        bot.base, bot.root, config=config, services=bot.services, core_version=__version__, disabled=disabled,
        guard=Guard(bot.root, bot.config.core.plugins.import_limit, bot.log),
    )  # fmt: skip
    plugins = loader.load({plugin}, on_load=False)
    bot.install(plugins)
    return plugins


def _unusable(plugin: str, command: str, plugins: PluginSet) -> PluginLoadError:
    reasons = [str(failure) for failure in plugins.failures if failure.name == plugin]
    why = reasons[0] if reasons else "it is disabled, or marks no such function"
    return PluginLoadError(f"`lumia {command}` needs plugin {plugin!r}, which could not be loaded: {why}")
