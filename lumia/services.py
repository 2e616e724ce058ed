"""Services: typed objects that plugins offer each other by name (DESIGN §3).

A plugin names what it offers in its manifest's `provides` and hands the object over in `on_load`; others get it by name
and so need not import the plugin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from lumia.errors import ServiceError

T = TypeVar("T")


@dataclass(frozen=True)
class _Offer:
    """What one plugin's manifest says. absence: why the plugin isn't running here, empty when it is."""

    provides: frozenset[str]
    unique: frozenset[str]
    absence: str = ""


@dataclass(frozen=True)
class _Provided:
    generation: str
    obj: object


@dataclass(frozen=True)
class _Provider:
    """The plugin whose on_load is running, and the services it hands its objects to."""

    services: Services
    plugin: str
    generation: str


_provider: ContextVar[_Provider | None] = ContextVar("lumia_provider", default=None)


@dataclass
class Services:
    """The services of one bot in one process."""

    _offers: dict[str, _Offer] = field(default_factory=dict)
    _objects: dict[str, dict[str, list[_Provided]]] = field(default_factory=dict)
    _held: frozenset[tuple[str, str]] = frozenset()
    _leaving: frozenset[str] = frozenset()
    _gone: frozenset[str] = frozenset()

    def announce(self, plugin: str, provides: Collection[str], unique: Collection[str] = (), absence: str = "") -> None:
        """Note what a plugin's manifest offers, and why the plugin isn't running if it isn't."""
        self._offers[plugin] = _Offer(frozenset(provides), frozenset(unique), absence)

    def hold(self, fresh: Collection[tuple[str, str]], leaving: Collection[str] = ()) -> None:
        """Let only each other see what these (plugin, generation) provide, until `release`: they are being prepared.

        leaving: plugins that won't be there any more when they are at work.
        """
        self._held, self._leaving = frozenset(fresh), frozenset(leaving)

    def release(self, *, kept: bool = True) -> None:
        """End the holding. kept: they are at work from now on, and what leaves is asked last."""
        if kept:
            self._gone = (self._gone | self._leaving) - {plugin for plugin, _ in self._held}
        self._held, self._leaving = frozenset(), frozenset()

    @contextmanager
    def providing(self, plugin: str, generation: str = "") -> Iterator[None]:
        """Let `plugin` provide its services within the block (the loader's frame around `on_load`)."""
        token = _provider.set(_Provider(self, plugin, generation))
        try:
            yield
        finally:
            _provider.reset(token)

    def provide(self, name: str, obj: object) -> None:
        """Offer `obj` as `name` for the plugin whose `on_load` is running; a newer generation replaces the older's.

        Raises `ServiceError` outside of `on_load`, for a name the manifest doesn't list, and for a second provider.
        """
        provider = _provider.get()
        if provider is None or provider.services is not self:
            raise ServiceError(
                f"service {name!r} is provided outside of on_load(); call lumia.services.provide() there"
            )
        if obj is None:
            raise ServiceError(f"{provider.plugin} provides None as service {name!r}; provide an object")
        self._check_offer(name, provider)
        of_plugin = self._objects.setdefault(name, {}).setdefault(provider.plugin, [])
        of_plugin.append(_Provided(provider.generation, obj))

    def _check_offer(self, name: str, provider: _Provider) -> None:
        plugin = provider.plugin
        offer = self._offers.get(plugin, _Offer(frozenset(), frozenset()))
        if name not in offer.provides:
            raise ServiceError(
                f'{plugin} provides service {name!r}, which its manifest doesn\'t list; add {name!r} to its "provides"'
            )
        present = self._objects.get(name, {})
        if any(provided.generation == provider.generation for provided in present.get(plugin, ())):
            raise ServiceError(f"{plugin} provides service {name!r} twice; provide it once in on_load()")
        others = set(present) - {plugin} - self._gone
        if (plugin, provider.generation) in self._held:
            others -= self._leaving
        alone = [other for other in present if other in others and name in self._offers[other].unique | offer.unique]
        if alone:
            raise ServiceError(
                f"{plugin} provides service {name!r}, which {alone[0]} already provides and which is unique; "
                f"disable one of the two in config/lumia.toml: [plugins] disabled = [{plugin!r}]"
            )

    @overload
    def get(self, name: str) -> Any: ...

    @overload
    def get(self, name: str, type: type[T]) -> T: ...

    def get(self, name: str, type: type[Any] | None = None) -> Any:
        """Return the service `name`, the first in load order when several plugins provide it.

        type: a class or runtime-checkable protocol it must be an instance of. Raises `ServiceError` naming the plugins
        that could provide an absent service.
        """
        present = self._seen(name)
        if not present:
            raise ServiceError(f"no service {name!r}: {self._why_absent(name)}")
        plugin, found = next(iter(present.items()))
        if type is not None and not isinstance(found, type):
            actual = found.__class__.__qualname__
            raise ServiceError(f"service {name!r} of {plugin} is a {actual}, not a {type.__qualname__} as asked for")
        return found

    def all(self, name: str) -> dict[str, Any]:
        """Return every provider's object of the service `name` by plugin, in load order."""
        return self._seen(name)

    def _seen(self, name: str) -> dict[str, Any]:
        """Return the newest object of each plugin that the caller may see; those that leave come last."""
        provider = _provider.get()
        asks = (provider.plugin, provider.generation) if provider is not None and provider.services is self else None
        hidden: frozenset[tuple[str, str]] = frozenset() if asks in self._held else self._held
        last = self._leaving if asks in self._held else self._gone
        found: dict[str, Any] = {}
        for plugin, provided in sorted(self._objects.get(name, {}).items(), key=lambda item: item[0] in last):
            shown = [one.obj for one in provided if (plugin, one.generation) not in hidden]
            if shown:
                found[plugin] = shown[-1]
        return found

    def names(self) -> list[str]:
        """Return the names of the services that are there."""
        return sorted(name for name in self._objects if self._seen(name))

    def withdraw(self, plugin: str, generation: str = "") -> None:
        """Remove what this generation of `plugin` provided; another generation's objects stay."""
        for name, present in list(self._objects.items()):
            left = [provided for provided in present.get(plugin, ()) if provided.generation != generation]
            if left:
                present[plugin] = left
            elif present.pop(plugin, None) is not None and not present:
                del self._objects[name]

    def _why_absent(self, name: str) -> str:
        offers = {plugin: offer for plugin, offer in self._offers.items() if name in offer.provides}
        if not offers:
            known = ", ".join(self.names()) or "none"
            return f"no installed plugin provides it (there are: {known}); install one that does"
        return "; ".join(
            f"{plugin} provides it, but {offer.absence or 'its on_load() has not provided it (yet)'}"
            for plugin, offer in offers.items()
        )


def _active(call: str) -> Services:
    provider = _provider.get()
    if provider is not None:
        return provider.services
    from lumia import runtime

    services = runtime.current().services
    if services is None:
        raise ServiceError(f"{call}: the active bot was opened without plugins, so it has no services")
    return services


def provide(name: str, obj: object) -> None:
    """Offer `obj` as the service `name`; called in a plugin's `on_load`. See `Services.provide`."""
    _active(f"lumia.services.provide({name!r})").provide(name, obj)


@overload
def get(name: str) -> Any: ...


@overload
def get(name: str, type: type[T]) -> T: ...


def get(name: str, type: type[Any] | None = None) -> Any:
    """Return the service `name` of the active bot. See `Services.get`."""
    services = _active(f"lumia.services.get({name!r})")
    return services.get(name) if type is None else services.get(name, type)


def all(name: str) -> dict[str, Any]:
    """Return every plugin's object of the service `name`. See `Services.all`."""
    return _active(f"lumia.services.all({name!r})").all(name)
