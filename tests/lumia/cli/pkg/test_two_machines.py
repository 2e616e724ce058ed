"""`pkg` on two machines of one bot, with a real Valkey: who is behind, and what the others keep."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lumia.cli.init import create
from lumia.cli.pkg.joining import Joiner
from lumia.deployment import Holder, Wanted
from lumia.errors import BusyTurnError, PkgError, StaleDeploymentError
from lumia.pkg import deploying, joining, mutex, turn
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked
from tasks.transport import RedisTransport, connect
from tests.lumia.cli.pkg.conftest import COMMAND, Pkg
from tests.support.plugin_repos import Repository, repository
from tests.support.wait import until

SECRET = "5e" * 32


def machine(root: Path, url: str) -> Pkg:
    """Return the command in a new bot root of the bot at `url`."""
    create(root)
    key = root / "data" / "secret.key"
    key.parent.mkdir(exist_ok=True)
    key.write_text(SECRET)
    key.chmod(0o600)
    return Pkg(root, {"LUMIA_REDIS_URL": url})


def versions(pkg: Pkg) -> dict[str, str]:
    lock = json.loads((pkg.root / "plugins" / "plugins.lock").read_text())
    return {name: one["version"] for name, one in lock["plugins"].items()}


@pytest.fixture
def url(valkey_server: Any) -> str:
    redis: Any = connect(valkey_server.url)
    redis.flushdb()
    redis.close()
    return str(valkey_server.url)


@pytest.fixture
def transport(url: str) -> Iterator[RedisTransport]:
    with closing(RedisTransport(connect(url), worker="here:1:aa")) as opened:
        yield opened


@pytest.fixture
def one(tmp_path: Path, url: str) -> Pkg:
    return machine(tmp_path / "one", url)


@pytest.fixture
def two(tmp_path: Path, url: str) -> Pkg:
    return machine(tmp_path / "two", url)


def at_work(transport: RedisTransport) -> dict[str, str]:
    """Return the versions that the bot works with."""
    deployments = transport.deployments()
    wanted = deployments.wanted(deployments.look().active)
    assert wanted is not None and wanted.plugins is not None
    return {name: one["version"] for name, one in wanted.plugins.items()}


def test_a_root_that_is_behind_takes_nobody_back_until_it_is_in_step(
    one: Pkg, two: Pkg, geo: Repository, transport: RedisTransport
) -> None:
    assert "nothing to bring this root in step with" in two("sync").err
    one("-S", f"{geo.url}@v0.3.0", "-y")
    never = two("disable", "webhook")
    assert (never.code, "geo: not here, 0.3.0 in the bot" in never.err) == (1, True)
    assert two("sync", "-y").lines == ["installed geo 0.3.0"]
    one("-U", "-y")
    one("disable", "webhook")
    for command in (("-R", "geo", "-y"), ("disable", "geo"), ("rollback", "-y"), ("-U", "-n")):
        refused = two(*command)
        assert refused.code == 1
        assert "geo: 0.3.0 here, 0.4.0 in the bot; webhook: enabled here, disabled in the bot" in refused.err
        assert "`pkg sync` brings this root in step" in refused.err
    assert (versions(two), at_work(transport)) == ({"geo": "0.3.0"}, {"geo": "0.4.0"})
    number = transport.deployments().look().number
    brought = two("sync", "-y")
    assert brought.lines == ["upgraded geo 0.3.0 → 0.4.0"]
    assert f"in step with the bot (deployment {number})" in brought.err
    assert 'disabled = ["webhook"]' in (two.root / "config" / "lumia.toml").read_text()
    assert transport.deployments().look().number == number  # nobody else had to do anything
    assert two("-R", "geo", "-y").code == 0
    assert at_work(transport) == {}


def test_a_root_that_would_join_what_is_over_by_now_goes_back_and_tells_nobody(
    one: Pkg, two: Pkg, url: str, transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIA_REDIS_URL", url)
    one("disable", "webhook")
    joins = Joiner(two.root, print, 0, joining.target(two.root))
    one("enable", "webhook")
    with pytest.raises(StaleDeploymentError, match="works with deployment 2 by now"):
        joins(Lock())
    assert joins(Lock({"geo": Locked("geo", "1.0.0", None, "1" * 40, "/geo", "git", f"sha256:{'a' * 64}")})).ok
    assert transport.deployments().look().number == 2


def test_a_broker_that_is_away_is_told_in_words_of_pkg(one: Pkg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr("tasks.transport.connect", lambda url: connect(url, tries=0))
    told = deploying.deploy(one.root, {}).text
    assert told.startswith("the bot's broker does not answer (Error 111") and "dedup" not in told
    with pytest.raises(PkgError, match=r"asked for: the bot's broker does not answer .*; or name a LOCK"):
        joining.target(one.root)


def test_what_was_changed_while_the_bot_was_away_goes_along_with_the_next_operation(
    one: Pkg, geo: Repository, transport: RedisTransport
) -> None:
    one("-S", f"{geo.url}@v0.3.0", "-y")
    url = one.env.pop("LUMIA_REDIS_URL")
    assert "can't be asked" in one("sync").err
    one("-U", "-y")
    one.env["LUMIA_REDIS_URL"] = url
    assert one("disable", "webhook").code == 0
    assert at_work(transport) == {"geo": "0.4.0"}


def test_a_deployment_that_was_rolled_back_leaves_nobody_behind(
    one: Pkg, two: Pkg, geo: Repository, transport: RedisTransport
) -> None:
    one("-S", f"{geo.url}@v0.3.0", "-y")
    two("sync", "-y")
    noted = two.root / "data" / "pkg" / "deployed.json"  # as it is when what was rolled back had been brought here
    noted.write_text(json.dumps({"number": 2, "held": Wanted({}).dump(), "before": ""}))
    assert two("disable", "webhook").code == 0
    assert json.loads(noted.read_text())["number"] == 2 == transport.deployments().look().active


def test_a_record_that_no_machine_takes_is_replaced_by_a_lock_only(one: Pkg, transport: RedisTransport) -> None:
    transport.deployments().begin(Wanted({"geo": {}}, seal="forged"), 60)
    for command in (("disable", "webhook"), ("sync", "-y")):
        refused = one(*command)
        assert (refused.code, "not signed with this bot's secret" in refused.err) == (1, True)
    assert one("sync", "-", "-y", stdin=json.dumps({"version": 1, "plugins": {}})).code == 0
    assert at_work(transport) == {}


@contextmanager
def at_its_hook(pkg: Pkg, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Give a `pkg` that is in the middle of an installation, and stays there."""
    slow = repository(folder / "repositories", "slow")
    gate, inside = folder / "gate", folder / "inside"
    hook = f"import pathlib\npathlib.Path({str(inside)!r}).touch()\nopen({str(gate)!r}).read()\n"
    slow.release("v1.0.0", {"hooks/pre_install.py": hook})
    os.mkfifo(gate)
    command = [*COMMAND, "-S", slow.url, "-y"]
    with subprocess.Popen(command, cwd=pkg.root, env=pkg.variables(), stderr=subprocess.DEVNULL) as running:
        try:
            until(inside.exists, timeout=30, what="it is at its hook")
            yield running
        finally:
            running.kill()


