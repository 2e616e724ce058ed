"""The folder of personas in a running bot: who is chosen where, live, and what bad files cost."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.checks import findings
from lumia.testing import Bot, ManualClock
from tests.lumia.replay.scripted import replayed, trees

PLUGIN = Path(__file__).parents[3] / "handlers" / "persona_loader"
SHIPPED = "You are {name}, a friendly member of this chat. You answer briefly, in the language you are spoken to."


class Folder:
    """A bot root with personas."""

    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / "config" / "personas"
        self.path.mkdir(parents=True)

    def write(self, file: str, text: str | bytes) -> None:
        (self.path / file).write_bytes(text if isinstance(text, bytes) else text.encode())

    def bot(self, *more: Any, **config: Any) -> Bot:
        return Bot(PLUGIN, *more, root=self.root, config={"persona-loader": config}, clock=ManualClock())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def bot(folder: Folder) -> Iterator[Bot]:
    with folder.bot() as bot:
        yield bot


def service() -> Any:
    return lumia.services.get("persona")


def prompt(chat: str = "42", kind: str = "group", platform: str = "qq") -> str:
    return str(service().of(platform, kind, chat).prompt)


def later(bot: Bot, seconds: float = 1.0) -> None:
    assert isinstance(bot.clock, ManualClock)
    bot.clock.move(seconds)


def told(bot: Bot) -> list[str]:
    assert bot.runtime.plugins is not None
    return [one.message for name, one in findings(bot.runtime.plugins) if name == "personas"]


# --- who is chosen where


def test_without_files_everyone_has_the_shipped_persona(bot: Bot) -> None:
    found = service().of("qq", "group", "42")
    assert (found.name, found.prompt, found.source) == ("default", SHIPPED, "shipped with persona-loader")
    assert service().names() == ("default",)


def test_without_the_folder_it_is_the_same(folder: Folder) -> None:
    folder.path.rmdir()
    with folder.bot() as bot:
        assert prompt() == SHIPPED
        assert told(bot) == ["1 persona, by default 'default'"]


def test_a_file_called_default_takes_the_place_of_the_shipped_one(folder: Folder) -> None:
    folder.write("default.md", "You are a cat.")
    with folder.bot():
        assert prompt() == prompt("7", "private") == "You are a cat."
        assert service().of("qq", "group", "42").source == "config/personas/default.md"


def test_the_settings_give_a_group_its_own_and_the_qualified_id_wins(folder: Folder) -> None:
    folder.write("quiz.toml", 'prompt = "quiz"')
    folder.write("cat.md", "cat")
    folder.write("plain.md", "plain")
    with folder.bot(default="plain", groups={"qq:42": "quiz", "42": "cat"}):
        assert [prompt(), prompt(platform="telegram"), prompt("43")] == ["quiz", "cat", "plain"]


def test_a_groups_persona_is_not_that_of_the_person_with_the_same_id(folder: Folder) -> None:
    folder.write("quiz.toml", 'prompt = "quiz"')
    with folder.bot(groups={"42": "quiz"}):
        assert prompt(kind="private") == SHIPPED


def test_what_is_chosen_in_the_chat_wins_over_the_settings_until_it_is_taken_back(folder: Folder) -> None:
    folder.write("quiz.toml", 'prompt = "quiz"')
    folder.write("猫.md", "cat")
    with folder.bot(groups={"qq:42": "quiz"}):
        assert service().choose("qq", "group", "42", "猫").name == "猫"
        assert [prompt(), prompt("43"), prompt(platform="telegram")] == ["cat", SHIPPED, SHIPPED]
        assert service().choose("qq", "group", "42", None).name == "quiz"
        assert prompt() == "quiz"


def test_what_is_chosen_outlives_the_service(folder: Folder) -> None:
    folder.write("quiz.toml", 'prompt = "quiz"')
    with folder.bot():
        service().choose("qq", "group", "42", "QUIZ")
        plugin = type(service())
        again = plugin(service()._library.__class__(folder.root))
        assert (again.of("qq", "group", "42").prompt, again.chosen("qq", "group", "42")) == ("quiz", "quiz")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "quiz.toml", "", "quiz\n", "x" * 9999, "\ud800", "a\x00"])
def test_a_name_that_is_none_chooses_nothing_and_tells_what_there_is(folder: Folder, name: str) -> None:
    folder.write("quiz.toml", 'prompt = "quiz"')
    (folder.root / "config" / "secret.md").write_text("secret")
    with folder.bot():
        with pytest.raises(lumia.LumiaError, match=r"there is no persona .*(there are default, quiz|did you mean)"):
            service().choose("qq", "group", "42", name)
        assert prompt() == SHIPPED


def test_a_chosen_persona_whose_file_is_gone_gives_way_and_the_trace_says_so(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("quiz.toml", 'prompt = "quiz"')

    @lumia.pipe.on("ask")
    def ask(content: lumia.Box[Any]) -> None:
        lumia.annotate(saw=prompt())

    with folder.bot(ask) as bot:
        service().choose("qq", "group", "42", "quiz")
        (folder.path / "quiz.toml").unlink()
        later(bot)
        with caplog.at_level(logging.WARNING):
            results = [bot.start("ask", {}) for _ in range(3)]
        (entry,) = [
            one for one in lumia.runs.tail("0") if one.kind == "step" and one.run_id == results[0].run_id
        ]  # fmt: skip
        assert entry.detail["saw"] == SHIPPED
        assert entry.detail["persona_missing"] == ["there is no persona 'quiz' in config/personas"]
        assert len([line for line in caplog.messages if "quiz" in line]) == 1
        folder.write("quiz.toml", 'prompt = "back"')
        later(bot)
        assert prompt() == "back"


# --- live


def test_a_changed_file_holds_within_a_second_without_a_restart(folder: Folder) -> None:
    folder.write("default.md", "one")
    with folder.bot() as bot:
        assert prompt() == "one"
        folder.write("default.md", "two")
        later(bot, 0.5)
        assert prompt() == "one"
        later(bot, 0.5)
        assert prompt() == "two"


def test_a_change_that_leaves_time_and_size_as_they_were_is_seen_while_it_is_fresh(folder: Folder) -> None:
    folder.write("default.md", "one")
    with folder.bot() as bot:
        assert prompt() == "one"
        before = (folder.path / "default.md").stat()
        folder.write("default.md", "two")
        os.utime(folder.path / "default.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        later(bot)
        assert prompt() == "two"


def test_a_new_file_can_be_chosen_a_second_later(folder: Folder, bot: Bot) -> None:
    assert service().names() == ("default",)
    folder.write("quiz.toml", 'prompt = "quiz"')
    later(bot)
    assert service().names() == ("default", "quiz")


def test_a_file_that_breaks_keeps_its_last_good_version_and_is_logged_once(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("default.toml", 'prompt = "good"')
    with folder.bot() as bot, caplog.at_level(logging.WARNING):
        folder.write("default.toml", 'prompt = "good"\nhint = \n')
        for _ in range(5):
            later(bot)
            assert prompt() == "good"
        (line,) = caplog.messages
        assert line.startswith("config/personas/default.toml:2: no valid TOML: Invalid value")
        assert line.endswith("the last version that could be read holds")
        assert told(bot)[0].startswith("config/personas/default.toml:2: no valid TOML")
        folder.write("default.toml", 'prompt = "mended"')
        later(bot)
        assert prompt() == "mended"


def test_a_file_that_never_could_be_read_is_no_persona(folder: Folder) -> None:
    folder.write("quiz.toml", "prompt = ")
    with folder.bot(groups={"qq:42": "quiz"}) as bot:
        assert prompt() == SHIPPED
        with pytest.raises(lumia.LumiaError, match=r"quiz.toml:1: no valid TOML"):
            service().choose("qq", "group", "42", "quiz")
        assert len(told(bot)) == 1


def test_a_replay_sees_the_prompt_that_was_used(folder: Folder) -> None:
    seen: list[str] = []

    @lumia.pipe.on("msg")
    def ask(content: lumia.Box[Any]) -> None:
        persona = service()
        seen.append(persona.of("qq", "group", "42").prompt + persona.hint("qq", "group", "42"))
        lumia.store.set("saw", seen[-1])

    folder.write("default.md", "one")
    with folder.bot(ask) as bot:
        bot.send("hi")
        found = trees(bot)
        folder.write("default.md", "two")
        later(bot)
        assert prompt() == "two"
        (done,) = replayed(found, bot)
    assert (done.differences, done.skipped) == ([], "")
    assert seen == ["oneone"] * 2


# --- bad folders


def test_a_link_out_of_the_folder_is_refused_and_one_within_it_is_not(folder: Folder) -> None:
    (folder.root / "secret.md").write_text("secret")
    folder.write("cat.md", "cat")
    (folder.path / "out.md").symlink_to(folder.root / "secret.md")
    (folder.path / "in.md").symlink_to(folder.path / "cat.md")
    (folder.path / "loop.md").symlink_to(folder.path / "loop.md")
    (folder.path / "gone.md").symlink_to(folder.path / "nowhere.md")
    with folder.bot(groups={"1": "out", "2": "in", "3": "loop", "4": "gone"}) as bot:
        assert [prompt(chat) for chat in "1234"] == [SHIPPED, "cat", SHIPPED, SHIPPED]
        assert "config/personas/out.md: the link leads out of the folder; copy the file into it" in told(bot)


def test_what_is_no_regular_file_is_never_opened(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe.md")
    (folder.path / "sub.md").mkdir()
    with folder.bot(groups={"1": "pipe", "2": "sub"}) as bot:
        assert [prompt("1"), prompt("2")] == [SHIPPED] * 2
        assert "config/personas/pipe.md: it is no regular file" in told(bot)


def test_a_mounted_config_map_is_read_and_its_update_seen(folder: Folder) -> None:
    for version, text in (("..1", "one"), ("..2", "two")):
        (folder.path / version).mkdir()
        (folder.path / version / "default.md").write_text(text)
    (folder.path / "..data").symlink_to("..1")
    (folder.path / "default.md").symlink_to(Path("..data") / "default.md")
    with folder.bot() as bot:
        assert (prompt(), service().names()) == ("one", ("default",))
        (folder.path / "..tmp").symlink_to("..2")
        (folder.path / "..tmp").rename(folder.path / "..data")
        later(bot)
        assert prompt() == "two"


def test_two_files_of_one_name_are_told(folder: Folder) -> None:
    folder.write("quiz.md", "markdown")
    folder.write("Quiz.toml", 'prompt = "toml"')
    with folder.bot(groups={"42": "quiz"}) as bot:
        assert prompt() == "toml"
        assert told(bot) == ["config/personas/quiz.md: not used, since config/personas/Quiz.toml has the same name"]


def test_files_that_can_not_be_chosen_are_told_and_others_passed_over(folder: Folder) -> None:
    folder.write("a:b.md", "x")
    (folder.path / os.fsdecode(b"\xff.md")).write_text("x")
    for file in ("README.md", ".hidden.md", "_draft.toml", "notes.txt"):
        folder.write(file, "x")
    with folder.bot() as bot:
        assert service().names() == ("default",)
        assert len(told(bot)) == 2 and all("nobody can choose" in line for line in told(bot))
        assert all(line.encode() for line in told(bot))


def test_ten_thousand_files_are_listed_and_only_the_chosen_one_is_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10_000):
        folder.write(f"p{number}.md", f"persona {number}")
    with folder.bot(default="p7") as bot:
        opened: list[str] = []
        real = Path.open

        def counted(self: Path, *args: Any, **kwargs: Any) -> Any:
            opened.append(self.name)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(Path, "open", counted)
        later(bot)
        assert prompt() == "persona 7"
        assert len(service().names()) == 10_001
        assert set(opened) <= {"p7.md"}
        with pytest.raises(lumia.LumiaError, match="and 9991 more"):
            service().choose("qq", "group", "42", "zebra crossing")


def test_doctor_tells_of_at_most_twenty_files_and_counts_the_rest(folder: Folder) -> None:
    for number in range(30):
        folder.write(f"p{number}.md", "")
    with folder.bot() as bot:
        assert len(told(bot)) == 21
        assert told(bot)[-1] == "10 more findings of this kind"


def test_doctor_names_settings_that_choose_what_is_not_there(folder: Folder) -> None:
    folder.write("quiz.toml", 'prompt = "quiz"')
    with folder.bot(default="gone", groups={"qq:42": "kwiz", "qq:43": 7, "qq:44": "quiz"}) as bot:
        assert told(bot) == [
            'config/persona-loader.toml: groups."qq:43" is 7, no name',
            (
                "config/persona-loader.toml: groups.\"qq:42\": there is no persona 'kwiz' in config/personas; "
                "the default stands in"
            ),
            "config/persona-loader.toml: default: there is no persona 'gone' in config/personas; the default stands in",
        ]
        assert [prompt(), prompt("43"), prompt("44")] == [SHIPPED, SHIPPED, "quiz"]
