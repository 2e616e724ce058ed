"""Where callbacks may go: the open Internet, and nowhere else unless the operator says so."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.webhook import target
from lumia.errors import PayloadError


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
        "fec0::1", "64:ff9b::808:808", "2001:0:808:808::1",
    ],
)  # fmt: skip
def test_addresses_inside_are_refused(address: str) -> None:
    assert not target.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111"])
def test_addresses_outside_are_fine(address: str) -> None:
    assert target.is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4, network="10.0.0.0/8"))
def test_no_disguise_of_an_inner_address_is_public(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    disguises = [(0xFFFF << 32) | number, (0x2002 << 112) | (number << 80), (0x64FF9B << 96) | number]
    assert not any(target.is_public(ipaddress.IPv6Address(disguise)) for disguise in disguises)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:7f00:1]"])
def test_no_spelling_of_loopback_is_allowed(host: str) -> None:
    with pytest.raises((PayloadError, OSError)):
        target.resolve(f"http://{host}/", ())


def test_one_inner_address_among_public_ones_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("93.184.216.34", "10.0.0.1"))
    with pytest.raises(PayloadError, match=r"hook\.example is at 10\.0\.0\.1.*callback_hosts"):
        target.resolve("https://hook.example/", ())


def test_the_connection_goes_to_the_judged_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("93.184.216.34", "93.184.216.34", "2606:4700::1111"))
    found = target.resolve("https://hook.example/x", ())
    assert found.addresses == ("93.184.216.34", "2606:4700::1111")
    assert str(found.url) == "https://hook.example/x"


@pytest.mark.parametrize("entry", ["hook.example", "HOOK.example", "10.0.0.1", "10.0.0.0/8"])
def test_the_operator_may_allow_an_inner_host(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("10.0.0.1"))
    assert target.resolve("http://hook.example/", (entry,)).addresses == ("10.0.0.1",)
    with pytest.raises(PayloadError):
        target.resolve("http://other.example/", ("hook.example", "192.168.0.0/16", "rubbish/99"))


@pytest.mark.parametrize(
    "url", ["ftp://x/", "//x/", "x", "", "http://", "http://u@x/", "file:///etc/passwd", "http://x:99999/"]
)
def test_only_plain_web_addresses_are_taken(url: str) -> None:
    with pytest.raises(PayloadError, match="callback_url"):
        target.check(url, ())


@given(st.text(st.characters(), max_size=40) | st.text("htp:/[]@.%1x", max_size=40))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    try:
        found = target.check(text, ())
    except PayloadError:
        return
    assert found.scheme in ("http", "https")
