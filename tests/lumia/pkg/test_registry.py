"""The registry's client, against servers that tell the truth, lie, or are away."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lumia.config import ConfigStore
from lumia.errors import RegistryError
from lumia.pkg.registry import Registry, checked_url, configured, is_open
from lumia.pkg.registry_wire import Reply, Wire
from tests.support.registry import DATE, Answer, FakeRegistry, fake_registry

VERSION = {
    "tag": "v1.0.0",
    "date": DATE,
    "changelog": "First",
    "commit": "a" * 40,
    "digest": "sha256:" + "b" * 64,
    "signature": None,
    "yanked": None,
}
INFO: dict[str, Any] = {
    "name": "weather",
    "git_url": "https://example.org/weather.git",
    "latest_tag": "v1.0.0",
    "manifest": {"name": "weather"},
    "readme_md": "# Weather",
    "stars": 3,
    "versions": [VERSION],
}
HIT = {
    "name": "weather",
    "display_name": "Weather",
    "description": "Tells it",
    "author": "me",
    "git_url": "https://example.org/weather.git",
    "latest_tag": "v1.0.0",
    "stars": 3,
}


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        running.answers["/pkg/weather"] = Answer(INFO, headers={"ETag": '"one"'})
        yield running


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def registry(server: FakeRegistry, tmp_path: Path, warnings: list[str]) -> Registry:
    return Registry(server.url, tmp_path / "cache", warn=warnings.append)


def test_a_plugin_is_read_with_its_versions(registry: Registry) -> None:
    found = registry.info("weather")
    assert (found.git_url, found.stars, [one.tag for one in found.versions]) == (INFO["git_url"], 3, ["v1.0.0"])
    assert found.release("1.0.0") is found.release("v1.0.0") is found.versions[0]
    assert found.release("v9") is None


def test_keys_of_a_newer_registry_are_left_out(registry: Registry, server: FakeRegistry) -> None:
    server.answers["/pkg/weather"] = Answer(INFO | {"downloads": 5})
    assert registry.info("weather").name == "weather"


def test_a_search_gives_one_page_and_the_number_of_all(registry: Registry, server: FakeRegistry) -> None:
    server.answers["/search"] = Answer([HIT], headers={"X-Total-Count": "120"})
    hits, total = registry.search("rain & sun", 3)
    assert ([hit.name for hit in hits], total) == (["weather"], 120)
    assert server.asked[-1][1] == "/search?q=rain+%26+sun&page=3"


def test_what_did_not_change_is_not_sent_again(registry: Registry, server: FakeRegistry) -> None:
    first = registry.info("weather")
    assert registry.info("weather") == first
    assert server.asked[-1][2]["if-none-match"] == '"one"'


def test_an_unknown_plugin_is_named_with_a_way_out(registry: Registry) -> None:
    with pytest.raises(RegistryError, match=r"knows no plugin 'wether'; look for it with `pkg -Ss`"):
        registry.info("wether")


def test_what_was_called_back_is_read(registry: Registry, server: FakeRegistry) -> None:
    version = {"name": "weather", "tag": "v1.0.0", "reason": "stole keys", "date": DATE}
    server.answers["/revoked"] = Answer({"keys": [], "versions": [version]})
    assert registry.revoked().versions[0].reason == "stole keys"


# --- away


def test_a_registry_that_went_away_is_stood_in_for_by_its_last_answer(tmp_path: Path, warnings: list[str]) -> None:
    with fake_registry() as server:
        server.answers["/pkg/weather"] = Answer(INFO)
        Registry(server.url, tmp_path).info("weather")
    registry = Registry(server.url, tmp_path, warn=warnings.append)
    assert registry.info("weather").name == "weather"
    assert "can't be reached" in warnings[0] and "what it said before" in warnings[0]
    with pytest.raises(RegistryError, match="can't be reached"):
        registry.info("other")


def test_a_registry_that_is_away_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a connection that is never answered, each plugin would cost seconds."""
    asked: list[str] = []

    def ask(wire: Wire, method: str, path: str, headers: object, body: bytes | None = None) -> Reply:
        asked.append(path)
        raise RegistryError("away") from TimeoutError()

    monkeypatch.setattr(Wire, "_ask", ask)
    registry = Registry("http://127.0.0.1:9", tmp_path)
    for name in ("weather", "geo"):
        with pytest.raises(RegistryError, match="away"):
            registry.info(name)
    assert asked == ["/pkg/weather"]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_registry_that_is_unwell_is_stood_in_for(
    registry: Registry, server: FakeRegistry, warnings: list[str], status: int
) -> None:
    registry.info("weather")
    server.answers["/pkg/weather"] = Answer({}, status, {"Retry-After": "7"})
    assert registry.info("weather").name == "weather"
    assert len(warnings) == 1


