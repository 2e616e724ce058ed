"""The bot's own Postgres with pgvector: made once, started on loopback, small while idle.

A new cluster is complete before it gets its name: password, database and extension are put in by the single-user server
in a draft folder, which is then renamed. So a start that was killed half way leaves nothing half made, and the server
never listens without a password.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from lumia.errors import SupervisorError
from tasks.supervise.account import Account, account_for, run_as
from tasks.supervise.binaries import PostgresInstall, find_postgres
from tasks.supervise.folders import Folders
from tasks.supervise.secret import password
from tasks.supervise.service import Service
from tasks.supervise.settings import Settings

ROLE = DATABASE = "lumia"
ENV = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
_HBA = "# Written by Lumia: loopback with a password, nothing else.\nhost all all 127.0.0.1/32 scram-sha-256\n"
_STAMP = "lumia.stamp"
_BUFFERS = (128 << 20, 512 << 20)
"""At least and at most what the server keeps of its tables in memory, in bytes. It is taken as it fills, so an idle
bot's stays small; the memory's vector index, which is read in no order, should fit."""
_TUNED = {
    "max_connections": "40",
    "max_worker_processes": "4",
    "max_parallel_workers": "2",
    "autovacuum_max_workers": "1",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "wal_level": "minimal",
    "max_wal_size": "256MB",
    "work_mem": "4MB",
    "maintenance_work_mem": "64MB",
    "jit": "off",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] ",
    "password_encryption": "scram-sha-256",
}


def database_url(root: Path, port: int) -> str:
    """Return the URL of the bot's own database, with its password."""
    return f"postgresql://{ROLE}:{password(root, 'postgres')}@127.0.0.1:{port}/{DATABASE}"


def postgres_service(folders: Folders, settings: Settings) -> Service:
    """Return the service; program and account are looked for now, so that a missing one is told before a start."""
    install = find_postgres()
    account = account_for(folders.pgdata, install.bin / "postgres")
    key = password(folders.root, "postgres")
    return Service(
        name="postgres",
        kind="postgres",
        command=server_command(install, folders.pgdata, settings.postgres_port),
        probe=lambda pid: accepts(install, settings.postgres_port, key),
        url=f"postgresql://127.0.0.1:{settings.postgres_port}/{DATABASE}",
        env=ENV,
        account=account,
        prepare=lambda: prepare_cluster(install, account, folders.pgdata, key),
        start_timeout=120.0,
        stop=signal.SIGINT,
        grace=30.0,
        orphan=signal.SIGINT,
        stage=4,
    )


def server_command(install: PostgresInstall, pgdata: Path, port: int) -> tuple[str, ...]:
    """Return the command of a server on loopback without a Unix socket, sized for one idle bot."""
    options = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", **_TUNED}
    options["shared_buffers"] = f"{buffers(psutil.virtual_memory().total) >> 20}MB"
    if int(install.major) >= 18:
        options["io_method"] = "sync"
    settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return (str(install.bin / "postgres"), "-D", str(pgdata), *settings)


