"""A Redis in the test's own process: fakeredis behind a TCP port, for code that takes a URL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lumia.errors import LumiaError


@contextmanager
def serve() -> Iterator[str]:
    """Serve an empty fake Redis (version 7, with Lua) on a free loopback port; yields its URL."""
    try:
        from fakeredis import TcpFakeServer
    except ImportError as error:
        raise LumiaError("lumia.testing.fake_redis() needs fakeredis: pip install 'fakeredis[lua]'") from error
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="lumia-fake-redis", daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
