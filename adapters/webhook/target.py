"""Where a callback may go: public addresses, and what its source's allow-list adds (DESIGN §9).

A name is resolved once, all its addresses are judged, and the connection is made to a judged address: a name that
answers differently the second time (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

import lumia

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
# Mapped, NAT64, Teredo and 6to4 addresses lead to an IPv4 address of somebody else's choice.
_EMBEDDING = tuple(map(ipaddress.ip_network, ("::ffff:0:0/96", "64:ff9b::/32", "2001::/32", "2002::/16")))


@dataclass(frozen=True)
class Target:
    """A judged place to post to. addresses: what `url`'s host resolved to."""

    url: httpx.URL
    addresses: tuple[str, ...]


def check(url: str, allowed: Sequence[str]) -> httpx.URL:
    """Return a callback address that may be right; raises `lumia.errors.PayloadError`. Resolves nothing."""
    try:
        parsed = httpx.URL(url)
        host = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise lumia.errors.PayloadError(f"callback_url: no URL: {error}") from None
    literal = _address(host)
    named = literal is not None or _NAME.fullmatch(host) is not None
    if parsed.scheme not in ("http", "https") or not named or parsed.userinfo or not 0 < _port(parsed) < 65536:
        raise lumia.errors.PayloadError("callback_url: must be http(s)://host/… without user and password")
    if literal is not None and not _fine(literal, host, allowed):
        raise lumia.errors.PayloadError(_refusal(host, host))
    return parsed


def resolve(url: str, allowed: Sequence[str]) -> Target:
    """Return where to connect; raises `lumia.errors.PayloadError` when it may not go there, `OSError` without DNS."""
    parsed = check(url, allowed)
    host = parsed.raw_host.decode("ascii")
    found = socket.getaddrinfo(host, _port(parsed), type=socket.SOCK_STREAM)
    addresses = tuple(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    for address in addresses:
        if not _fine(ipaddress.ip_address(address), host, allowed):
            raise lumia.errors.PayloadError(_refusal(host, address))
    return Target(parsed, addresses)


def _port(url: httpx.URL) -> int:
    return url.port if url.port is not None else {"https": 443}.get(url.scheme, 80)


def _refusal(host: str, address: str) -> str:
    return (
        f"callback_url: {host} is at {address}, which is no public address; add it to callback_hosts of the source in "
        "config/webhook.toml to allow it"
    )


def _fine(address: Address, host: str, allowed: Sequence[str]) -> bool:
    return any(_allows(entry.lower(), address, host.lower()) for entry in allowed) or is_public(address)


def _allows(entry: str, address: Address, host: str) -> bool:
    if entry.strip("[]") == host.strip("[]"):
        return True
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return address in network


def is_public(address: Address) -> bool:
    """Tell whether an address is one of the open Internet; an IPv6 address that embeds an IPv4 address never is."""
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    return not address.is_site_local and not any(address in network for network in _EMBEDDING)


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
