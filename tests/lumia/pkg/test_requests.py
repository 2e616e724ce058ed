from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.errors import PkgError, SourceError, UnsafePackageError
from lumia.pkg.requests import check_registry_url, check_url, is_tag, look_alike, parse, public_url

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "text, name, tag",
    [
        ("dice", "dice", None),
        ("memory-graph@v1.2.3", "memory-graph", "v1.2.3"),
        ("memory_graph", "memory-graph", None),
        ("dice@" + SHA, "dice", SHA),
        ("dice@release/1.0", "dice", "release/1.0"),
    ],
)
def test_a_name_asks_the_registry(text: str, name: str, tag: str | None) -> None:
    asked = parse(text)
    assert (asked.origin, asked.name, asked.tag, asked.url) == ("registry", name, tag, None)


@pytest.mark.parametrize(
    "text, url, tag",
    [
        ("https://example.org/me/dice", "https://example.org/me/dice", None),
        ("https://example.org/me/dice.git@v1.0", "https://example.org/me/dice.git", "v1.0"),
        ("https://example.org/@me/dice", "https://example.org/@me/dice", None),
        ("https://example.org/@me/dice@v1.0", "https://example.org/@me/dice", "v1.0"),
        ("https://ann:s3cret@example.org/me/dice@v1.0", "https://ann:s3cret@example.org/me/dice", "v1.0"),
        ("ssh://git@example.org:2222/me/dice", "ssh://git@example.org:2222/me/dice", None),
        ("ssh://git@example.org/me/dice@v1.0", "ssh://git@example.org/me/dice", "v1.0"),
        ("git@example.org:me/dice.git", "git@example.org:me/dice.git", None),
        ("git@example.org:me/dice.git@v1.0", "git@example.org:me/dice.git", "v1.0"),
        ("example.org:me/dice", "example.org:me/dice", None),
        ("git://example.org/dice", "git://example.org/dice", None),
        ("file:///srv/git/dice@v1.0", "file:///srv/git/dice", "v1.0"),
        ("http://127.0.0.1:8080/dice.git", "http://127.0.0.1:8080/dice.git", None),
        ("https://[::1]:8443/dice", "https://[::1]:8443/dice", None),
        ("https://example.org/dice@" + SHA, "https://example.org/dice", SHA),
    ],
)
def test_a_url_is_taken_apart(text: str, url: str, tag: str | None) -> None:
    asked = parse(text)
    assert (asked.origin, asked.url, asked.tag, asked.name) == ("git", url, tag, None)


def test_a_folder_is_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dice").mkdir()
    (tmp_path / "a b@c").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for text in ("./dice", "~/dice", str(tmp_path / "dice"), "../" + tmp_path.name + "/dice"):
        asked = parse(text)
        assert (asked.origin, asked.tag) == ("folder", None)
        assert asked.url is not None and Path(asked.url).resolve() == tmp_path / "dice"
    assert parse("./dice@v1.0").tag == "v1.0"
    assert parse("./a b@c") == parse("./a b@c").__class__("folder", "./a b@c", url=str(tmp_path / "a b@c"))
    assert parse("./nowhere").url == str(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text",
    [
        "--upload-pack=touch /tmp/owned",
        "-oProxyCommand=id",
        "ext::sh -c 'touch /tmp/owned'",
        "ext::sh",
        "fd::7/foo",
        "http::https://example.org/x",
        "EXT::sh",
        "ssh://-oProxyCommand=id/dice",
        "ssh://-oProxyCommand=id@example.org/dice",
        "ssh://example.org/-dice",
        "-oProxyCommand=id:dice",
        "example.org:-dice",
        "git@-example.org:dice",
        "https://example.org/dice@--upload-pack=id",
        "dice@--upload-pack=id",
        "dice@v1..v2",
        "dice@HEAD^",
        "dice@v1~1",
        "dice@refs/../x",
        "dice@a@{1}",
        "dice@x.lock",
        "ftp://example.org/dice",
        "javascript://example.org/dice",
        "https://example.org/dice\nHost: evil",
        "https://example.org/dice\x1b[2J",
        "https://gіthub.com/me/dice",
        "https://example.org/d\u202eice",
        "https://example.org/di ce",
        "dice\u200b",
        "dice\x00",
        "d\u0456ce",
        "ԁice",
        "ｄｉｃｅ",
        "https://example.org/dïce",
        "https:///dice",
        "https://exa_mple!.org/dice",
    ],
)
def test_what_could_be_a_command_or_another_name_is_refused(text: str) -> None:
    with pytest.raises(UnsafePackageError):
        parse(text)


