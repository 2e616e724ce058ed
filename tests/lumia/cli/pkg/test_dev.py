"""`pkg dev`, as an author types it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lumia.cli.conftest import Done

QUICK = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # what this machine has for pytest takes seconds to import
COMMAND = [sys.executable, "-m", "lumia", "pkg", "dev"]
# Makes its standard input the terminal that Ctrl-C comes from.
TERMINAL = "import fcntl, os, sys, termios as t; fcntl.ioctl(0, t.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LUMIA_", "GIT_"))}
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "TERM": "dumb", **QUICK}


def dev(folder: Path, *args: str, stdin: str = "") -> Done:
    done = subprocess.run(
        [*COMMAND, *args], cwd=folder, input=stdin.encode(), capture_output=True, env=environment(folder.parent),
        timeout=60, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def dice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new plugin, committed and tagged."""
    home = tmp_path_factory.mktemp("author")
    (home / "at").mkdir()
    made = dev(home / "at", "init", "dice", "--description", "Throws dice.")
    assert (made.code, made.out) == (0, "dice\n"), made
    assert "cd dice && pkg dev run --watch" in made.err
    return home / "at" / "dice"


def test_lines_of_a_pipe_are_answered_on_stdout_and_the_rest_is_on_stderr(dice: Path) -> None:
    done = dev(dice, "run", "--no-steps", stdin="!dice\nhello\n:as bob\n!dice\n:handlers\n:nothing\n")
    assert (done.code, done.out) == (0, "hello, you!\nhello, bob!\n"), done
    assert "dice.answer: pipe msg (plugin.py:10)" in done.err
    assert "no reply: done" in done.err
    assert "there is no :nothing" in done.err


def test_what_fails_in_a_pipe_is_told_by_place_and_exit_code(dice: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "bad"}')
    (tmp_path / "plugin.py").write_text(
        'import lumia\n\n@lumia.pipe.on("msg", retry=1)\ndef bad(content):\n    1 / 0\n'
    )
    done = dev(tmp_path, "run", stdin="hello\n")
    assert (done.code, done.out) == (1, "")
    assert "plugin.py:5: ZeroDivisionError: division by zero" in done.err
    (tmp_path / "plugin.py").write_text("import lumia\nlumia.pipe.on(\n")
    done = dev(tmp_path, "run", stdin="hello\n")
    assert (done.code, done.out) == (1, "")
    assert "plugin.py:2: SyntaxError" in done.err


class Terminal:
    """A terminal with the command on it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._text = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def until(self, pattern: str, seconds: float = 20.0) -> str:
        """Wait until `pattern` is on the screen, and forget everything up to it."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self._text)) is None:
            assert time.monotonic() < end, f"no {pattern!r} in {self._text!r}"
            if select.select([self._fd], [], [], 0.1)[0]:
                self._text += os.read(self._fd, 65536).decode()
        self._text = self._text[found.end() :]
        return found[0]


@contextmanager
def terminal(folder: Path, *args: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, *COMMAND, *args], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(folder.parent), start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Terminal(ours)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_an_author_talks_saves_breaks_and_hangs_the_plugin_without_leaving_the_prompt(dice: Path) -> None:
    file = dice / "plugin.py"
    good = file.read_text()
    try:
        with terminal(dice, "run", "--watch") as screen:
            screen.until("you> ")
            screen.type("!dice\n")
            screen.until("bot> hello, you!")
            screen.until(r"dice\.answer: stop \(answered\)")
            screen.until("you> ")
            file.write_text(good.replace("greeting}", "greeting} hello"))
            assert float(screen.until(r"reloaded in [\d.]+").split()[-1]) < 5
            screen.until("you> ")
            screen.type("!dice")
            file.write_text(good.replace('"""Answer', "oops ("))
            screen.until(r"plugin\.py:\d+: \w*Error")
            screen.until("the version before goes on answering; mend it and save")
            screen.until("you> !dice")  # what was typed is still there
            screen.type("\n")
            screen.until("bot> hello hello, you!")
            screen.until("you> ")
            file.write_text(good.replace("msg = content.into()", "__import__('time').sleep(99)"))
            screen.until("reloaded")
            screen.type("!dice\n")
            screen.until("still at work")
            screen.type("\x03")
            screen.until("begins anew")
            screen.until("you> ")
            file.write_text(good)
            screen.until("reloaded")
            screen.type("!dice\n")
            screen.until("bot> hello, you!")
            screen.until("you> ")
            screen.type("\x04")
    finally:
        file.write_text(good)


def test_the_path_from_test_to_pack(dice: Path) -> None:
    tested = dev(dice, "test", "-k", "greets or setting", "-p", "no:cacheprovider")
    assert (tested.code, "2 passed" in tested.out) == (0, True), tested
    packed = dev(dice, "pack")
    assert packed.code == 0
    assert re.fullmatch(r".*/dist/dice-untagged-cp\d+\n", packed.out), packed
    assert "it loads" in packed.err
    unsigned = dev(dice, "sign")
    assert (unsigned.code, "pkg key new" in unsigned.err) == (1, True), unsigned
    nowhere = dev(dice, "publish", "--registry", "http://127.0.0.1:9", "--yes")
    assert (nowhere.code, "nobody can clone it yet" in nowhere.err) == (1, True), nowhere


WITHOUT_PYTEST = """
import sys
from importlib import util

real = util.find_spec
util.find_spec = lambda name, *package: None if name == "pytest" else real(name, *package)
sys.argv = ["pkg", "dev", "test"]
from lumia.cli.pkg import main

main()
"""


def test_without_pytest_the_way_to_it_is_told(dice: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTEST], cwd=dice, capture_output=True, text=True, env=environment(dice.parent),
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "pytest is not installed here" in done.stderr and "run `make setup` in" in done.stderr
    assert f"{sys.executable} -m pip install 'lumia[testing]'" in done.stderr


def test_outside_of_a_plugin_the_way_in_is_told(tmp_path: Path) -> None:
    done = dev(tmp_path, "run")
    assert (done.code, "pkg dev init NAME" in done.err) == (1, True), done
