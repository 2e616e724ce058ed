"""A few Redis commands over a plain socket: enough to see that a server answers, long before redis-py is loaded."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

from lumia.errors import BackendUnavailableError

Reply = bytes | int | list["Reply"] | None


class RespError(BackendUnavailableError):
    """The server answered with an error."""


@dataclass(frozen=True)
class RedisAddress:
    """Where a `redis://`, `rediss://` or `unix://` URL points."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    db: int = 0
    tls: bool = False
    path: str = ""

    @property
    def shown(self) -> str:
        """The URL without its password."""
        if self.path:
            return f"unix://{self.path}"
        return f"{'rediss' if self.tls else 'redis'}://{self.host}:{self.port}/{self.db}"


def parse_url(url: str) -> RedisAddress:
    """Take a URL apart; raise `BackendUnavailableError` when it is no Redis URL."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError(f"scheme {parts.scheme!r}")
        db = parse_qs(parts.query).get("db", [parts.path.strip("/") if parts.scheme != "unix" else ""])[0]
        return RedisAddress(
            host=parts.hostname or "localhost",
            port=parts.port or 6379,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            db=int(db or 0),
            tls=parts.scheme == "rediss",
            path=parts.path if parts.scheme == "unix" else "",
        )
    except ValueError as error:
        raise BackendUnavailableError(
            f"LUMIA_REDIS_URL is no Redis URL ({error}); write redis://[user:password@]host:port/db"
        ) from error


class Connection:
    """One connection: `ask(*words)` sends a command and returns its reply."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._in: BinaryIO = sock.makefile("rb")

    def ask(self, *words: str) -> Reply:
        """Send one command; raise `RespError` for an error reply and `OSError` when the server is gone."""
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = word.encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self._sock.sendall(b"".join(parts))
        return self._reply()

    def close(self) -> None:
        """Give the socket back."""
        self._in.close()

    def _reply(self) -> Reply:
        line = self._in.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RespError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self._bulk(int(rest))
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        return rest

    def _bulk(self, size: int) -> bytes | None:
        if size < 0:
            return None
        data = self._in.read(size + 2)
        if len(data) != size + 2:
            raise ConnectionError("the server closed the connection")
        return data[:-2]


@contextmanager
def connect(url: str, timeout: float = 1.0) -> Iterator[Connection]:
    """Open a connection and sign in; raise `BackendUnavailableError` when that fails. timeout: seconds per wait."""
    where = parse_url(url)
    try:
        sock = _open(where, timeout)
    except OSError as error:
        raise BackendUnavailableError(f"no Redis answers at {where.shown}: {error}") from error
    with closing(sock), closing(Connection(sock)) as connection:
        try:
            if where.password:
                connection.ask("AUTH", *([where.user] if where.user else []), where.password)
            if where.db:
                connection.ask("SELECT", str(where.db))
            yield connection
        except OSError as error:
            raise BackendUnavailableError(f"Redis at {where.shown} stopped answering: {error}") from error


def _open(where: RedisAddress, timeout: float) -> socket.socket:
    if where.path:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        sock.connect(where.path)
        return sock
    plain = socket.create_connection((where.host, where.port), timeout=timeout)
    return ssl.create_default_context().wrap_socket(plain, server_hostname=where.host) if where.tls else plain


def answers(url: str, timeout: float = 0.5) -> bool:
    """Tell whether the server answers PING; a server that is still loading its data doesn't yet."""
    try:
        with connect(url, timeout) as redis:
            return redis.ask("PING") == b"PONG"
    except BackendUnavailableError:
        return False


def info(redis: Connection, section: str) -> dict[str, str]:
    """Return one section of INFO as names and texts."""
    reply = redis.ask("INFO", section)
    lines = reply.decode("utf-8", "replace").splitlines() if isinstance(reply, bytes) else []
    return dict(line.split(":", 1) for line in lines if ":" in line)
