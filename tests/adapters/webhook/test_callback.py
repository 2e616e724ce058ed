"""Posting to a callback over real sockets: the judged address, the name in TLS, and what counts as taken."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from adapters.webhook import callback, target

NAME = "hook.example"


class Taking(BaseHTTPRequestHandler):
    seen: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.seen.append(self.headers["host"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


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


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Serve HTTPS as hook.example on loopback; yields the port."""
    file = certificate(tmp_path, NAME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    monkeypatch.setattr(callback, "_trusted", lambda: ssl.create_default_context(cafile=str(file)))
    monkeypatch.setattr(Taking, "seen", [])
    with HTTPServer(("127.0.0.1", 0), Taking) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    # Only what judges the name is replaced: the connection must be made without asking again.
    stand_in = types.SimpleNamespace(getaddrinfo=resolve, SOCK_STREAM=socket.SOCK_STREAM)
    monkeypatch.setattr(target, "socket", stand_in)


def test_the_certificate_is_checked_for_the_name_not_the_address(secured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.1")
    assert callback.post(f"https://{NAME}:{secured}/x", b"{}", {}, [NAME]) == 204
    assert Taking.seen == [f"{NAME}:{secured}"]


def test_a_certificate_of_another_name_is_refused(secured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.1")
    with pytest.raises(callback.CallbackError, match="CERTIFICATE_VERIFY_FAILED"):
        callback.post(f"https://other.example:{secured}/x", b"{}", {}, ["other.example"])
    assert Taking.seen == []


def test_the_next_address_is_tried_when_one_is_dead(secured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.9", "127.0.0.1")
    assert callback.post(f"https://{NAME}:{secured}/x", b"{}", {}, [NAME]) == 204


def test_nobody_there_is_told_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    with pytest.raises(callback.CallbackError, match=r"127\.0\.0\.1"):
        callback.post(f"http://127.0.0.1:{port}/", b"{}", {}, ["127.0.0.1"])


def test_a_name_without_an_address_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(callback.CallbackError, match="has no address"):
        callback.post("http://nowhere.example/", b"{}", {}, [])


def test_an_answer_that_never_comes_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(callback.CallbackError, match="ReadTimeout"):
            callback.post(url, b"{}", {}, ["127.0.0.1"])
