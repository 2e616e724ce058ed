"""Real servers for tests: a Valkey and a Postgres on free loopback ports, up in a second, ended by pid."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tasks.supervise import postgres as pg
from tasks.supervise.account import Account, account_for, shimmed
from tasks.supervise.binaries import find_postgres, find_redis
from tasks.supervise.ports import free_port
from tasks.supervise.resp import answers
from tasks.supervise.valkey import server_config, write_config
from tests.support.wait import until

PASSWORD = "0123456789abcdef" * 2


@dataclass(frozen=True)
class Server:
    """A running server. pid: of the server itself, for tests that kill it."""

    url: str
    pid: int
    port: int


@contextmanager
def valkey(
    folder: Path, *, appendonly: bool = True, port: int = 0, password: str = "", config: str = ""
) -> Iterator[Server]:
    """Run a Valkey with its data in `folder`; the same folder and port bring an ended one back.

    config: more lines for its configuration file.
    """
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "valkey.conf"
    write_config(file, server_config(folder, port, password, appendonly=appendonly) + config)
    url = f"redis://:{password}@127.0.0.1:{port}/0" if password else f"redis://127.0.0.1:{port}/0"
    command = shimmed([str(find_redis().path), str(file)], *_dying_with_us())
    with _running(command, folder / "valkey.log", signal.SIGTERM) as process:
        until(lambda: _alive(process, folder / "valkey.log") and answers(url), timeout=20, what="Valkey answers")
        yield Server(url, process.pid, port)


@contextmanager
def postgres(folder: Path, *, port: int = 0) -> Iterator[Server]:
    """Run a Postgres with pgvector with its data in `folder`/pgdata; as root it runs as an ordinary account."""
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    install, pgdata = find_postgres(), folder / "pgdata"
    account: Account = account_for(pgdata, install.bin / "postgres")
    pg.prepare_cluster(install, account, pgdata, PASSWORD)
    quick = ["-c", "fsync=off"]  # a killed server loses nothing by it, only a power cut would tell
    command = shimmed(
        [*pg.server_command(install, pgdata, port), *quick], *account.options(), "--cwd", "/", *_dying_with_us()
    )
    with _running(command, folder / "postgres.log", signal.SIGINT) as process:
        until(
            lambda: _alive(process, folder / "postgres.log") and pg.accepts(install, port, PASSWORD),
            timeout=30,
            what="Postgres accepts connections",
        )
        yield Server(f"postgresql://{pg.ROLE}:{PASSWORD}@127.0.0.1:{port}/{pg.DATABASE}", process.pid, port)


@contextmanager
def _running(command: list[str], log: Path, stop: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=pg.ENV, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(stop)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _alive(process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"the server ended with {process.returncode}: {log.read_text(errors='replace')[-500:]}")
    return True


def _dying_with_us() -> list[str]:
    return ["--die", str(int(signal.SIGKILL)), "--parent", str(os.getpid())]