def test_one_at_a_time_changes_the_plugins_of_all_machines_and_a_dead_one_holds_nobody_up(
    one: Pkg, two: Pkg, transport: RedisTransport, tmp_path: Path
) -> None:
    with at_its_hook(one, tmp_path) as first:
        hasty = two("disable", "webhook", "--no-wait")
        assert hasty.code == 1
        assert f"on {socket.gethostname()} (process {first.pid}, since" in hasty.err
    began = time.monotonic()
    assert one("disable", "webhook").code == 0
    assert time.monotonic() - began < turn.LEASE_SECONDS / 2  # on its own machine it is known to be dead

    two("sync", "-y")
    held = transport.deployments().take_turn(Holder("x", "away:/bot", 4711, "pkg -S x"), 0.5)
    late = two("enable", "webhook")
    assert (late.code, "waiting for `pkg -S x` on away (process 4711" in late.err) == (0, True)
    assert not transport.deployments().keep_turn(held, 10)


def test_a_turn_is_kept_as_long_as_its_holder_lives(one: Pkg, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "LEASE_SECONDS", 0.4)
    monkeypatch.setattr(turn, "KEEP_SECONDS", 0.05)
    monkeypatch.setenv("LUMIA_REDIS_URL", url)
    with closing(RedisTransport(connect(url), worker="here:2:bb")) as other, turn.take(one.root) as token:
        until_ = time.monotonic() + 0.8
        while time.monotonic() < until_:
            with pytest.raises(BusyTurnError):
                other.deployments().take_turn(Holder("x", "away:/bot", 4711, "pkg -S x"), 10)
        with turn.attempt(one.root, 0) as second:
            assert second == 0
    assert token == 1 == other.deployments().take_turn(Holder("x", "away:/bot", 4711, "pkg -S x"), 10) - 1
    with pytest.raises(mutex.HeldError, match="`pkg -S x` on away"), turn.take(one.root, timeout=0):
        pass