@pytest.mark.parametrize(
    "text, hint",
    [
        ("", "name a plugin"),
        ("Dice", "did you mean 'dice'"),
        ("me/dice", "./me/dice"),
        ("github.com/me/dice", "https://github.com/me/dice"),
        ("dice@", "nothing follows the '@'"),
        ("9lives", "no plugin name"),
        ("class", "no plugin name"),
        ("https://example.org/dice?x=1", "remove what follows"),
        ("https://example.org/dice#main", "remove what follows"),
        ("https://example.org:port/dice", "is no URL"),
        ("file://server/dice", "absolute path"),
    ],
)
def test_a_slip_is_answered_with_the_way_out(text: str, hint: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse(text)
    assert hint in str(refused.value)


def test_a_look_alike_letter_is_named() -> None:
    with pytest.raises(UnsafePackageError) as refused:
        parse("he\u0430rtflow")
    assert "U+0430 (CYRILLIC SMALL LETTER A)" in str(refused.value)
    assert "not the plugin 'heartflow'" in str(refused.value)


def test_names_that_are_easily_mistaken_are_told() -> None:
    known = frozenset({"heartflow", "memory-graph", "dice"})
    assert look_alike("heartf1ow", known) == "heartflow"
    assert look_alike("memorygraph", known) == "memory-graph"
    assert look_alike("d1ce", known) == "dice"
    assert look_alike("dice", known) is None
    assert look_alike("weather", known) is None


@pytest.mark.parametrize(
    "url, shown",
    [
        ("https://ann:s3cret@example.org/me/dice", "https://example.org/me/dice"),
        ("https://ghp_s3cret@example.org/me/dice", "https://example.org/me/dice"),
        ("ssh://git:s3cret@example.org/me/dice", "ssh://git@example.org/me/dice"),
        ("git@example.org:me/dice", "git@example.org:me/dice"),
        ("file:///srv/a@b", "file:///srv/a@b"),
    ],
)
def test_no_secret_of_a_url_is_shown(url: str, shown: str) -> None:
    assert public_url(url) == shown
    asked = parse(url + "@v1.0")
    assert "s3cret" not in asked.text


@pytest.mark.parametrize(
    "url", ["https://ann:s3c/ret@example.org/x", "https://ann:s3cret@exa mple/x", "https://u:s3cret@/x"]
)
def test_no_error_about_a_url_holds_its_secret(url: str) -> None:
    with pytest.raises(PkgError) as refused:
        parse(url)
    assert "s3c" not in str(refused.value)


def test_a_registry_may_not_name_files_of_this_machine_or_secrets() -> None:
    far, near = "https://registry.example.org", "http://127.0.0.1:8787"
    assert check_registry_url("https://example.org/dice", far) == "https://example.org/dice"
    assert check_registry_url("git@example.org:me/dice", far) == "git@example.org:me/dice"
    for url in ("file:///etc", "http://169.254.169.254/x", "git://example.org/x", "--upload-pack=id", "ext::sh"):
        with pytest.raises(PkgError):
            check_registry_url(url, far)
    assert check_registry_url("file:///srv/git/dice", near) == "file:///srv/git/dice"
    with pytest.raises(UnsafePackageError):
        check_registry_url("https://ann:s3cret@example.org/x", near)


@given(st.text(max_size=60))
def test_any_text_is_a_request_or_is_refused_with_a_reason(text: str) -> None:
    try:
        asked = parse(text)
    except PkgError:
        return
    assert not (asked.url or asked.name or "-").startswith("-")
    if asked.origin == "git":
        assert check_url(asked.url or "") == asked.url


@given(st.text(alphabet="ab-./@{~^:*[\\ \x7f", max_size=12))
def test_a_tag_is_a_name_that_git_takes_for_nothing_else(text: str) -> None:
    if is_tag(text):
        assert not text.startswith("-")
        assert not set(text) & set(" ~^:?*[\\\x7f")
        assert ".." not in text
