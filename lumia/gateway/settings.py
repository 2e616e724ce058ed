"""What the gateway reads from `[gateway]` in config/lumia.toml."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from typing import Any

DEFAULT_PORT = 8470


@dataclass(frozen=True)
class Settings:
    """The gateway's figures; sizes in bytes, times in seconds.

    processes: how many gateways share the port; each of them is told so. hosts: names it answers to besides the
    loopback ones. origins: web origins (`https://name`) that may post or open WebSockets besides its own. head_timeout:
    how long a client may take for a request's headers, send_timeout: to take what it is sent. connections: open at
    once, of both kinds. socket_rate: messages a second that are taken from one WebSocket. drain: how long in-flight
    requests may take after SIGTERM. threads: calls into the core at once; waiting: calls that may queue for them before
    clients get a 429. keep_from: from how many starts at once on they are stored first and planned by workers, 0 never.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    processes: int = 1
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body: int = 1_048_576
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    send_timeout: float = 30.0
    connections: int = 1000
    socket_rate: float = 500.0
    drain: float = 10.0
    threads: int = 32
    waiting: int = 512
    keep_from: int = 16

    @classmethod
    def of(cls, section: Any) -> Settings:
        """Return the settings found as attributes of a configuration section; absent ones keep their default."""
        found = {field.name: getattr(section, field.name, None) for field in fields(cls)}
        given = {name: value for name, value in found.items() if value is not None}
        for name in ("hosts", "origins"):
            given[name] = tuple(str(value).lower().rstrip("/") for value in given.get(name, ()))
        return cls(**given)

    @property
    def loopback(self) -> bool:
        """Tell whether only programs on this machine can connect."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """Return the address to open on this machine."""
        any_address = self.host in ("", "0.0.0.0", "::")
        host = "127.0.0.1" if any_address else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address (IPv6 with or without brackets) can only be this machine."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
