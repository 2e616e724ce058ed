"""Settings of a running bot: changes by hand and by other processes, invalid files, writes that can't be done."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lumia import config_live
from lumia.config import ConfigStore, Settings, field
from lumia.config_live import LiveFile
from lumia.config_schema import declared_schema
from lumia.errors import ConfigError, ConfigKeyError, ConfigValueError
from tests.support.wait import until

FIELDS = {
    "threshold": field(float, default=0.65, desc="Engagement threshold", min=0, max=1),
    "words": field(list[str], default=["a"]),
    "name": field(str, default="n"),
    "limits.low": field(int, default=1),
    "sources": field(dict, fields={"token": field(str, secret=True), "n": field(int, 4)}),
}


class Bot:
    """A store with one plugin, and its file."""

    def __init__(self, root: Path, text: str | None = None) -> None:
        self.file = root / "config" / "p.toml"
        self.file.parent.mkdir(exist_ok=True)
        if text is not None:
            self.file.write_text(text)
        self.store = ConfigStore(root, environ={})
        self.settings: Settings = self.store.register("p", declared_schema("p", FIELDS))

    def edit(self, old: str, new: str) -> None:
        """Change the file in place, as many editors do."""
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def seen(self, name: str, value: Any) -> None:
        """Wait for a value to be in force."""
        until(lambda: getattr(self.settings, name) == value, what=f"{name} = {value}")


@pytest.fixture
def bot(tmp_path: Path) -> Bot:
    return Bot(tmp_path)


# --- Changes by others ------------------------------------------------------------------------------------------------


def test_a_hand_edit_is_seen_within_a_second(bot: Bot) -> None:
    bot.edit("threshold = 0.65", "threshold = 0.75")
    until(lambda: bot.settings.threshold == 0.75, timeout=1.0)


def test_edits_of_the_same_length_and_time_are_told_apart(bot: Bot) -> None:
    status = bot.file.stat()
    bot.edit("threshold = 0.65", "threshold = 0.75")
    os.utime(bot.file, ns=(status.st_atime_ns, status.st_mtime_ns))
    bot.seen("threshold", 0.75)


def test_a_file_replaced_by_an_editor_is_seen(bot: Bot) -> None:
    other = bot.file.with_name("p.toml~")
    other.write_text(bot.file.read_text().replace("0.65", "0.1"))
    other.replace(bot.file)
    bot.seen("threshold", 0.1)


def test_another_process_of_the_bot_is_seen_within_a_second(bot: Bot, tmp_path: Path) -> None:
    Bot(tmp_path).settings.limits.low = 7
    until(lambda: bot.settings.limits.low == 7, timeout=1.0)


def test_a_file_emptied_by_an_editor_is_not_taken_for_all_defaults(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    bot.settings.name = "mine"
    with monkeypatch.context() as slow:  # however slow this machine is, the look comes soon after the change
        slow.setattr(config_live, "_SETTLE", 60.0)
        slow.setattr(config_live, "_SETTLE_AT_MOST", 60.0)
        bot.file.write_text("")
        assert bot.store.problems() == []
        assert bot.settings.name == "mine"
    bot.file.write_text('name = "edited"\n')
    until(lambda: bot.store.problems() == [] and bot.settings.name == "edited")


def test_a_file_that_is_written_to_without_end_is_taken_all_the_same(bot: Bot) -> None:
    def probe() -> bool:
        bot.file.write_text(f'name = "x"\n# {time.monotonic_ns()}\n')
        return bool(bot.settings.name == "x")

    until(probe)


def test_reading_looks_at_the_file_only_now_and_then(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    real = Path.stat

    def counted(self: Path, **options: Any) -> os.stat_result:
        looks.append(self.name)
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", counted)
    until(lambda: bot.settings.threshold and looks)
    looks.clear()
    assert [bot.settings.threshold for _ in range(100)] == [0.65] * 100
    assert len(looks) < 10


# --- Invalid files ----------------------------------------------------------------------------------------------------

BROKEN = [
    (b"threshold = 3\n", r"p\.toml: threshold = 3 is not allowed \(allowed: float from 0\.0 to 1\.0\); correct it, or"),
    (b"[limits]\nlow = 'x'\n", r"p\.toml: \[limits\] low = 'x' is not allowed \(allowed: int\)"),
    (b"threshold = 3\nname = 1\n", r"threshold = 3 .* name = 1 is not allowed"),
    (b"limits = 3\n", r"limits = 3 is not allowed \(allowed: table\)"),
    (
        b"[sources]\nx = 1\n",
        r"\[sources\] x = 1 is not allowed \(allowed: table with the keys token, n\); correct it\.",
    ),
    (b"[sources.x]\ntoken = 12345\n", r"\[sources\.x\] token = \*\*\* is not allowed"),
    (b"a = 1\nb = \n", r"p\.toml is no valid TOML: .*at line 2.*; correct that line"),
    (b"a = 1\na = 2\n", r"no valid TOML: .*line 2"),
    (b"name = 'a\x00b'\n", r"no valid TOML: .*line 1"),
    (b"# \xe4\n", r"p\.toml: line 1 is not UTF-8; save the file as UTF-8"),
    ("name = 'a'\n".encode("utf-16"), r"line 1 is not UTF-8 \(it looks like UTF-16\)"),
    (b"a = " + b"[" * 5000, r"no valid TOML"),
    (b"a = " + b"1" * 5000, r"no valid TOML"),
    (b"# " + b"x" * (4 << 20), r"must be a regular file of at most 4 MiB"),
]


@pytest.mark.parametrize("data, message", BROKEN)
def test_an_invalid_file_stops_the_start_and_is_left_as_it_is(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "config" / "p.toml"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        Bot(tmp_path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("data, message", BROKEN)
def test_an_invalid_file_leaves_a_running_bot_its_last_good_values(bot: Bot, data: bytes, message: str) -> None:
    bot.settings.threshold = 0.3
    good = bot.file.read_text()
    bot.file.write_bytes(data)
    problems = until(bot.store.problems)
    assert [(problem.plugin, problem.file, problem.severity) for problem in problems] == [("p", bot.file, "error")]
    assert "the last good values hold" in str(problems[0])
    assert re.search(message, problems[0].message)
    assert (bot.settings.threshold, bot.settings.name, bot.settings.limits.low) == (0.3, "n", 1)
    bot.file.write_text(good.replace("0.3", "0.4"))
    bot.seen("threshold", 0.4)
    assert bot.store.problems() == []


def test_one_problem_is_logged_once_each_time_it_comes(bot: Bot, caplog: pytest.LogCaptureFixture) -> None:
    bot.file.write_text("threshold = 3\n")
    until(bot.store.problems)
    for _ in range(5):
        assert len(bot.store.problems()) == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    bot.settings.threshold = 0.5
    bot.file.write_text("threshold = 3\n")
    until(bot.store.problems)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_an_invalid_file_that_is_put_back_as_it_was_is_good_again(bot: Bot) -> None:
    good = bot.file.read_text()
    bot.file.write_text("threshold = 3\n")
    until(bot.store.problems)
    bot.file.write_text(good)
    until(lambda: not bot.store.problems())


def test_a_removed_file_is_a_problem_and_comes_back_with_the_next_change(bot: Bot) -> None:
    bot.settings.name = "mine"
    bot.file.unlink()
    problem = until(bot.store.problems)[0]
    assert "p.toml is gone; the last good values hold, and the next change writes the file again" in str(problem)
    assert bot.settings.name == "mine"
    bot.settings.threshold = 0.2
    assert 'name = "mine"' in bot.file.read_text()
    assert bot.store.problems() == []


def test_a_file_moved_away_and_back_is_good_again(bot: Bot) -> None:
    os.utime(bot.file, (1, 1))
    bot.settings.threshold = 0.3
    os.utime(bot.file, (1, 1))
    away = bot.file.rename(bot.file.with_name("away"))
    until(bot.store.problems)
    away.rename(bot.file)
    until(lambda: not bot.store.problems())


def test_a_folder_or_a_pipe_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "p.toml").mkdir()
    with pytest.raises(ConfigError, match=r"p\.toml (can't be read: Is a directory|is no settings file)"):
        Bot(tmp_path)
    (tmp_path / "config" / "p.toml").rmdir()
    os.mkfifo(tmp_path / "config" / "p.toml")
    with pytest.raises(ConfigError, match="it must be a regular file"):
        Bot(tmp_path)


def test_a_file_that_can_not_be_looked_at_leaves_the_last_good_values(bot: Bot) -> None:
    bot.file.unlink()
    bot.file.symlink_to(bot.file.name)  # leads to itself
    problem = until(bot.store.problems)[0]
    assert "can't be looked at" in str(problem)
    assert bot.settings.name == "n"


def test_an_unknown_key_is_kept_and_warned_about_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bot = Bot(tmp_path, "treshold = 0.1  # mine\n[other]\nx = 1\n")
    bot.settings.threshold = 0.2
    assert "treshold = 0.1  # mine" in bot.file.read_text()
    assert [str(problem) for problem in bot.store.problems()] == [
        f"{bot.file}: treshold is no setting of p and has no effect (did you mean threshold?)",
        f"{bot.file}: other is no setting of p and has no effect",
    ]
    assert caplog.text.count("treshold is no setting") == 1


def test_a_file_with_secrets_that_others_can_read_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "p.toml").touch(0o644)
    bot = Bot(tmp_path, '[sources.x]\ntoken = "abc"\n')
    assert f"run `chmod 600 {bot.file}`" in str(bot.store.problems()[0])


# --- Writing ----------------------------------------------------------------------------------------------------------


def test_a_write_is_in_the_file_at_once_and_keeps_comments(bot: Bot) -> None:
    bot.edit("threshold = 0.65", "threshold = 0.65  # tuned for the night")
    bot.settings.threshold = 1
    assert "threshold = 1.0  # tuned for the night" in bot.file.read_text()
    assert bot.settings.threshold == 1.0


def test_a_write_keeps_hand_edits_that_nobody_has_read_yet(bot: Bot) -> None:
    bot.edit('name = "n"', 'name = "by hand"')
    bot.settings.threshold = 0.2
    assert (bot.settings.name, bot.settings.threshold) == ("by hand", 0.2)


@pytest.mark.parametrize("value", [1.5, "high", None, True, float("nan")])
def test_a_wrong_value_is_refused_and_changes_nothing(bot: Bot, value: Any) -> None:
    before = bot.file.read_bytes()
    with pytest.raises(
        ConfigValueError, match=r"threshold = .* is not allowed for p \(allowed: .*nothing was changed in"
    ):
        bot.settings.threshold = value
    assert bot.file.read_bytes() == before
    assert bot.settings.threshold == 0.65


def test_line_ends_and_byte_order_mark_stay(tmp_path: Path) -> None:
    bot = Bot(tmp_path)
    text = '# one\r\nname = "a"  # two\r\nwords = ["x",\r\n  "y"]\r\n'
    bot.file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    bot.seen("name", "a")
    bot.settings.name = "b\nc"
    bot.settings.limits.low = 3
    data = bot.file.read_bytes()
    assert data.startswith(b'\xef\xbb\xbf# one\r\nname = "b\\nc"  # two\r\n')
    assert data.count(b"\n") == data.count(b"\r\n")
    assert Bot(tmp_path).settings.name == "b\nc"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "p.toml").symlink_to("../elsewhere/real.toml")
    bot = Bot(tmp_path)
    bot.settings.name = "linked"
    assert bot.file.is_symlink()
    assert 'name = "linked"' in (tmp_path / "elsewhere" / "real.toml").read_text()


def test_the_mode_of_a_file_stays_and_one_for_secrets_is_private(bot: Bot, tmp_path: Path) -> None:
    assert bot.file.stat().st_mode & 0o777 == 0o600
    bot.file.chmod(0o640)
    bot.settings.name = "x"
    assert bot.file.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "config" / "lumia.toml").stat().st_mode & 0o400


def test_nothing_is_written_when_the_value_is_there_already(bot: Bot) -> None:
    before = bot.file.stat()
    bot.settings.threshold = 0.65
    assert bot.file.stat().st_ino == before.st_ino


def test_an_unparsable_file_is_not_written_to(bot: Bot) -> None:
    bot.file.write_text("name = \n")
    with pytest.raises(ConfigError, match="no valid TOML"):
        bot.settings.name = "x"
    assert bot.file.read_text() == "name = \n"
    assert bot.settings.name == "n"


def test_a_write_holds_while_a_hand_edit_of_another_setting_is_invalid(bot: Bot) -> None:
    bot.edit("threshold = 0.65", "threshold = 6.5")
    bot.settings.name = "x"
    assert (bot.settings.name, bot.settings.threshold) == ("x", 0.65)
    assert "threshold = 6.5" in str(bot.store.problems()[0])
    bot.settings.threshold = 0.5  # repairs it
    assert (bot.settings.name, bot.settings.threshold, bot.store.problems()) == ("x", 0.5, [])


def test_a_form_that_can_not_be_edited_is_refused_naming_the_file(bot: Bot) -> None:
    bot.file.write_text("limits = 1\n")
    with pytest.raises(ConfigError, match=r"p\.toml: limits is no table"):
        bot.settings.limits.low = 2


def test_a_table_can_be_changed_whole_or_by_entry_without_spelling_out_defaults(bot: Bot) -> None:
    store, settings = bot.store, bot.settings
    settings.sources = {"a": {"token": "t"}, "b": {}}
    settings.sources = {**settings.sources, "c.d": {"n": 5}}
    store.set_path("sources.a.n", 9, "p")
    store.set_path("sources.e", {"token": "z"}, "p")
    store.remove_path("sources.b", "p")
    assert settings.sources == {
        "a": {"token": "t", "n": 9}, "c.d": {"token": "", "n": 5}, "e": {"token": "z", "n": 4},
    }  # fmt: skip
    assert bot.file.read_text().count("n = 4") == 1  # in the sample's comment only
    store.remove_path(("sources", "c.d"), "p")
    settings.sources = {}
    assert settings.sources == {}


@pytest.mark.parametrize(
    "path, value, error, message",
    [
        ("sources.a.tokn", "x", ConfigKeyError, r"no setting sources\.a\.tokn .*sources\.<name>\.token"),
        ("sources.a.token", 5, ConfigValueError, r"sources\.a\.token = \*\*\* is not allowed for p \(allowed: str\)"),
        ("sources.a", 5, ConfigValueError, r"sources\.a = 5 is not allowed for p"),
        ("name.x", 5, ConfigKeyError, r"p has no setting name\.x"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused(bot: Bot, path: str, value: Any, error: type[Exception], message: str) -> None:
    before = bot.file.read_text()
    with pytest.raises(error, match=message):
        bot.store.set_path(path, value, "p")
    assert bot.file.read_text() == before


def test_lists_and_tables_are_copies(bot: Bot) -> None:
    bot.settings.words.append("lost")
    assert bot.settings.words == ["a"]


def test_a_write_that_fails_changes_nothing_and_says_why(bot: Bot) -> None:
    temporary = bot.file.with_name(".p.toml.tmp")
    temporary.mkdir()
    before = bot.file.read_bytes()
    with pytest.raises(ConfigError, match=r"name of p was not changed: .*p\.toml can't be written \(Is a directory\)"):
        bot.settings.name = "x"
    assert (bot.file.read_bytes(), bot.settings.name) == (before, "n")
    temporary.rmdir()
    bot.settings.name = "x"


def test_a_start_that_can_not_write_runs_on_the_defaults_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "config" / ".lumia.lock").mkdir(parents=True)
    bot = Bot(tmp_path)
    assert (bot.settings.threshold, bot.store.core.worker.concurrency) == (0.65, 16)
    assert not bot.file.exists()
    problems = bot.store.problems()
    assert [(problem.plugin, problem.severity) for problem in problems] == [("lumia", "warning"), ("p", "warning")]
    assert "lacks settings and can't be completed (Is a directory); defaults hold" in str(problems[0])


FULL_DISK = """
import resource, sys
from pathlib import Path
from lumia.config import ConfigStore, field
from lumia.config_schema import declared_schema
from lumia.errors import ConfigError
settings = ConfigStore(sys.argv[1]).register("p", declared_schema("p", {"name": field(str, "n")}))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
settings.name = "short"
try:
    settings.name = "x" * 5000
