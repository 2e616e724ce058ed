"""The small parts of the supervisor: lock, state, requests, logs, ports, identity, pauses."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lumia.errors import SupervisorError
from tasks.supervise import lock, requests
from tasks.supervise.folders import Folders
from tasks.supervise.identity import is_process, same_command, start_mark
from tasks.supervise.logs import keep_bounded, last_lines, open_log, rotate_at_start
from tasks.supervise.ports import free_port, is_free, must_be_free
from tasks.supervise.postgres import buffers
from tasks.supervise.process import LONGEST_PAUSE, pause
from tasks.supervise.secret import password
from tasks.supervise.state import ServiceState, UpState, read_state, write_state
from tests.support.wait import until


def test_the_lock_is_held_by_one_and_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    assert lock.holder(path) is None
    with lock.UpLock(path):
        assert lock.holder(path) == os.getpid()
        with pytest.raises(SupervisorError, match=rf"already up \(pid {os.getpid()}\)"):
            lock.UpLock(path).acquire()
    assert lock.holder(path) is None
    assert not path.exists()


def test_many_who_look_do_not_keep_a_start_from_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    path.touch()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            lock.holder(path)

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(20):
            with lock.UpLock(path):
                pass
    finally:
        over.set()
        for looker in lookers:
            looker.join()


def test_the_state_file_is_private_and_round_trips(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    state = UpState(1, 2.0, True, True, "redis://:x@h/0", "", (ServiceState("a", 3, "ready", None, ("x", "y"), 4.0),))
    write_state(file, state)
    assert read_state(file) == state
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1, "started": 1, "services": [{"name": "x"}]}'])
def test_a_damaged_state_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert read_state(tmp_path / "state.json") is None


def test_a_process_is_known_by_pid_start_and_command() -> None:
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        mark = start_mark(process.pid)
        until(lambda: is_process(process.pid, mark, command), what="the new program's command line is there")
        assert not is_process(process.pid, mark - 1.0, command)
        assert not is_process(process.pid, mark, ["/bin/other"])
        process.communicate(b"\n")
    assert start_mark(process.pid) == 0.0
    assert not is_process(process.pid, mark, command)


@pytest.mark.parametrize(
    "actual, wanted, same",
    [
        (["/x/valkey-server 127.0.0.1:8472"], ["/x/valkey-server", "/y/valkey.conf"], True),
        (["/x/postgres", "-D", "/y"], ["/x/postgres", "-D", "/y", "-c", "a=b"], True),
        (["[celeryd: worker@h]"], ["python", "-m", "celery", "-A", "tasks"], True),
        (["vim", "notes"], ["python", "-m", "celery"], False),
        (["vim"], [], False),
    ],
)
def test_a_server_that_rewrites_its_command_line_is_still_known(
    actual: list[str], wanted: list[str], same: bool
) -> None:
    assert same_command(actual, wanted) is same


def test_a_request_is_answered_and_nothing_of_it_stays(tmp_path: Path) -> None:
    def serve() -> None:
        while True:
            for request in requests.taken(tmp_path):
                requests.answer(tmp_path, request.id, {"echo": request.args["x"], "op": request.op})
                return

    server = threading.Thread(target=serve)
    server.start()
    said = requests.ask(tmp_path, "add", {"x": "ä"}, timeout=10, alive=lambda: True)
    server.join()
    assert said == {"echo": "ä", "op": "add"}
    assert list(tmp_path.iterdir()) == []


def test_a_request_nobody_answers_fails_and_is_taken_back(tmp_path: Path) -> None:
    with pytest.raises(SupervisorError, match=r"no answer within 0\.1 s; see data/logs/up\.log"):
        requests.ask(tmp_path, "add", {}, timeout=0.1, alive=lambda: True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"op": "add"}', '{"op": "add", "args": 7}'])
def test_a_request_that_is_rubbish_is_answered_and_dropped(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.ask").write_text(text)
    assert list(requests.taken(tmp_path)) == []
    assert "not understood" in (tmp_path / "1.answer").read_text()


def test_a_log_over_the_cap_is_put_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "worker.log"
    writer = open_log(file)
    os.write(writer, b"old\n" * 100)
    assert not keep_bounded(file, cap=1000)
    assert keep_bounded(file, cap=100)
    os.write(writer, b"new\n")
    os.close(writer)
    assert file.read_bytes() == b"new\n"
    assert (tmp_path / "worker.log.1").read_bytes() == b"old\n" * 100
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_each_start_begins_with_an_empty_log_and_keeps_the_last_one(tmp_path: Path) -> None:
    file = tmp_path / "up.log"
    rotate_at_start(file)
    file.write_text("one\n\ntwo\n")
    assert last_lines(file, 1) == ["two"]
    rotate_at_start(file)
    assert last_lines(file) == []
    assert last_lines(tmp_path / "up.log.1") == ["one", "two"]


def test_a_taken_port_names_its_owner_and_the_key_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        with pytest.raises(SupervisorError) as caught:
            must_be_free("127.0.0.1", port, key="[redis] port", used_by="Valkey")
    said = str(caught.value)
    assert f"port {port} is taken by" in said
    assert f"(pid {os.getpid()})" in said
    assert "Valkey needs it" in said
    assert "change `[redis] port` in config/lumia.toml" in said
    assert is_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_told_from_a_taken_port() -> None:
    with pytest.raises(SupervisorError, match="can't be listened on"):
        must_be_free("192.0.2.1", free_port(), key="[gateway] port", used_by="the gateway")


def test_a_folder_that_can_not_be_written_is_named_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(SupervisorError, match=r"data can't be written: .*; make it a folder this user may write"):
        Folders(tmp_path).prepare()


def test_the_folders_that_hold_secrets_are_private(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.prepare()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folders.run, folders.requests, folders.logs)] == [0o700] * 3
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []


def test_pauses_double_up_to_half_a_minute() -> None:
    assert [pause(deaths) for deaths in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 4.0]
    assert pause(50) == LONGEST_PAUSE == 30.0


def test_each_server_has_its_own_password_that_outlives_a_restart(bot_root: Path) -> None:
    assert password(bot_root, "redis") == password(bot_root, "redis")
    assert password(bot_root, "redis") != password(bot_root, "postgres")
    assert len(password(bot_root, "redis")) == 40


@pytest.mark.parametrize("gibibytes, mebibytes", [(0.5, 128), (2, 256), (64, 512)])
def test_the_database_keeps_an_eighth_of_the_machine_within_bounds(gibibytes: float, mebibytes: int) -> None:
    assert buffers(int(gibibytes * (1 << 30))) == mebibytes << 20
