"""The bot's own Valkey and Postgres, really started: durable, small, on loopback with a password."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from lumia.errors import BackendUnavailableError, SupervisorError
from tasks.supervise import postgres as pg
from tasks.supervise.account import Account, account_for
from tasks.supervise.binaries import find_postgres, find_redis
from tasks.supervise.identity import start_mark
from tasks.supervise.resp import connect
from tests.support import servers
from tests.support.wait import until

pytestmark = pytest.mark.services

PROJECT = Path(__file__).resolve().parents[3]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
NOBODY = 65534


def run_as_nobody(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as an ordinary user, with an interpreter that user may run; skips when there is none."""
    system = shutil.which(f"python3.{sys.version_info[1]}", path="/usr/local/bin:/usr/bin")
    for python in filter(None, (sys.executable, system)):
        with suppress(PermissionError):
            return subprocess.run(
                [python, "-c", script, *words],
                cwd=PROJECT,
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
    pytest.skip("an ordinary user may run none of this machine's interpreters of this version")


@pytest.fixture
def short(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder outside pytest's, which others may enter."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def config_of(url: str, name: str) -> str:
    with connect(url) as redis:
        reply = redis.ask("CONFIG", "GET", name)
    assert isinstance(reply, list)
    assert isinstance(reply[1], bytes)
    return reply[1].decode()


def test_valkey_keeps_every_write_and_never_drops_a_key(tmp_path: Path) -> None:
    with servers.valkey(tmp_path) as server:
        assert config_of(server.url, "appendonly") == "yes"
        assert config_of(server.url, "appendfsync") == "everysec"
        assert config_of(server.url, "maxmemory-policy") == "noeviction"


def test_valkey_killed_and_started_again_has_what_it_answered_for(tmp_path: Path) -> None:
    with servers.valkey(tmp_path) as server:
        with connect(server.url) as redis:
            redis.ask("CONFIG", "SET", "appendfsync", "always")
            redis.ask("SET", "kept", "yes")
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: start_mark(server.pid) == 0.0, what="Valkey is dead")
    with servers.valkey(tmp_path, port=server.port) as again, connect(again.url) as redis:
        assert redis.ask("GET", "kept") == b"yes"


def test_valkey_lets_nobody_in_without_the_password(tmp_path: Path) -> None:
    with servers.valkey(tmp_path, password="right") as server:
        with (
            connect(f"redis://127.0.0.1:{server.port}/0") as redis,
            pytest.raises(BackendUnavailableError, match="NOAUTH"),
        ):
            redis.ask("PING")
        with (
            pytest.raises(BackendUnavailableError, match="WRONGPASS"),
            connect(f"redis://:wrong@127.0.0.1:{server.port}"),
        ):
            pass


def test_valkey_listens_on_loopback_only(tmp_path: Path) -> None:
    with servers.valkey(tmp_path) as server:
        assert config_of(server.url, "bind") == "127.0.0.1"


def test_a_path_with_blanks_and_quotes_is_no_obstacle_for_valkey(tmp_path: Path) -> None:
    with servers.valkey(tmp_path / 'a "b" c') as server, connect(server.url) as redis:
        assert redis.ask("PING") == b"PONG"


def test_an_old_redis_on_the_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=5.0.14 sha=0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis().path != old


def test_a_new_enough_redis_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "redis-server"
    installed.write_text("#!/bin/sh\necho 'Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc bits=64'\n")
    installed.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis().path == installed


def test_postgres_knows_vectors_and_utf8(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as database:
        row = database.execute(
            "SELECT '[1,2]'::vector <-> '[1,4]'::vector, current_setting('server_encoding')"
        ).fetchone()
    assert row == (2.0, "UTF8")


def test_postgres_lets_nobody_in_without_the_password(postgres_server: servers.Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://{pg.ROLE}:wrong@127.0.0.1:{postgres_server.port}/{pg.DATABASE}")


def test_postgres_makes_no_socket_and_listens_on_loopback_only(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as database:
        row = database.execute(
            "SELECT current_setting('listen_addresses'), current_setting('unix_socket_directories')"
        ).fetchone()
    assert row == ("127.0.0.1", "")


def test_a_new_secret_gives_the_old_database_a_new_password(tmp_path: Path) -> None:
    with servers.postgres(tmp_path):
        pass
    install, pgdata = find_postgres(), tmp_path / "pgdata"
    pg.prepare_cluster(install, account_for(pgdata, install.bin / "postgres"), pgdata, "another" * 5)
    assert servers.PASSWORD != "another" * 5
    with servers.postgres(tmp_path) as server, psycopg.connect(server.url) as database:
        assert database.execute("SELECT 1").fetchone() == (1,)


def test_postgres_killed_with_a_stale_pid_file_starts_again(tmp_path: Path) -> None:
    with servers.postgres(tmp_path) as server:
        with psycopg.connect(server.url) as database:
            database.execute("CREATE TABLE kept (n int)")
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: start_mark(server.pid) == 0.0, what="Postgres is dead")
    pid_file = tmp_path / "pgdata" / "postmaster.pid"
    pid_file.write_text(pid_file.read_text().replace(str(server.pid), str(os.getpid()), 1))
    with servers.postgres(tmp_path) as again, psycopg.connect(again.url) as database:
        assert database.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_half_made_cluster_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "pgdata.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with servers.postgres(tmp_path) as server, psycopg.connect(server.url) as database:
        assert database.execute("SELECT 1").fetchone() == (1,)
    assert not half.exists()


def test_a_cluster_of_another_version_is_left_alone_with_a_way_out(tmp_path: Path) -> None:
    pgdata = tmp_path / "pgdata"
    pgdata.mkdir()
    (pgdata / "PG_VERSION").write_text("9\n")
    with pytest.raises(SupervisorError, match=r"made by Postgres 9, .*; move the folder away"):
        pg.prepare_cluster(find_postgres(), Account(), pgdata, servers.PASSWORD)


@AS_ROOT
def test_as_root_postgres_runs_as_an_ordinary_account_in_a_folder_only_root_may_enter(short: Path) -> None:
    assert short.stat().st_mode & 0o077 == 0
    with servers.postgres(short) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0


@AS_ROOT
def test_a_cluster_copied_by_root_is_given_back_to_the_account_that_runs_it(tmp_path: Path) -> None:
    with servers.postgres(tmp_path / "first"):
        pass
    shutil.copytree(tmp_path / "first" / "pgdata", tmp_path / "second" / "pgdata")
    with servers.postgres(tmp_path / "second") as server, psycopg.connect(server.url) as database:
        assert database.execute("SELECT 1").fetchone() == (1,)


@AS_ROOT
def test_an_ordinary_user_runs_both_servers(short: Path) -> None:
    os.chown(short, NOBODY, NOBODY)
    script = (
        "import sys; from pathlib import Path; from tests.support import servers\n"
        "here = Path(sys.argv[1])\n"
        "with servers.valkey(here / 'v') as one, servers.postgres(here / 'p') as two:\n"
        "    import os, psycopg\n"
        "    psycopg.connect(two.url).close()\n"
        "    print(os.geteuid(), *(Path(f'/proc/{one.pid}').stat().st_uid for one in (one, two)))\n"
    )
    done = run_as_nobody(script, str(short))
    assert done.stdout.split() == [str(NOBODY)] * 3, done.stderr


@AS_ROOT
def test_another_users_cluster_is_refused_with_a_way_out(short: Path) -> None:
    pgdata = short / "pgdata"
    pgdata.mkdir()
    script = (
        "import sys; from pathlib import Path; from tasks.supervise.account import account_for\n"
        "account_for(Path(sys.argv[1]), Path('/bin/true'))\n"
    )
    short.chmod(0o755)
    done = run_as_nobody(script, str(pgdata))
    assert f"{pgdata} belongs to root, not to nobody; run `lumia up` as root" in done.stderr


def test_the_database_is_gone_from_its_port_after_the_end(tmp_path: Path) -> None:
    with servers.postgres(tmp_path) as server:
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)
    assert not (tmp_path / "pgdata" / "postmaster.pid").exists()
