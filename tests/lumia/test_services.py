"""Services: objects that plugins offer each other by name (DESIGN §3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest

from lumia import services as public
from lumia.errors import NotRunningError, ServiceError
from lumia.inmemory import InMemoryTransport
from lumia.runtime import Runtime
from lumia.services import Services


class Memory:
    def recall(self) -> str:
        return "blue"


@runtime_checkable
class Recalls(Protocol):
    def recall(self) -> str: ...


def offered(**provides: tuple[str, ...]) -> Services:
    """Services where each plugin's manifest provides these names."""
    services = Services()
    for plugin, names in provides.items():
        services.announce(plugin, names)
    return services


def give(services: Services, plugin: str, name: str, obj: object, generation: str = "1") -> None:
    with services.providing(plugin, generation):
        services.provide(name, obj)


def test_a_provided_service_is_got_by_name() -> None:
    services, memory = offered(graph=("memory",)), Memory()
    give(services, "graph", "memory", memory)
    assert services.get("memory") is memory
    assert services.get("memory", Memory).recall() == "blue"
    assert services.get("memory", Recalls).recall() == "blue"  # type: ignore[type-abstract]
    assert services.names() == ["memory"]


def test_a_service_of_another_type_than_asked_for_names_both() -> None:
    services = offered(graph=("memory",))
    give(services, "graph", "memory", "a text")
    with pytest.raises(ServiceError, match="'memory' of graph is a str, not a Memory"):
        services.get("memory", Memory)


def test_a_service_nobody_provides_lists_those_there_are() -> None:
    services = offered(graph=("memory",))
    with pytest.raises(ServiceError, match=r"no service 'mcp': no installed plugin provides it \(there are: none\)"):
        services.get("mcp")
    give(services, "graph", "memory", Memory())
    with pytest.raises(ServiceError, match=r"there are: memory"):
        services.get("mcp")


def test_an_absent_service_names_its_providers_and_why_they_failed() -> None:
    services = Services()
    services.announce("graph", ["memory"], absence="it failed to load: no table 'topic'")
    services.announce("notes", ["memory"])
    with pytest.raises(ServiceError) as caught:
        services.get("memory")
    assert "graph provides it, but it failed to load: no table 'topic'" in str(caught.value)
    assert "notes provides it, but its on_load() has not provided it (yet)" in str(caught.value)


def test_providing_happens_in_on_load_only() -> None:
    services = offered(graph=("memory",))
    with pytest.raises(ServiceError, match="outside of on_load"):
        services.provide("memory", Memory())
    with services.providing("graph"), pytest.raises(ServiceError, match="outside of on_load"):
        offered(graph=("memory",)).provide("memory", Memory())


def test_only_what_the_manifest_lists_can_be_provided() -> None:
    services = offered(graph=("memory",))
    with pytest.raises(ServiceError, match="graph provides service 'memori', which its manifest doesn't list"):
        give(services, "graph", "memori", Memory())
    with pytest.raises(ServiceError, match="stranger provides service 'memory'"):
        give(services, "stranger", "memory", Memory())


def test_nothing_is_no_service() -> None:
    with pytest.raises(ServiceError, match="provides None as service 'memory'"):
        give(offered(graph=("memory",)), "graph", "memory", None)


def test_providing_twice_is_an_error() -> None:
    services = offered(graph=("memory",))
    give(services, "graph", "memory", Memory())
    with pytest.raises(ServiceError, match="graph provides service 'memory' twice"):
        give(services, "graph", "memory", Memory())


def test_several_plugins_may_provide_a_service_that_is_not_unique() -> None:
    services = offered(graph=("memory",), notes=("memory",))
    first, second = Memory(), Memory()
    give(services, "notes", "memory", first)
    give(services, "graph", "memory", second)
    assert services.get("memory") is first
    assert services.all("memory") == {"notes": first, "graph": second}
    assert services.all("absent") == {}


@pytest.mark.parametrize("claimant", ["graph", "notes"])
def test_a_unique_service_has_one_provider(claimant: str) -> None:
    services = offered(graph=("memory",), notes=("memory",))
    services.announce(claimant, ["memory"], ["memory"])
    give(services, "graph", "memory", Memory())
    with pytest.raises(
        ServiceError, match=r"notes provides service 'memory', which graph already .* disabled"
    ) as caught:
        give(services, "notes", "memory", Memory())
    assert "disabled = ['notes']" in str(caught.value)


def test_a_newer_generation_takes_over_and_the_older_withdraws_only_its_own() -> None:
    services = offered(graph=("memory",))
    services.announce("graph", ["memory"], ["memory"])
    older, newer = Memory(), Memory()
    give(services, "graph", "memory", older, "1")
    give(services, "graph", "memory", newer, "2")
    services.withdraw("graph", "1")
    assert services.get("memory") is newer
    services.withdraw("graph", "2")
    with pytest.raises(ServiceError, match="graph provides it, but"):
        services.get("memory")
    assert services.names() == []


def test_the_public_functions_reach_the_services_of_the_plugin_being_loaded() -> None:
    services, memory = offered(graph=("memory",)), Memory()
    with services.providing("graph"):
        public.provide("memory", memory)
        assert public.get("memory") is memory
        assert public.get("memory", Memory) is memory
        assert public.all("memory") == {"graph": memory}


def test_without_a_bot_the_public_functions_say_so() -> None:
    calls: list[Any] = [lambda: public.get("memory"), lambda: public.provide("memory", 1), lambda: public.all("memory")]
    for call in calls:
        with pytest.raises(NotRunningError):
            call()


def test_with_a_bot_the_public_functions_reach_its_services(tmp_path: Path) -> None:
    services, memory = offered(graph=("memory",)), Memory()
    give(services, "graph", "memory", memory)
    bot = Runtime(tmp_path, tmp_path, InMemoryTransport(), b"secret", services=services)
    with bot.activated():
        assert public.get("memory") is memory
        with pytest.raises(ServiceError, match="outside of on_load"):
            public.provide("memory", Memory())
    bare = Runtime(tmp_path, tmp_path, bot.transport, b"secret")
    with bare.activated(), pytest.raises(ServiceError, match=r"get\('memory'\): the active bot was opened without"):
        public.get("memory")
    bot.close()
