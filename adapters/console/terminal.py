"""A conversation in the terminal: asks, shows the stage at work, prints what the bot said."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import lumia

from .chat import Chat, bot_name, history, submit

_GLANCE = 0.25


def printable(text: str) -> str:
    """Return `text` without control characters, which could command the terminal; tabs and line ends stay."""
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs"))


def silence(result: lumia.runs.RunResult) -> str:
    """Say why a run brought no reply."""
    ends = [step for step in result.steps if step.outcome in ("stop", "block", "failed")]
    where = f" at {ends[-1].handler}" if ends else ""
    why = (ends[-1].reason if ends else "") or result.reason
    return printable(f"no reply: {result.outcome}{where}{f' ({why})' if why else ''}")


def follow(run_id: str, timeout: float, at_work: Callable[[str], None]) -> lumia.runs.RunResult | None:
    """Wait for a run tree, calling `at_work` with each stage that reports; None when it takes longer than `timeout`."""
    cursor, until = lumia.runs.cursor(), lumia.system.monotonic() + timeout
    while lumia.system.monotonic() < until:
        result = lumia.runs.result(run_id)
        if result is None or result.outcome is not None:
            return result
        if result.steps:
            at_work(f"{result.steps[-1].handler}: {result.steps[-1].outcome}")
        entries = lumia.runs.tail(cursor, _GLANCE)
        cursor = entries[-1].cursor if entries else cursor
    return None


class Talk:
    """One person's talk in one chat. timeout: seconds to wait for each reply."""

    def __init__(self, chat: Chat, sender: str, timeout: float) -> None:
        self._chat, self._sender, self._timeout = chat, sender, timeout

    def piped(self, lines: Iterable[str]) -> int:
        """Say every line and print the replies; the exit code is 1 when one of them was not answered in time."""
        code = 0
        for line in lines:
            if not line.strip():
                continue
            result = follow(self._say(line.rstrip("\n")), self._timeout, lambda stage: None)
            for reply in result.replies if result else ():
                print(printable(reply), flush=True)  # noqa: T201 (this is the command's output)
            if result is None or result.outcome in ("failed", "cancelled"):
                code = 1
                sys.stderr.write(f"{silence(result) if result else 'no reply in time'}\n")
        return code

    def by_hand(self, earlier: int) -> int:
        """Talk until Ctrl-D."""
        from rich.console import Console

        console = Console(highlight=False)
        place = f"group {self._chat.id}" if self._chat.kind == "group" else "private chat"
        console.print(f"{bot_name()}, {place}. Ctrl-D ends.", style="dim", markup=False)
        for item in history(self._chat, earlier) if earlier else ():
            _show(console, item["sender"], _told(item), bot=item["from"] == "bot")
        while True:
            try:
                line = console.input(f"[bold]{_escaped(self._sender)}[/bold] ")
            except (EOFError, KeyboardInterrupt):
                console.print()
                return 0
            if line.strip():
                self._answer(console, line)

    def _answer(self, console: Any, line: str) -> None:
        run_id = self._say(line)
        try:
            with console.status("…", spinner="dots") as status:
                result = follow(run_id, self._timeout, lambda stage: status.update(_escaped(stage)))
        except KeyboardInterrupt:
            console.print(f"not waiting any longer; run {run_id} goes on", style="dim", markup=False)
            return
        for reply in result.replies if result else ():
            _show(console, bot_name(), reply, bot=True)
        if result is None or not result.replies:
            words = silence(result) if result else f"no reply in {self._timeout:g} s; run {run_id} goes on"
            console.print(words, style="dim", markup=False)

    def _say(self, text: str) -> str:
        return submit(self._chat, self._sender, text, lumia.system.new_id())


def _told(item: dict[str, Any]) -> str:
    """Return what was said, with a word for each file."""
    files = [f"[{one['kind']}: {one['name']}]" for one in item.get("media", ())]
    return "\n".join(filter(None, [item["text"], *files]))


def _show(console: Any, who: str, text: str, *, bot: bool) -> None:
    console.print(f"[bold{' yellow' if bot else ''}]{_escaped(who)}[/] ", end="")
    console.print(printable(text), markup=False)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))
