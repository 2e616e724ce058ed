"""Real `celery -A tasks` processes for tests: bot roots, workers and beats, ended by pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lumia.paths import base
from lumia.runtime import Runtime, open_bot
from tasks.backend import worker_name
from tasks.supervise.ports import free_port
from tasks.transport import RedisTransport, connect
from tests.support.wait import until


def first_party() -> list[str]:
    """Return the names of the plugins that ship with Lumia."""
    folders = [path for kind in ("handlers", "adapters") for path in (base() / kind).iterdir()]
    return sorted(path.name.replace("_", "-") for path in folders if (path / "manifest.json").is_file())


def bot_root(folder: Path, *plugins: Path, settings: str = "") -> Path:
    """Make a bot root with copies of these plugin folders and no first-party plugin."""
    (folder / "config").mkdir(parents=True)
    off = str(first_party()).replace("'", '"')
    text = f"[worker]\nconcurrency = 4\nstep_timeout = 5.0\ndrain = 3.0\n{settings}\n[plugins]\ndisabled = {off}\n"
    (folder / "config" / "lumia.toml").write_text(text)
    for plugin in plugins:
        shutil.copytree(plugin, folder / "plugins" / plugin.name)
    return folder


def write_plugin(root: Path, name: str, code: str, **manifest: object) -> None:
    """Write a plugin into a bot root."""
    import json

    folder = root / "plugins" / name
    folder.mkdir(parents=True)
    about = {"name": name.replace("_", "-"), "display_name": name, "description": name, "author": "tests",
             "license": "LicenseRef-Proprietary", "main": "plugin.py", **manifest}  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(about))
    (folder / "plugin.py").write_text(code)


@dataclass
class Celery:
    """One `celery -A tasks …` process. log: what it printed."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        self.process.kill()
        self.process.wait(timeout=10)

    def end(self, timeout: float = 40.0) -> int:
        """SIGTERM; returns the exit status."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=timeout)


@contextmanager
def celery(root: Path, url: str, *args: str, name: str = "worker", app: str = "tasks") -> Iterator[Celery]:
    """Run `celery -A tasks ARGS` on a bot root; ended at the end of the block if it still runs.

    app: a module in the bot root that changes the app's settings instead.
    """
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url, "PYTHONPATH": str(root)}
    log = root / f"{name}.log"
    command = [sys.executable, "-m", "celery", "--workdir", str(base()), "-A", app, *args]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=env, cwd=root, stdout=out, stderr=subprocess.STDOUT)
        running = Celery(process, log)
        try:
            yield running
        finally:
            if process.poll() is None:
                running.end()


@contextmanager
def worker(root: Path, url: str, *args: str, name: str = "worker", app: str = "tasks") -> Iterator[Celery]:
    """Run a worker and wait until it is ready to execute."""
    options = ["--loglevel", "INFO", "-E", "--without-mingle", "--without-gossip", "-n", f"{name}@%h"]
    with celery(root, url, "worker", *options, *args, name=name, app=app) as running:
        until(lambda: "ready." in running.text or running.process.poll() is not None, timeout=30)
        assert running.process.poll() is None, running.text
        yield running


@contextmanager
def connected(root: Path, url: str) -> Iterator[Runtime]:
    """Open the bot of `root` without plugin code; it is active only where a test activates it."""
    transport = RedisTransport(connect(url), worker=worker_name(), url=url)
    runtime = open_bot(root, transport=transport).deactivate()
    transport.limits = runtime.limits
    try:
        yield runtime
    finally:
        runtime.close()


@contextmanager
def opened(root: Path, url: str) -> Iterator[Runtime]:
    """Open the bot of `root` without plugin code and activate it, as a gateway or command does."""
    with connected(root, url) as runtime, runtime.activated():
        yield runtime


@dataclass
class GatewayProcess(Celery):
    """One `python -m lumia.gateway` process."""

    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def gateway(root: Path, url: str, name: str = "gateway", **env: str) -> Iterator[GatewayProcess]:
    """Run a gateway on a free port and wait until it answers; ended at the end of the block if it still runs."""
    port = free_port()
    given = {
        "LUMIA_ROOT": str(root),
        "LUMIA_REDIS_URL": url,
        "LUMIA__GATEWAY__PORT": str(port),
        "PYTHONPATH": str(root),
    }
    log = root / f"{name}.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "lumia.gateway"]
        process = subprocess.Popen(
            command, env={**os.environ, **given, **env}, cwd=base(), stdout=out, stderr=subprocess.STDOUT
        )
        running = GatewayProcess(process, log, port)
        try:
            until(lambda: _listens(port) or process.poll() is not None, timeout=30, what="the gateway to listen")
            assert process.poll() is None, running.text
            yield running
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                running.end()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