except ConfigError as error:
    print(settings.name, error)
"""


def run(script: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    out, err = run(FULL_DISK, tmp_path).communicate(timeout=60)
    assert out.startswith("short name of p was not changed:"), err
    assert "File too large" in out
    assert 'name = "short"' in (tmp_path / "config" / "p.toml").read_text()
    assert not list((tmp_path / "config").glob("*.tmp"))


READ_ONLY = """
import os, sys, tempfile
from lumia.config import ConfigStore, field
from lumia.config_schema import declared_schema
from lumia.errors import ConfigError
with tempfile.TemporaryDirectory() as warm:  # imports what an ordinary user may not be able to read later
    ConfigStore(warm).core.worker.batch = 2
if os.getuid() == 0:
    os.setuid(65534)
store = ConfigStore(sys.argv[1])
settings = store.register("p", declared_schema("p", {"name": field(str, "n")}))
assert settings.name == "kept", settings.name
try:
    settings.name = "x"
except ConfigError as error:
    print(settings.name, error)
"""


def test_a_read_only_folder_serves_a_bot_and_refuses_writes(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("bot")
    config = root / "config"
    config.mkdir()
    (config / "p.toml").write_text('name = "kept"\n')
    for folder in (root, *[parent for parent in root.parents if parent.name.startswith(("pytest-", "popen-"))]):
        folder.chmod(0o755)
    config.chmod(0o555)
    try:
        out, err = run(READ_ONLY, root).communicate(timeout=60)
    finally:
        config.chmod(0o755)
    assert out.startswith("kept name of p was not changed:"), err
    assert "can't be written (Permission denied)" in out
    assert (config / "p.toml").read_text() == 'name = "kept"\n'


# --- Several writers --------------------------------------------------------------------------------------------------

WRITER = """
import sys
from lumia.config import ConfigStore, field
from lumia.config_schema import declared_schema
fields = {f"k{n}": field(int, 0) for n in range(4)}
settings = ConfigStore(sys.argv[1]).register("p", declared_schema("p", fields))
print("ready", flush=True)
sys.stdin.readline()
for value in range(1, 26):
    for n in sys.argv[2].split(","):
        setattr(settings, f"k{n}", value)
        assert getattr(settings, f"k{n}") == value
