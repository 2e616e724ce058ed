"""Servers outside that do as a test tells them, and names that lead to them."""

from __future__ import annotations

import datetime as dt
import re
import socket
import ssl
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Behaviour = Callable[["Peer", socket.socket, bytes], None]
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40


def head(status: str = "200 OK", **headers: Any) -> bytes:
    """Return the head of an answer; `_` in a name stands for `-`."""
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def giving(body: bytes, media_type: str = "image/png", status: str = "200 OK", **headers: Any) -> Behaviour:
    """Return the behaviour of a server that gives one file."""
    whole = head(status, **{"Content_Type": media_type, "Content_Length": len(body), **headers}) + body
    return lambda peer, line, request: line.sendall(whole)


def moving(location: str, status: str = "302 Found") -> Behaviour:
    """Return the behaviour of a server that sends its clients elsewhere; `{port}` is its own."""

    def moved(peer: Peer, line: socket.socket, request: bytes) -> None:
        line.sendall(head(status, Location=location.replace("{port}", str(peer.port)), Content_Length=0))

    return moved


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


class Peer:
    """A server on loopback. seen: its requests. ended: set when a test is over, so that nothing hangs."""

    def __init__(self, behave: Behaviour | dict[str, Behaviour], tls: ssl.SSLContext | None = None) -> None:
        self._behave, self._tls = behave, tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.seen: list[bytes] = []
        self.ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, path: str = "/file", host: str = "127.0.0.1") -> str:
        """Return the address of a file."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        """Return what was asked for."""
        return [request.split(b" ")[1].decode() for request in self.seen]

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(line,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, line: socket.socket) -> None:
        with suppress(OSError):
            line.settimeout(10)
            if self._tls:
                line = self._tls.wrap_socket(line, server_side=True)
            request = b""
            while not _is_whole(request):
                if not (more := line.recv(65536)):
                    break
                request += more
            if request:
                self.seen.append(request)
                self._behaviour(request)(self, line, request)
        with suppress(OSError):
            line.shutdown(socket.SHUT_WR)
        line.close()

    def _behaviour(self, request: bytes) -> Behaviour:
        if isinstance(self._behave, dict):
            return self._behave[request.split(b" ")[1].decode()]
        return self._behave

    def close(self) -> None:
        """End it."""
        self.ended.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(timeout=5)


@contextmanager
def peer(behave: Behaviour | dict[str, Behaviour], tls: ssl.SSLContext | None = None) -> Iterator[Peer]:
    """Run a server."""
    server = Peer(behave, tls)
    try:
        yield server
    finally:
        server.close()


def certificate(folder: Path, name: str) -> Path:
    """Write a self-signed certificate for `name` and its key into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / f"{name}.pem"
    file.write_bytes(secret + signed.public_bytes(pem))
    return file


def secured(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Return what a server needs to be `name`, which calls to the outside then trust."""
    file = certificate(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    monkeypatch.setattr("lumia.outside.asking._trusted", lambda: ssl.create_default_context(cafile=str(file)))
    return context


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str | tuple[str, ...]) -> list[str]:
    """Let every name lead to these addresses, and return the list of names that were asked for.

    A tuple is one answer of several; then each further question gets the next answer, and the last one again.
    Only what judges a name is replaced: the connection must be made without asking again.
    """
    turns = [answer for answer in answers if isinstance(answer, tuple)] or [tuple(map(str, answers))]
    asked: list[str] = []

    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        found = turns[min(len(asked), len(turns)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    stand_in = types.SimpleNamespace(getaddrinfo=resolve, SOCK_STREAM=socket.SOCK_STREAM)
    monkeypatch.setattr("lumia.outside.places.socket", stand_in)
    return asked
