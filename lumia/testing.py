"""Testing handlers without a server: a whole bot in one object, on the in-memory transport (spec §4–5).

::

    from lumia.testing import Bot
    import my_plugin

    def test_it_greets():
        with Bot(my_plugin) as bot:
            assert bot.send("hello", sender="ann").replies == ["hi, ann"]

`Bot` executes runs in the calling thread, so a test needs no waiting; delayed runs are reached by moving its clock.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from lumia import __version__
from lumia.box import Box, limit, set_limit
from lumia.bus import event, pipe
from lumia.dead import DeadLetter
from lumia.errors import ManifestError, PluginLoadError, RegistrationError
from lumia.inmemory import InMemoryTransport
from lumia.loader import Handler, Loader, Plugin, PluginSet
from lumia.manifest import Manifest, hyphenated, load_manifest
from lumia.marks import Mark, marks_in, marks_on, verify
from lumia.opening import limits_of, open_bot
from lumia.paths import base
from lumia.ports import Limits
from lumia.routes import RouteTable
from lumia.runs import RunResult, result
from lumia.runtime import Runtime
from lumia.system import RealClock

__all__ = ["Bot", "ManualClock", "fake_redis"]


class ManualClock(RealClock):
    """A clock that stands still until it is moved; ids and random numbers follow from `seed`."""

    def __init__(self, start: float = 1_700_000_000.0, seed: int = 0) -> None:
        self._now = start
        self._elapsed = 0.0
        self._noise = seed

    def now(self) -> float:
        """Return the seconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds this clock was moved."""
        return self._elapsed

    def noise(self) -> int:
        """Return the next number of a fixed sequence."""
        self._noise += 1
        return (self._noise * 0x9E3779B97F4A7C15) >> 4 & ((1 << 60) - 1)

    def random(self) -> float:
        """Return the next number in [0, 1) of a fixed sequence."""
        return self.noise() / (1 << 60)

    def move(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self._now += seconds
        self._elapsed += max(0.0, seconds)


class Bot:
    """A bot made of plugins, run in the calling thread.

    what: modules, functions with marks, or paths of plugin folders (with manifest.json). config: plugin → values for
    its settings; "lumia" names the core's, with dotted keys. clock: `ManualClock()` to control time. root: a bot root
    to use instead of a temporary one. name: the plugin that modules and functions belong to; permissions: what its
    manifest would ask for. Entering it raises what is wrong with them: `RegistrationError`, `PluginLoadError` or
    `ConfigError`.
    """

    def __init__(
        self,
        *what: ModuleType | Callable[..., Any] | str | Path,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        clock: RealClock | None = None,
        root: Path | None = None,
        name: str = "test",
        limits: Limits | None = None,
        permissions: Sequence[str] = (),
    ) -> None:
        self._what = what
        self._config = config or {}
        self.clock = clock or RealClock()
        self._root = root
        self._name = name
        self._limits = limits
        self._permissions = tuple(permissions)
        self._stack = ExitStack()
        self.runtime: Runtime

    def __enter__(self) -> Bot:
        """Open the bot and make it the active one of this context."""
        try:
            return self._open()
        except BaseException:
            self._stack.close()
            raise

    def _open(self) -> Bot:
        folder = self._root or Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lumia-test-")))
        (folder / "config").mkdir(parents=True, exist_ok=True)
        (folder / "config" / "lumia.toml").touch()
        self.transport = InMemoryTransport(self._limits, self.clock)
        self._stack.callback(set_limit, limit())
        self.runtime = open_bot(folder, transport=self.transport)
        self._stack.callback(self.runtime.close)
        self.runtime.clock = self.clock
        self._settle_limits()
        self._stack.enter_context(self.runtime.activated())
        self._load(folder)
        return self

    def __exit__(self, *error: object) -> None:
        """Unload everything."""
        self._stack.close()

    def _settle_limits(self) -> None:
        assert self.runtime.config is not None
        for key, value in self._config.get("lumia", {}).items():
            self.runtime.config.set_path(key, value)
        limits = self._limits or limits_of(self.runtime.config)
        self.transport.limits = self.runtime.limits = limits
        set_limit(self.runtime.config.core.box.max_bytes)

    def _load(self, folder: Path) -> None:
        folders = [Path(item) for item in self._what if isinstance(item, (str, Path))]
        loose = [item for item in self._what if not isinstance(item, (str, Path))]
        plugins = self._load_folders(folder, folders)
        handlers = [handler for item in loose for handler in self._handlers(item)]
        _refuse_twins(handlers)
        if handlers:
            plugins.plugins[self._name] = _loose_plugin(self._name, folder, tuple(handlers), self._permissions)
        for plugin, values in self._config.items():
            if plugin != "lumia":
                self._configure(plugin, values)
        self.table: RouteTable = self.transport.publish(self.runtime.install(plugins))
        self.runtime.use_routes(self.table)
        plugins.start()
        if plugins.failures:
            raise plugins.failures[0].as_error()

    def _load_folders(self, root: Path, folders: list[Path]) -> PluginSet:
        assert self.runtime.config is not None and self.runtime.services is not None
        if not folders:
            return PluginSet(self.runtime.services)
        home = root / "plugins"
        home.mkdir(exist_ok=True)
        names = set()
        for folder in folders:
            name = _plugin_name(folder)
            names.add(name)
            first_party = folder.resolve().parent in (base() / "handlers", base() / "adapters")
            if not first_party and folder.absolute().parent != home and not (home / name).exists():
                (home / name).symlink_to(folder.resolve(), target_is_directory=True)
        config = self.runtime.config
        loader = Loader(base(), root, config=config, services=self.runtime.services, core_version=__version__)
        plugins = loader.load(names, on_load=False)
        if absent := names - set(plugins.plugins) - {failure.name for failure in plugins.failures}:
            raise PluginLoadError(f"no plugin {', '.join(sorted(absent))} in {', '.join(map(str, folders))}")
        return plugins

    def _configure(self, plugin: str, values: Mapping[str, Any]) -> None:
        assert self.runtime.config is not None
        settings = self.runtime.config.settings(plugin)
        for key, value in values.items():
            setattr(settings, key, value)

    def _handlers(self, item: ModuleType | Callable[..., Any]) -> Iterator[Handler]:
        found = marks_in(item) if isinstance(item, ModuleType) else [(mark, item) for mark in marks_on(item)]
        if not found:
            raise RegistrationError(f"Bot() was given {item!r}, which has no mark such as @lumia.pipe.on('msg')")
        for mark, fn in found:
            verify(mark, fn, self._name)
            yield _handler(self._name, mark, fn)

    # --- what a test does

    def start(self, id: str, content: Any, **options: Any) -> RunResult:
        """Start pipeline `id`, execute everything that follows, and return the result."""
        return self._settled(pipe.start(id, _boxed(content), **options))

    def event(self, id: str, content: Any, **options: Any) -> RunResult:
        """Start event `id`, execute everything that follows, and return the result."""
        return self._settled(event.start(id, _boxed(content), **options))

    def send(self, text: str, *, sender: str = "ann", group: str | None = None, **fields: Any) -> RunResult:
        """Send a chat message as a user of the console would, and return the result."""
        from lumia.payloads import message

        chat = {"kind": "group", "id": group} if group else {"kind": "private", "id": sender}
        payload = message(platform="console", account="console", chat=chat, sender={"id": sender, "name": sender},
                          text=text, **fields)  # fmt: skip
        return self.start("msg", payload, key=f"console:console:{chat['kind']}-{chat['id']}")

    def settle(self, seconds: float = 0.0) -> None:
        """Execute what is ready and, with a `ManualClock`, what becomes due within `seconds`."""
        self.transport.drain(self.runtime)
        if not isinstance(self.clock, ManualClock):
            return
        end = self.clock.monotonic() + seconds
        while (due := self.transport.next_due()) is not None and due <= end - self.clock.monotonic():
            self.clock.move(due)
            self.transport.drain(self.runtime)
        self.clock.move(max(0.0, end - self.clock.monotonic()))

    def _settled(self, run_id: str) -> RunResult:
        self.transport.drain(self.runtime)
        found = result(run_id)
        assert found is not None
        return found

    @property
    def dead(self) -> list[DeadLetter]:
        """Return the dead letters, newest first."""
        return self.transport.dead()


def _plugin_name(folder: Path) -> str:
    """Return the name of the plugin in `folder`, which may be called otherwise, as a clone of its repository is."""
    try:
        return load_manifest(folder).name
    except ManifestError:
        return hyphenated(folder.name)


def _refuse_twins(handlers: list[Handler]) -> None:
    known: dict[str, Handler] = {}
    for handler in handlers:
        other = known.setdefault(handler.name, handler)
        if other.fn is not handler.fn:
            raise RegistrationError(
                f"two functions are named {handler.name}: at {other.source} and {handler.source}; rename one"
            )


def _boxed(content: Any) -> Box[Any]:
    return content if isinstance(content, Box) else Box.any(content)


def _handler(plugin: str, mark: Mark, fn: Callable[..., Any]) -> Handler:
    code = inspect.unwrap(fn).__code__
    source = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    return Handler(f"{plugin}.{fn.__name__}", fn, mark, plugin, "test", source)


def _loose_plugin(name: str, folder: Path, handlers: tuple[Handler, ...], permissions: tuple[str, ...]) -> Plugin:
    module = ModuleType(f"lumia_test_{name}")
    manifest = Manifest(name=name.replace("_", "-"), main="plugin.py", permissions=permissions)
    return Plugin(name, "0.0.0", "test", manifest, folder, module.__name__, module, handlers)


@contextmanager
def fake_redis() -> Iterator[str]:
    """Start an in-process Redis (fakeredis, with Lua) and yield its URL, for tests of code that needs one.

    Raises `LumiaError` naming the package to install when fakeredis is not there.
    """
    from lumia.fakes import serve

    with serve() as url:
        yield url