"""


def test_two_processes_writing_different_settings_lose_nothing(tmp_path: Path) -> None:
    writers = [run(WRITER, tmp_path, which, stdin=subprocess.PIPE) for which in ("0,1", "2,3")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    results = [writer.communicate(timeout=60) for writer in writers]
    assert [error for _, error in results] == ["", ""]
    fields = {f"k{n}": field(int, 0) for n in range(4)}
    store = ConfigStore(tmp_path)
    store.register("p", declared_schema("p", fields))
    assert store.as_dict("p") == {"k0": 25, "k1": 25, "k2": 25, "k3": 25}
    assert (tmp_path / "config" / "p.toml").read_text().count("# int, default 0") == 4


def test_threads_of_one_process_lose_nothing(bot: Bot) -> None:
    def write(name: str) -> None:
        for number in range(10):
            bot.store.set_path(("sources", name), {"n": number + 100}, "p")

    threads = [threading.Thread(target=write, args=(f"s{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: entry["n"] for name, entry in bot.settings.sources.items()} == {f"s{n}": 109 for n in range(4)}


@contextmanager
def being_written(live: LiveFile) -> Iterator[None]:
    """Have another thread hold the lock of a settings file."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with live._lock():
            entered.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert entered.wait(10)
    try:
        yield
    finally:
        leave.set()
        holder.join()


