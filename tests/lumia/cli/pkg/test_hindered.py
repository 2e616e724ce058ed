"""A bot whose Redis is there and refuses, or stays silent: it may run, so `pkg` changes nothing and says why."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks import transport
from tests.lumia.cli.pkg.conftest import Pkg
from tests.support import servers
from tests.support.plugin_repos import Repository

ANSWER_SECONDS = 0.5
WHOLE = 6
"""As many times as long as one answer may take a command may take with a server that gives none."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[servers.Server]:
    with servers.valkey(tmp_path / "valkey") as found:
        yield found


@pytest.mark.parametrize("args", [("disable", "hello"), ("-U", "--dry-run"), ("-S", "URL", "--yes")])
def test_a_redis_that_never_answers_is_an_error_before_long(
    pkg: Pkg, geo: Repository, server: servers.Server, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport.connect, "__kwdefaults__", {"timeout": ANSWER_SECONDS, "tries": 5})
    pkg.env["LUMIA_REDIS_URL"] = server.url
    words = [geo.url if word == "URL" else word for word in args]
    os.kill(server.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = pkg(*words)
        took = time.monotonic() - began
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert done.code == 1
    assert "nothing was changed, as the running bot can't be asked what it works with" in done.err
    assert "the bot's broker does not answer (nothing came within 0.5 s)" in done.err
    assert not (pkg.root / "plugins" / "geo").exists()
    assert took < WHOLE * ANSWER_SECONDS
    assert pkg("disable", "hello").code == 0


def test_a_redis_that_forbids_scripts_is_an_error_that_names_the_rule(pkg: Pkg, server: servers.Server) -> None:
    admin: Any = transport.connect(server.url)
    admin.execute_command("ACL", "SETUSER", "bot", "on", ">pw", "~*", "&*", "+@all", "-evalsha")
    pkg.env["LUMIA_REDIS_URL"] = f"redis://bot:pw@127.0.0.1:{server.port}/0"
    before = (pkg.root / "config" / "lumia.toml").read_text()
    done = pkg("disable", "hello", "--json")
    assert (done.code, done.json["exit_code"]) == (1, 1)
    assert "'evalsha' command; add the rule +evalsha to its ACL" in done.err
    assert (pkg.root / "config" / "lumia.toml").read_text() == before
    admin.execute_command("ACL", "SETUSER", "bot", "+evalsha")
    admin.close()
    assert pkg("disable", "hello").code == 0