def buffers(memory: int) -> int:
    """Return the bytes of tables the server may keep on a machine of so many bytes: an eighth, within bounds."""
    least, most = _BUFFERS
    return max(least, min(most, memory // 8))


def accepts(install: PostgresInstall, port: int, key: str) -> bool:
    """Tell whether the database takes a connection and knows vectors."""
    where = ["-h", "127.0.0.1", "-p", str(port), "-U", ROLE, "-d", DATABASE]
    try:
        done = subprocess.run(
            [str(install.bin / "psql"), "-X", "-q", "-w", "-A", "-t", *where, "-c", "SELECT '[1]'::vector"],
            env={**ENV, "PGPASSWORD": key, "PGCONNECT_TIMEOUT": "3"},
            capture_output=True,
            text=True,
            timeout=10.0,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and done.stdout.strip() == "[1]"


def prepare_cluster(install: PostgresInstall, account: Account, pgdata: Path, key: str) -> None:
    """Make the cluster when there is none; else check its version, owner, password and stale pid file."""
    if not (pgdata / "PG_VERSION").exists():
        _make_cluster(install, account, pgdata, key)
        return
    found = (pgdata / "PG_VERSION").read_text(encoding="ascii").strip()
    if found != install.major:
        raise SupervisorError(
            f"{pgdata} was made by Postgres {found}, the installed one is {install.version}; move the folder away to "
            f"start empty, or load a dump made with Postgres {found} into the new one"
        )
    if account.uid is not None and pgdata.stat().st_uid != account.uid:
        _give_tree(account, pgdata)
    _drop_stale_pid(pgdata)
    if _stamp(pgdata) != _digest(key):
        _single(install, account, pgdata, "postgres", [_password_sql(key)])
        _write_stamp(account, pgdata, key)


def _make_cluster(install: PostgresInstall, account: Account, pgdata: Path, key: str) -> None:
    draft = pgdata.with_name(f"{pgdata.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700, parents=True)
    account.give(draft)
    options = ["--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", f"--username={ROLE}", "--no-instructions"]
    if int(install.major) >= 17:
        options[1:2] = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    _checked(install, account, ["initdb", *options, "-D", str(draft)], "", f"making {pgdata}")
    (draft / "pg_hba.conf").write_text(_HBA, encoding="ascii")
    _single(install, account, draft, "postgres", [_password_sql(key), f"CREATE DATABASE {DATABASE}"])
    _single(install, account, draft, DATABASE, ["CREATE EXTENSION IF NOT EXISTS vector"])
    _write_stamp(account, draft, key)
    with suppress(FileNotFoundError):
        pgdata.rmdir()
    os.replace(draft, pgdata)


def _single(install: PostgresInstall, account: Account, pgdata: Path, database: str, statements: list[str]) -> None:
    """Run statements in the single-user server, which needs neither port nor password; it exits 0 even on errors."""
    options = ["--single", "-j", "-D", str(pgdata), "-c", "log_min_messages=error", database]
    said = _checked(install, account, ["postgres", *options], ";\n\n".join([*statements, ""]), f"preparing {pgdata}")
    if "ERROR:" in said:
        raise SupervisorError(f"Postgres refused while preparing {pgdata}: {_line(said)}")


def _checked(install: PostgresInstall, account: Account, words: list[str], text: str, what: str) -> str:
    done = run_as(account, [str(install.bin / words[0]), *words[1:]], text=text, env=ENV)
    if done.returncode != 0:
        raise SupervisorError(
            f"{what} failed: {_line(done.stderr or done.stdout)}; free space and a readable folder are needed, "
            "or give LUMIA_DATABASE_URL, or do without: `lumia up --no-postgres`"
        )
    return done.stderr


def _line(said: str) -> str:
    """Return the line of an output that tells what went wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return (telling or lines or ["no reason given"])[0]


def _password_sql(key: str) -> str:
    return f"ALTER ROLE {ROLE} PASSWORD '{key}'"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _stamp(pgdata: Path) -> str:
    try:
        return (pgdata / _STAMP).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _write_stamp(account: Account, pgdata: Path, key: str) -> None:
    """Note which password the cluster has, so that a new secret is noticed at the next start."""
    file = pgdata / _STAMP
    file.write_text(_digest(key) + "\n", encoding="ascii")
    account.give(file)


def _give_tree(account: Account, folder: Path) -> None:
    """Give a cluster that was restored or copied by root to the account that runs it."""
    for path in (folder, *folder.rglob("*")):
        account.give(path)


def _drop_stale_pid(pgdata: Path) -> None:
    """Remove a pid file whose process isn't a Postgres any more: the number may be somebody else's by now."""
    file = pgdata / "postmaster.pid"
    try:
        pid = int(file.read_text(encoding="utf-8").split("\n", 1)[0])
    except (OSError, ValueError):
        return
    import psutil

    try:
        alive = "postgres" in " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        alive = False
    if not alive:
        file.unlink(missing_ok=True)