def test_a_reader_does_not_wait_for_a_writer(bot: Bot) -> None:
    live = bot.store.file("p")
    with being_written(live):
        live._next_check = 0.0
        assert bot.settings.threshold == 0.65


def test_a_process_forked_in_the_middle_of_a_write_can_still_write(bot: Bot) -> None:
    live = bot.store.file("p")
    with being_written(live):
        live._owner = -1  # what a forked child finds: the lock is another process's
        bot.settings.name = "from the child"
        assert bot.settings.name == "from the child"


# --- Other schemas ----------------------------------------------------------------------------------------------------


def test_an_upgrade_adds_settings_and_old_ones_stay_readable(bot: Bot) -> None:
    old = bot.settings
    old.name = "mine"
    new = bot.store.register("p", declared_schema("p", {"threshold": field(float, 0.65), "fresh": field(int, 5)}))
    assert (new.fresh, new.threshold) == (5, 0.65)
    assert old.name == "mine"  # a handler of the old version finishes its run
    assert "fresh = 5" in bot.file.read_text()
    assert 'name = "mine"' in bot.file.read_text()
    with pytest.raises(ConfigKeyError):
        new.name = "x"


def test_an_upgrade_the_file_does_not_fit_leaves_everything_as_it_was(bot: Bot) -> None:
    before = bot.file.read_text()
    with pytest.raises(ConfigValueError, match=r"words = \['a'\] is not allowed"):
        bot.store.register("p", declared_schema("p", {"words": field(str, "b"), "fresh": field(int, 5)}))
    assert bot.file.read_text() == before
    assert bot.settings.words == ["a"]
