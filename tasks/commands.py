"""The commands of the backend: `lumia up`, `down`, `status`, `doctor` and `worker add|remove|list`; `dead` beside."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import typer

from lumia import paths
from lumia.errors import SupervisorError
from lumia.marks import command
from tasks import (  # noqa: F401 (they mark commands of their own)
    dead_commands,
    effect_commands,
    explain_commands,
    isolated_commands,
    lane_commands,
    replay_commands,
)
from tasks.supervise import client, journal_report, status, up
from tasks.supervise.check_loading import check_loading
from tasks.supervise.folders import Folders
from tasks.supervise.plan import UpOptions
from tasks.supervise.reported import as_lines, is_quarantined, reported
from tasks.supervise.service import queues_of
from tasks.supervise.state import UpState
from tasks.supervise.versions import RESTART, outdated, running

INTERRUPTED = 130
"""Exit code of an `up` that was ended before it was ready; afterwards Ctrl-C is its usual end, and 0."""
LAST_PORT = 65532
"""The highest first one of four ports in a row."""


@command("up", help="Start the whole bot on this machine: broker, database, worker, beat, gateway and Flower.")
def up_command(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it is ready; `lumia down` ends it.")
    ] = False,
    no_flower: Annotated[bool, typer.Option("--no-flower", help="Leave Flower out.")] = False,
    no_postgres: Annotated[bool, typer.Option("--no-postgres", help="Leave the database out.")] = False,
    port: Annotated[
        int,
        int,
        typer.Option(min=0, max=LAST_PORT, help="First of four ports in a row: gateway, Flower, Redis, Postgres."),
    ] = 0,
) -> int:
    """Start the bot of this folder and show where it answers; Ctrl-C drains and ends it.

    Servers given by LUMIA_REDIS_URL and LUMIA_DATABASE_URL are used instead of started.

    Example: lumia up --detach --port 9000
    """
    base, root = paths.base(), paths.find_root()
    options = UpOptions(flower=not no_flower, postgres=not no_postgres, port=port)
    if detach:
        _announce(client.up_detached(base, root, options, _note))
        return 0
    folders = Folders(root)
    folders.prepare()
    log = client.fresh_log(folders)

    def say(line: str) -> None:
        client.log_line(log, line)
        _note(line)

    announced: list[UpState] = []

    def announce(state: UpState) -> None:
        announced.append(state)
        _announce_beside(state)

    up.run(base, root, options, say, announce)
    _note("everything has ended")
    return 0 if announced else INTERRUPTED


@command("down", help="Stop the bot that was started in this bot root.")
def down_command(
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to drain before it is hurried, then killed.")] = 60.0,
) -> int:
    """Drain and end the running bot of this folder, however it was started; fine when none runs.

    Example: lumia down --timeout 20
    """
    was_up = client.down(paths.find_root(), _note, timeout=timeout)
    _note("the bot is down" if was_up else "nothing to do: this bot isn't up")
    return 0


@command("status", help="Show the services of this bot root: state, process and address.")
def status_command(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> int:
    """Show what runs and where it answers; the exit code is 0 when the bot is ready, else 1.

    Example: lumia status --json
    """
    root = paths.find_root()
    state = client.status(root)
    old = list(outdated(paths.base(), root, running(state.redis_url)))
    loading = [one.as_dict() for one in check_loading(paths.base(), root)]
    if as_json:
        journal = journal_report.as_dict(state.redis_url)
        more = {**({"journal": journal} if journal else {}), **({"outdated": old} if old else {}),
                **({"loading": loading} if loading else {})}  # fmt: skip
        _print({**state.as_dict(), **more})
    elif state.services:
        status.show(state, sys.stdout)
        failed = [one for one in reported(state.redis_url) if not is_quarantined(one)]
        for line in (*as_lines(failed), *journal_report.lines(state.redis_url)):
            _note(line)
        for text in old:
            _note(f"! plugin {text}; {RESTART}")
    else:
        _note("this bot isn't up; start it with `lumia up`")
    if not as_json:
        for one in loading:
            _note(f"! {one['message']} → {one['fix']}")
    return 0 if state.ready else 1


@command("doctor", help="Check everything a start needs and every known risk; print the way out of each problem.")
def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> int:
    """Check the machine, the folder, the servers, the configuration and the plugins; 0 when nothing hinders a start.

    Example: lumia doctor --json
    """
    from tasks.supervise import doctor

    findings = doctor.examine()
    if as_json:
        _print({"ok": doctor.is_ok(findings), "checks": [finding.as_dict() for finding in findings]})
    else:
        for finding in findings:
            print(finding.line)
    return 0 if doctor.is_ok(findings) else 1


@command("worker add", help="Add a worker for one or more queues to the running bot.")
def worker_add(
    queues: Annotated[
        str, typer.Option(help="Queues it serves, separated by commas; all shared ones if not given.")
    ] = "",
    pool: Annotated[str, typer.Option(help="threads, or prefork for hard time limits.")] = "",
    concurrency: Annotated[int, typer.Option(help="Steps at once; the configured number if not given.")] = 0,
    name: Annotated[str, typer.Option(help="Its name; worker-2, worker-3, … if not given.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a line.")] = False,
) -> int:
    """Start one more worker under the running `lumia up`; it ends with it.

    Example: lumia worker add --queues heavy --pool prefork --concurrency 2 --name heavy
    """
    wanted = {
        "queues": [queue.strip() for queue in queues.split(",") if queue.strip()],
        "pool": pool,
        "concurrency": concurrency,
        "name": name,
    }
    _check_worker(wanted)
    added = client.add_worker(paths.find_root(), wanted)
    if as_json:
        _print(added)
    else:
        print(f"{added['name']} (pid {added['pid']})")
    return 0


def _check_worker(wanted: Mapping[str, Any]) -> None:
    """Raise a usage error for options that no worker can have; the name that is chosen later is fine."""
    from tasks.supervise.services import WorkerOptions

    name, queues = wanted["name"] or "worker", tuple(wanted["queues"])
    try:
        WorkerOptions(name, queues, wanted["pool"], wanted["concurrency"]).checked()
    except SupervisorError as error:
        raise typer.BadParameter(str(error)) from None


@command("worker remove", help="Drain and stop a worker that was added.")
def worker_remove(
    name: Annotated[str, typer.Argument(help="Its name, see `lumia worker list`.", metavar="NAME")],
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for its end.")] = 60.0,
) -> int:
    """End a worker after the steps it is executing; what waits in its queues stays there.

    Example: lumia worker remove heavy
    """
    ended = client.remove_worker(paths.find_root(), name, timeout=timeout)
    print(f"{ended['name']} {'has drained' if ended['drained'] else 'was ended after its grace period'}")
    return 0


@command("worker list", help="List the workers of the running bot and their queues.")
def worker_list(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list instead of lines.")] = False,
) -> int:
    """List the workers of the running bot.

    Example: lumia worker list --json
    """
    found = client.workers(paths.find_root())
    if as_json:
        _print([{**one.as_dict(), "queues": _queues(one.command)} for one in found])
        return 0
    for one in found:
        print(one.name, one.state, one.pid or "-", ",".join(_queues(one.command)) or "all shared queues", sep="\t")
    return 0


def _queues(words: tuple[str, ...]) -> list[str]:
    """Return the queues a worker's command line names; none means all shared ones."""
    return list(queues_of(words))


def _announce(state: UpState) -> None:
    _show(state)
    _tell_notes(state)


def _announce_beside(state: UpState) -> None:
    """Announce without keeping the supervisor's loop from its children: looking at plugins takes a second."""
    _show(state)
    threading.Thread(target=_tell_notes, args=(state,), name="notes", daemon=True).start()


def _show(state: UpState) -> None:
    with suppress(OSError):
        status.show(state, sys.stdout)
        sys.stdout.flush()


def _tell_notes(state: UpState) -> None:
    from tasks.supervise.notes import notes

    for line in notes(paths.base(), paths.find_root(), state):
        _note(line)


def _print(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def _note(line: str) -> None:
    """Print a line for the reader; a closed terminal is no reason to stop."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
