"""Which places somebody else's URL may lead to: the open Internet, and what the operator allows beside it."""

from __future__ import annotations

import ipaddress
import queue
import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from lumia.errors import OutsideError, PlaceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
LOOK_UP_SECONDS = 10.0
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
# Mapped, NAT64, Teredo and 6to4 addresses lead to an IPv4 address of somebody else's choice; the rest is set apart by
# registries that older Pythons don't know: 6to4 relays, documentation, segment routing.
_SET_APART = tuple(
    map(
        ipaddress.ip_network,
        ("::ffff:0:0/96", "64:ff9b::/32", "2001::/32", "2002::/16", "192.88.99.0/24", "3fff::/20", "5f00::/16"),
    )
)
# Above 1023, those the Fetch standard (port blocking) takes for other protocols, and common stores.
_OTHER_PROTOCOLS = frozenset(
    {1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060, 5061, 5432, 5672, 6000, 6379, 6566, 6665, 6666, 6667, 6668,
     6669, 6679, 6697, 9200, 10080, 11211, 27017}
)  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Where a URL may lead.

    allowed: hosts (`nas.local`, or `nas.local:8081` for one port), addresses and networks (`10.0.0.0/8`) that are fine
    although they are no public ones. schemes: `https`, or `http` too. what: how errors call the URL. way_out: what they
    advise for a place that is not allowed.
    """

    allowed: Sequence[str] = ()
    schemes: Sequence[str] = ("https", "http")
    what: str = "the URL"
    way_out: str = ""


@dataclass(frozen=True)
class Target:
    """A judged place. addresses: what the host of `url` resolved to."""

    url: httpx.URL
    addresses: tuple[str, ...]

    @property
    def host(self) -> str:
        """Return the host as it stands in the URL, without brackets."""
        return self.url.raw_host.decode("ascii")

    @property
    def port(self) -> int:
        """Return the port, that of the scheme where the URL names none."""
        return port_of(self.url)


def check(url: str, places: Places) -> httpx.URL:
    """Return a URL that may be right; raises `lumia.errors.PlaceError`. Resolves nothing."""
    try:
        parsed = httpx.URL(url)
        host = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError, ValueError, TypeError) as error:
        raise PlaceError(f"{places.what}: no URL: {_unquoted(error)}") from None
    literal = _address(host)
    named = literal is not None or _NAME.fullmatch(host) is not None
    if parsed.scheme not in places.schemes or not named or parsed.userinfo or not 0 < port_of(parsed) < 65536:
        schemes = "http(s)" if len(places.schemes) > 1 else places.schemes[0]
        raise PlaceError(f"{places.what}: must be {schemes}://host/… without user and password")
    if literal is not None:
        _judge(literal, parsed, places)
    if not _is_web(port_of(parsed)) and not any(_names(entry, parsed) for entry in places.allowed):
        advice = f"; {places.way_out}" if places.way_out else ""
        raise PlaceError(f"{places.what}: port {port_of(parsed)} belongs to another protocol than the web{advice}")
    return parsed


def resolve(url: str, places: Places, seconds: float = LOOK_UP_SECONDS) -> Target:
    """Return where to connect; raises `lumia.errors.PlaceError` where it may not go, `OutsideError` without DNS."""
    parsed = check(url, places)
    host = parsed.raw_host.decode("ascii")
    addresses = tuple(dict.fromkeys(_look_up(host, port_of(parsed), min(seconds, LOOK_UP_SECONDS))))
    for address in addresses:
        _judge(ipaddress.ip_address(address), parsed, places)
    return Target(parsed, addresses)


def is_public(address: Address) -> bool:
    """Tell whether an address is one of the open Internet; an IPv6 address that embeds an IPv4 address never is."""
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False
    return not any(address in network for network in _SET_APART)


def port_of(url: httpx.URL) -> int:
    """Return the port of a URL, that of its scheme where it names none."""
    return url.port if url.port is not None else {"https": 443}.get(url.scheme, 80)


def _unquoted(error: Exception) -> str:
    """Return an error without the part of the URL it quotes, which may be a secret."""
    return re.sub(r"(['\"]).*\1", "…", str(error), flags=re.DOTALL)


def _look_up(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses of a host; a resolver that hangs is left behind."""
    answer: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

    def asked() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer.put([str(entry[4][0]).partition("%")[0] for entry in found])
        except Exception as error:  # whatever it is, it is told to who waits
            answer.put(error)

    threading.Thread(target=asked, name="lumia-look-up", daemon=True).start()
    try:
        got = answer.get(timeout=max(0.01, seconds))
    except queue.Empty:
        raise OutsideError(f"{host}: no name server has answered within {seconds:.3g} s") from None
    if isinstance(got, Exception) or not got:
        raise OutsideError(f"{host} has no address: {got or 'the name server knows none'}")
    return got


def _judge(address: Address, url: httpx.URL, places: Places) -> None:
    allowed = any(_names(entry, url) or _contains(entry, address) for entry in places.allowed)
    if not allowed and not is_public(address):
        advice = f"; {places.way_out}" if places.way_out else ""
        host = url.raw_host.decode("ascii")
        raise PlaceError(f"{places.what}: {host} is at {address}, which is no public address{advice}")


def _names(entry: str, url: httpx.URL) -> bool:
    """Tell whether an entry of the allow-list names the host of a URL, or host and port."""
    host = url.raw_host.decode("ascii").lower()
    whole = f"[{host}]" if ":" in host else host
    return entry.lower() in (host, whole, f"{whole}:{port_of(url)}")


def _contains(entry: str, address: Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _is_web(port: int) -> bool:
    return port in (80, 443) or (port > 1023 and port not in _OTHER_PROTOCOLS)


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def left(until: float) -> float:
    """Return the seconds until a moment of `time.monotonic`."""
    return until - time.monotonic()