def test_asking_too_often_says_when_to_come_back(registry: Registry, server: FakeRegistry) -> None:
    server.answers["/search"] = Answer({}, 429, {"Retry-After": "7"})
    with pytest.raises(RegistryError, match="too often; try again after 7 s"):
        registry.search("x")


@pytest.mark.parametrize(
    "given, when",
    [
        ("Sun, 22 Nov 2026 12:01:02 GMT", "after 62 s"),
        ("Sun, 22 Nov 99999999999999999999 12:01:02 GMT", "later"),
        ("soon", "later"),
        ("", "later"),
    ],
)
def test_retry_after_may_be_a_date(
    registry: Registry, server: FakeRegistry, monkeypatch: pytest.MonkeyPatch, given: str, when: str
) -> None:
    monkeypatch.setattr("lumia.pkg.registry.system.now", lambda: datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp())
    server.answers["/search"] = Answer({}, 429, {"Retry-After": given})
    with pytest.raises(RegistryError, match=f"too often; try again {when}$"):
        registry.search("x")


def test_a_damaged_cache_costs_only_a_request(registry: Registry, tmp_path: Path) -> None:
    registry.info("weather")
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"\xff{")
    assert registry.info("weather").name == "weather"


# --- lies


def lies() -> Iterator[tuple[str, Any, str]]:
    yield "another plugin", INFO | {"name": "wheather"}, "asked for 'weather' and answers with 'wheather'"
    yield "another manifest", INFO | {"manifest": {"name": "evil"}}, "names another plugin"
    yield "options in the URL", INFO | {"git_url": "https://--upload-pack=x/y"}, "begins with '-'"
    yield "a command as URL", INFO | {"git_url": "ext::sh -c id"}, "git_url"
    yield "a control character", INFO | {"git_url": "https://e.org/\x1b[2J"}, "invisible"
    yield "a wrong type", INFO | {"stars": "many"}, "stars"
    yield "less than nothing", INFO | {"stars": -1}, "stars"
    yield "an option as tag", INFO | {"latest_tag": "--upload-pack"}, "latest_tag"
    yield "a latest tag nobody lists", INFO | {"latest_tag": "v9.0.0"}, "none of the versions"
    yield "no versions", INFO | {"versions": []}, "versions"
    yield "no list", INFO | {"versions": {}}, "versions"
    yield "a short commit", INFO | {"versions": [VERSION | {"commit": "abc"}]}, "versions.0.commit"
    yield "another digest", INFO | {"versions": [VERSION | {"digest": "md5:1"}]}, "versions.0.digest"
    yield "a missing key", {key: INFO[key] for key in INFO if key != "git_url"}, "git_url"
    yield "no object", [INFO], ""
    yield "no JSON", b"<html>\x1b[31m", "JSON"
    yield "no text", b"\xff\xfe", ""
    yield "a deep nest", b"[" * 200_000, ""


@pytest.mark.parametrize("answer, said", [pytest.param(body, said, id=name) for name, body, said in lies()])
def test_a_registry_that_lies_is_refused_with_the_reason(
    registry: Registry, server: FakeRegistry, answer: Any, said: str
) -> None:
    server.answers["/pkg/weather"] = Answer(answer)
    with pytest.raises(RegistryError, match="something else than it must") as caught:
        registry.info("weather")
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_lie_is_not_kept(registry: Registry, server: FakeRegistry) -> None:
    server.answers["/pkg/weather"] = Answer(INFO | {"name": "evil"}, headers={"ETag": '"bad"'})
    with pytest.raises(RegistryError):
        registry.info("weather")
    server.answers["/pkg/weather"] = Answer({}, 503)
    with pytest.raises(RegistryError, match="503"):
        registry.info("weather")


