"""`pkg -Ss`, `-Si` and `-Sc`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lumia.cli.pkg.conftest import Pkg
from tests.support.registry import FakeRegistry


def hit(registry: FakeRegistry, **changed: Any) -> None:
    registry.answers["/search"].body[0].update(changed)


def test_hits_are_shown_with_what_is_installed(pkg: Pkg, registry: FakeRegistry) -> None:
    assert pkg("-Ss", "maps").lines == ["geo  v0.4.0  ★3", "    Maps and places", "weather  v1.0.0  ★3"]
    pkg("-S", "geo@v0.3.0", "-y")
    assert "geo  v0.4.0  ★3  [installed: 0.3.0]" in pkg("-Ss", "maps", "places").lines
    assert registry.asked[-1][1] == "/search?q=maps+places&page=1"
    assert [one["name"] for one in pkg("-Ss", "maps", "--json").json] == ["geo", "weather"]


def test_text_of_strangers_does_nothing_to_the_terminal(pkg: Pkg, registry: FakeRegistry) -> None:
    hit(registry, description="\x1b[2J\x1b]0;owned\x07nice\u202e\nplugin", author="\x1b[31mred")
    done = pkg("-Ss", "x")
    assert done.lines[:2] == ["geo  v0.4.0  ★3  by red", "    nice plugin"]
    registry.answers["/pkg/geo"].body["manifest"]["license"] = "\x1b[8mhidden"
    assert "license      hidden" in pkg("-Si", "geo").lines


def test_without_a_word_all_is_listed_and_further_pages_are_pointed_at(pkg: Pkg, registry: FakeRegistry) -> None:
    registry.answers["/search"].headers["X-Total-Count"] = "120"
    done = pkg("-Ss")
    assert (done.code, done.lines[0], registry.asked[-1][1]) == (0, "geo  v0.4.0  ★3", "/search?q=&page=1")
    assert "120 were found; the next ones: --page 2" in done.err
    assert "120 were found; the next ones: --page 3" in pkg("-Ss", "x", "--page", "2").err


def test_a_plugin_is_shown_with_its_versions_and_readme(pkg: Pkg, registry: FakeRegistry) -> None:
    registry.answers["/pkg/weather"].body["manifest"]["display_name"] = "The Weather"
    lines = pkg("-Si", "weather", "--readme").lines
    for line in (
        "name          weather",
        "display name  The Weather",
        "dependencies  geo >=0.4",
        "signed by     nobody",
    ):
        assert line in lines, line
    assert "  v1.0.0       2026-11-22  What v1.0.0 brings" in lines
    assert lines[-1] == "# weather"
    assert pkg("-Si", "weather", "--json").json["installed"] is None


def test_a_slip_in_a_name_is_answered_with_the_name(pkg: Pkg, registry: FakeRegistry) -> None:
    for command in (("-Si", "wether"), ("-S", "wether", "-y")):
        done = pkg(*command)
        assert (done.code, "knows no plugin 'wether'; did you mean 'weather'?" in done.err) == (1, True), done.err


def test_a_registry_that_answers_nonsense_is_told_plainly(pkg: Pkg, registry: FakeRegistry) -> None:
    registry.answers["/pkg/geo"].body["versions"][0]["commit"] = "abc"
    told = pkg("-Si", "geo").err
    assert f"{registry.url} answers /pkg/geo with something else than it must" in told
    assert "versions.0.commit is not written as it must be; see that LUMIA_REGISTRY_URL or [pkg] registry" in told
    assert "pattern" not in told and "pydantic" not in told


def test_info_is_asked_by_name(pkg: Pkg, registry: FakeRegistry) -> None:
    assert "'geo@v0.3.0' is no plugin's name; `pkg -Si geo` shows all versions" in pkg("-Si", "geo@v0.3.0").err
    assert "'./geo' is no plugin's name" in pkg("-Si", "./geo").err


def test_no_bot_root_is_needed_where_a_registry_is_named(registry: FakeRegistry) -> None:
    outside = Pkg(Path("/"), {"LUMIA_REGISTRY_URL": registry.url})
    assert outside("-Ss", "maps").code == 0
    assert (Pkg(Path("/"))("-Ss", "maps").code, "bot root" in Pkg(Path("/"))("-Ss", "maps").err) == (1, True)


def test_without_a_registry_the_other_ways_are_told(pkg: Pkg) -> None:
    done = pkg("-Ss", "maps")
    assert (done.code, "LUMIA_REGISTRY_URL" in done.err, "pkg -S https://" in done.err) == (1, True, True)


def test_the_cache_is_emptied_and_what_is_installed_stays(pkg: Pkg, registry: FakeRegistry) -> None:
    pkg("-S", "geo", "-y")
    cache = pkg.root / "data" / "pkg" / "cache"
    assert list(cache.glob("*.git"))
    assert pkg("-Sc", "--json").json["freed_bytes"] > 1000
    assert not list(cache.glob("*.git")) and not list((pkg.root / "data" / "pkg" / "registry").glob("*.json"))
    assert pkg("verify").code == 0
