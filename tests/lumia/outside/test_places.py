"""Where somebody else's URL may lead: the open Internet, and nowhere else unless the operator says so."""

from __future__ import annotations

import ipaddress
import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.errors import OutsideError, PayloadError, PlaceError
from lumia.outside import Places, check, is_public, resolve

ANY = Places()


def answers(*addresses: str) -> Any:
    """Return a resolver that knows only these addresses."""

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    return resolve


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "192.0.2.1", "198.18.0.1", "::", "::1", "fe80::1", "fc00::1", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::1",
        "fec0::1", "64:ff9b::808:808", "2001:0:808:808::1", "::127.0.0.1", "64:ff9b:1::7f00:1", "192.88.99.1",
        "3fff::1", "5f00::1",
    ],
)  # fmt: skip
def test_addresses_inside_are_refused(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111"])
def test_addresses_outside_are_fine(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4, network="10.0.0.0/8"))
def test_no_disguise_of_an_inner_address_is_public(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    disguises = [(0xFFFF << 32) | number, (0x2002 << 112) | (number << 80), (0x64FF9B << 96) | number]
    assert not any(is_public(ipaddress.IPv6Address(disguise)) for disguise in disguises)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:7f00:1]"])
def test_no_spelling_of_loopback_is_allowed(host: str) -> None:
    with pytest.raises((PlaceError, OutsideError)):
        resolve(f"http://{host}/", ANY)


def test_one_inner_address_among_public_ones_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("93.184.216.34", "10.0.0.1"))
    with pytest.raises(PayloadError, match=r"photo: hook\.example is at 10\.0\.0\.1, .*; add it to the list"):
        resolve("https://hook.example/", Places(what="photo", way_out="add it to the list"))


def test_the_connection_goes_to_the_judged_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("93.184.216.34", "93.184.216.34", "2606:4700::1111"))
    found = resolve("https://hook.example/x", ANY)
    assert found.addresses == ("93.184.216.34", "2606:4700::1111")
    assert str(found.url) == "https://hook.example/x"


@pytest.mark.parametrize("entry", ["hook.example", "HOOK.example", "hook.example:80", "10.0.0.1", "10.0.0.0/8"])
def test_the_operator_may_allow_an_inner_host(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("10.0.0.1"))
    assert resolve("http://hook.example/", Places(allowed=(entry,))).addresses == ("10.0.0.1",)
    for others in (("hook.example", "192.168.0.0/16", "rubbish/99"), ("other.example:81", ":80", "")):
        with pytest.raises(PlaceError):
            resolve("http://other.example/", Places(allowed=others))


@pytest.mark.parametrize(
    "url", ["ftp://x/", "//x/", "x", "", "http://", "http://u@x/", "file:///etc/passwd", "http://x:99999/"]
)
def test_only_plain_web_addresses_are_taken(url: str) -> None:
    with pytest.raises(PlaceError, match=r"^the URL: "):
        check(url, ANY)


@given(st.text(st.characters(), max_size=40) | st.text("htp:/[]@.%1x", max_size=40))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    try:
        found = check(text, ANY)
    except PlaceError:
        return
    assert found.scheme in ("http", "https")


@pytest.mark.parametrize("port", [22, 25, 444, 5432, 6379, 6667])
def test_ports_of_other_protocols_are_refused_unless_the_host_is_allowed(port: int) -> None:
    with pytest.raises(PlaceError, match=f"port {port} belongs to another protocol"):
        check(f"http://files.example:{port}/", ANY)
    assert check(f"http://files.example:{port}/", Places(allowed=("files.example",))).port == port


def test_an_inner_service_is_allowed_by_host_and_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("::1"))
    places = Places(allowed=("[::1]:8081", "127.0.0.1:8081"))
    assert resolve("http://[::1]:8081/", places).addresses == ("::1",)
    for url in ("http://[::1]:8082/", "http://127.0.0.1/", "http://127.0.0.1:80/"):
        with pytest.raises(PlaceError):
            check(url, places)


def test_one_scheme_may_be_all_there_is() -> None:
    assert check("https://a.example/x?y", Places(schemes=("https",))).host == "a.example"
    with pytest.raises(PlaceError, match="must be https://host/"):
        check("http://a.example/", Places(schemes=("https",)))


@pytest.mark.parametrize("url", ["http://x:pass-word-1/", "http://[secret/", "https://u:pass-word-1@a.example/"])
def test_no_error_quotes_the_url(url: str) -> None:
    with pytest.raises(PlaceError) as told:
        check(url, ANY)
    assert "pass-word-1" not in str(told.value) and "secret" not in str(told.value)


@given(st.ip_addresses(v=6) | st.ip_addresses(v=4))
def test_an_address_is_judged_alike_in_a_url_and_behind_a_name(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    literal = f"[{address}]" if address.version == 6 else str(address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", answers(str(address)))
        for url in (f"http://{literal}/", "http://name.example/"):
            try:
                assert resolve(url, ANY).addresses == (str(address),)
                assert is_public(address)
            except PlaceError:
                assert not is_public(address)


def test_a_name_server_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [ended.wait(10)][:0])
    with pytest.raises(OutsideError, match=r"no name server has answered within 0\.05 s"):
        resolve("http://slow.example/", ANY, 0.05)
    ended.set()