def test_a_huge_answer_is_cut_off(server: FakeRegistry) -> None:
    bomb = gzip.compress(b" " * 5_000_000)
    server.answers["/big"] = Answer(bomb, headers={"Content-Encoding": "gzip"})
    with pytest.raises(RegistryError, match="more than 1000000 bytes"):
        Wire(server.url, max_bytes=1_000_000).get("/big")


def test_a_redirect_is_told_and_not_followed(registry: Registry, server: FakeRegistry) -> None:
    server.answers["/search"] = Answer(b"", 301, {"Location": "https://elsewhere.example/search"})
    with pytest.raises(RegistryError, match=r"elsewhere \(https://elsewhere"):
        registry.search("x")


# --- handing in


def test_a_submission_carries_the_token_and_brings_the_checks(registry: Registry, server: FakeRegistry) -> None:
    checks = [{"name": "schema", "ok": False, "text": "no licence"}]
    server.answers["/pkg"] = Answer({"pull_request": None, "checks": checks}, 422)
    answer = registry.submit({"tag": "v1.0.0"}, "s3cret")
    assert (answer.pull_request, answer.checks[0].text) == (None, "no licence")
    method, _, headers, body = server.asked[-1]
    assert (method, headers["authorization"], json.loads(body)) == ("POST", "Bearer s3cret", {"tag": "v1.0.0"})


def test_a_refused_token_is_told_without_it(registry: Registry, server: FakeRegistry) -> None:
    server.answers["/pkg"] = Answer({"title": "no", "status": 401, "detail": "unknown author"}, 401)
    said = r"refuses the token in LUMIA_REGISTRY_TOKEN \(401\): unknown author"
    with pytest.raises(RegistryError, match=said) as caught:
        registry.submit({}, "s3cret")
    assert "s3cret" not in str(caught.value)


# --- where it is


@pytest.mark.parametrize("url", ["http://registry.example.org", "HTTP://10.0.0.1:8787", "http://localhost.example.org"])
def test_no_token_is_sent_over_an_open_connection_and_reading_over_one_is_warned_of(
    url: str, tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def ask(wire: Wire, method: str, path: str, headers: object, body: bytes | None = None) -> Reply:
        sent.append(method)
        return Reply(200, {}, b'{"keys": [], "versions": []}')

    monkeypatch.setattr(Wire, "_ask", ask)
    registry = Registry(url, tmp_path / "cache", warn=warnings.append)
    with pytest.raises(RegistryError, match="is not encrypted") as refused:
        registry.submit({"tag": "v1.0.0"}, "s3cret")
    assert (sent, warnings, "s3cret" in str(refused.value)) == ([], [], False)
    registry.revoked()
    registry.revoked()
    assert sent == ["GET", "GET"]
    [told] = warnings
    assert "is not encrypted" in told


@pytest.mark.parametrize("url", ["https://x", "http://localhost:1", "http://127.0.0.1:8787", "http://[::1]:8787"])
def test_an_encrypted_connection_and_one_within_this_machine_are_not_open(url: str) -> None:
    assert not is_open(url)


@pytest.mark.parametrize("url", ["ftp://x", "http://", "https://x/?q", "x", "https://a b", "http://[", "https://x/#a"])
def test_only_an_http_address_is_a_registry(url: str) -> None:
    with pytest.raises(RegistryError):
        checked_url(url)


def test_without_an_address_the_ways_to_install_are_told() -> None:
    with pytest.raises(RegistryError, match=r"no registry is configured.*pkg -S https"):
        checked_url("")


def test_the_variable_beats_the_setting(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "lumia.toml").write_text('[pkg]\nregistry = "https://from.file"\n')
    config = ConfigStore(tmp_path, environ={})
    assert configured(config, {}) == "https://from.file"
    assert configured(config, {"LUMIA_REGISTRY_URL": "https://from.env"}) == "https://from.env"
