"""A real HTTP server of git repositories on loopback: `git http-backend`, or plain files for the dumb protocol."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


@dataclass
class Served:
    """url: of the folder's repositories (`url/<name>/.git`). logins: those that were shown to it."""

    url: str
    logins: list[str] = field(default_factory=list)


@contextmanager
def serving(
    folder: Path,
    *,
    login: tuple[str, str] | None = None,
    redirect: str = "",
    dumb: bool = False,
    says: bytes = b"",
) -> Iterator[Served]:
    """Serve the repositories below `folder`.

    login: name and password it asks for. redirect: sends every request there instead. dumb: only files, no git at
    work. says: refuses with this text, as servers greet people.
    """
    served = Served("")
    wanted = base64.b64encode(":".join(login).encode()).decode() if login else ""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            if given:
                served.logins.append(given)
            if redirect:
                self._answer(302, b"", Location=redirect + self.path)
            elif login and given != f"Basic {wanted}":
                self._answer(401, b"", **{"WWW-Authenticate": 'Basic realm="git"'})
            elif says:
                self._answer(403, says, **{"Content-Type": "text/plain"})
            elif dumb:
                self._file()
            else:
                self._backend()

        do_POST = do_GET  # noqa: N815

        def _answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def _file(self) -> None:
            path = folder / urlsplit(self.path).path.lstrip("/")
            if path.is_file():
                self._answer(200, path.read_bytes(), **{"Content-Type": "text/plain"})
            else:
                self._answer(404, b"")

        def _backend(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(length),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_ADDR": "127.0.0.1",
            }
            body = self.rfile.read(length)
            out = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=True).stdout
            head, _, rest = out.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self._answer(int(headers.pop("Status", "200").split()[0]), rest, **headers)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
