"""While a replay runs, nothing in the process reaches outside; afterwards everything does again."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from lumia.errors import ReplayError
from lumia.replay.guard import alone


def reach(port: int) -> None:
    with closing(socket.socket()) as client:
        client.connect(("127.0.0.1", port))


def test_connections_names_and_programs_are_refused_and_told() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        with alone() as refused:
            with pytest.raises(ReplayError, match=r"lumia\.effect"):
                reach(port)
            with pytest.raises(ReplayError):
                socket.getaddrinfo("example.org", 80)
            with pytest.raises(ReplayError):
                subprocess.run([sys.executable, "-c", ""], check=False)
            assert refused[0] == f"connect to ('127.0.0.1', {port})"
            assert refused[1] == "look up example.org"
            assert refused[2].startswith("start the program ")
        reach(port)


def test_threads_are_guarded_too() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            reach(1)
        except BaseException as error:
            errors.append(error)

    with alone():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert isinstance(errors[0], ReplayError)
