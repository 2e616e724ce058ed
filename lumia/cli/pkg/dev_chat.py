"""The chat of `pkg dev run`: what its author types, what the plugin answers, and what happened in between."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from lumia.cli.pkg.dev_screen import Screen
from lumia.pkg.dev.notices import Answer, Notice
from lumia.pkg.dev.session import Session
from lumia.pkg.text import plain

PATIENCE = 2.0
"""Seconds after which the author is told that a message is still at work."""
HELP = """a line of text   is said to the bot; one that begins with ":" is one of these (":: x" says ": x")
:as NAME         speak as NAME from now on
:group [NAME]    speak in a group; without a name in a private chat
:event ID [JSON] start an event, as in :event dice.roll {"sides": 6}
:pipe ID [JSON]  start a pipeline
:cron ID         what a cron mark waits for: a handler like dice.remind, or a tick like cron.1h
:handlers        what the plugin listens to
:reload          load the files as they are now
:quit            end; so does Ctrl-D. Ctrl-C ends a message that hangs"""


class Chat:
    """One author's talk. steps: show what each message went through."""

    def __init__(self, screen: Screen, *, watch: bool, steps: bool) -> None:
        self._screen, self._watch, self._steps = screen, watch, steps
        self._sender, self._group = "you", ""
        self.failed = False
        self._commands: dict[str, Callable[[Session, str], None]] = {
            "help": lambda session, rest: screen.note(HELP),
            "as": self._as,
            "group": self._in_group,
            "event": self._start,
            "pipe": lambda session, rest: self._start(session, rest, "pipe"),
            "cron": self._cron,
            "handlers": lambda session, rest: self.tell_handlers(session),
            "reload": self._reload,
        }

    # --- what the session tells

    def show(self, notice: Notice) -> None:
        """Show a notice; called from the session's thread."""
        getattr(self, f"_show_{notice.kind}")(notice)

    def _show_reply(self, notice: Notice) -> None:
        elsewhere = notice.detail["to"] != self._here()
        to = f" (to {plain(notice.detail['to'])})" if elsewhere else ""
        self._screen.say(f"bot{to}> {notice.text}" if self._screen.interactive else notice.text, "bold yellow")

    def _show_output(self, notice: Notice) -> None:
        self._screen.note(f"| {notice.text}", "dim")

    def _show_loaded(self, notice: Notice) -> None:
        self._screen.note(f"{notice.text} is loaded", "dim")

    def _show_reloaded(self, notice: Notice) -> None:
        self._screen.note(f"reloaded in {notice.detail['seconds']:.1f} s: {notice.text}", "green")

    def _show_broken(self, notice: Notice) -> None:
        self._failure(notice)
        goes_on = "the version before goes on answering" if notice.detail["old"] else "no version answers yet"
        way_out = "mend it and save" if self._watch else "mend it, then :reload"
        self._screen.note(f"not loaded, {goes_on}; {way_out}", "red")

    def _show_failed(self, notice: Notice) -> None:
        attempt = notice.detail.get("attempt", 1)
        if attempt > 1:
            self._screen.note(f"failed again, try {attempt}: {notice.text}", "red")
        else:
            self._failure(notice)

    def _failure(self, notice: Notice) -> None:
        failure = notice.failure
        place = f"{failure.place}: " if failure is not None and failure.place else ""
        if failure is not None and failure.trace:
            self._screen.note(failure.trace, "dim")
        self._screen.note(f"{place}{notice.text}", "bold red")

    def _show_hung(self, notice: Notice) -> None:
        self._screen.note(notice.text, "bold red")

    def _show_crashed(self, notice: Notice) -> None:
        self._screen.note(f"{notice.text}; a new one begins", "bold red")

    def _show_warning(self, notice: Notice) -> None:
        self._screen.note(f"warning: {notice.text}", "yellow")

    def tell_handlers(self, session: Session) -> None:
        """Show what the plugins listen to."""
        for one in session.handlers:
            self._screen.note(f"  {one['name']}: {one['kind']} {one['id']} ({one['source']})", "dim")

    # --- what the author says

    def by_hand(self, session: Session) -> None:
        """Talk until Ctrl-D."""
        self._screen.note("write a message, or :help; Ctrl-D ends", "dim")
        while True:
            try:
                line = self._screen.ask(f"{self._sender}{f'@{self._group}' if self._group else ''}> ")
            except (EOFError, KeyboardInterrupt):
                self._screen.note("")
                return
            if line.strip() in (":quit", ":q"):
                return
            try:
                self._one(session, line)
            except KeyboardInterrupt:
                self._screen.note("its process is ended, and begins anew", "dim")
                session.restart()
                session.wait()

    def piped(self, session: Session, lines: Iterable[str]) -> None:
        """Say every line of the input, one after the other."""
        for line in lines:
            if line.strip() in (":quit", ":q"):
                return
            self._one(session, line.rstrip("\n"))

    def _one(self, session: Session, line: str) -> None:
        if not line.strip():
            return
        if line.startswith(":") and not line.startswith("::"):
            name, _, rest = line[1:].strip().partition(" ")
            command = self._commands.get(name)
            if command is None:
                self._screen.note(f"there is no :{plain(name)}; :help lists what there is", "red")
            else:
                command(session, rest.strip())
            return
        session.wait()
        self._await(session.say(line.removeprefix(":"), self._sender, self._group))

    def _await(self, answer: Answer) -> None:
        patient = time.monotonic() + PATIENCE
        while not answer.over.wait(0.05):
            if answer.trouble and self._screen.interactive:
                self._screen.note("it will be tried again; go on meanwhile", "dim")
                return
            if time.monotonic() > patient:
                patient = math.inf
                self._screen.note(f"… still at work{' (Ctrl-C ends it)' if self._screen.interactive else ''}", "dim")
        self._tell_end(answer)

    def _tell_end(self, answer: Answer) -> None:
        self.failed |= not answer.fine
        if self._steps:
            for step in answer.steps:
                reason = f" ({plain(str(step['reason']))})" if step["reason"] and step["outcome"] != "failed" else ""
                self._screen.note(f"  {step['handler']}: {step['outcome']}{reason}, {step['ms']:.1f} ms", "dim")
        if answer.outcome == "failed":
            self._screen.note("given up: in a bot it would now be among the dead letters", "red")
        elif answer.outcome in ("refused", "unanswerable", "cancelled", "dropped"):
            self._screen.note(f"{answer.outcome}: {answer.reason}", "red")
        elif answer.fine and not answer.replies:
            why = f" ({answer.reason})" if answer.reason else ""
            self._screen.note(f"no reply: {answer.outcome}{why}", "dim")

    # --- its commands

    def _as(self, session: Session, rest: str) -> None:
        self._sender = rest or "you"

    def _in_group(self, session: Session, rest: str) -> None:
        self._group = rest

    def _here(self) -> str:
        from lumia.payloads import destination

        chat = ("group", self._group) if self._group else ("private", self._sender)
        return destination(1, "console", *chat).partition("dest=")[2]

    def _start(self, session: Session, rest: str, flow: str = "event") -> None:
        id, _, text = rest.partition(" {") if " {" in rest else rest.partition(" ")
        try:
            content: Any = json.loads(("{" if " {" in rest else "") + text) if text.strip() else {}
        except ValueError as error:
            self._screen.note(f"after the id comes JSON: {error}", "red")
            return
        session.wait()
        self._await(session.start(flow, id.strip(), content))

    def _cron(self, session: Session, rest: str) -> None:
        session.wait()
        self._await(session.start("cron", rest))

    def _reload(self, session: Session, rest: str) -> None:
        session.reload()
        session.wait()


def run(session_of: Callable[[Callable[[Notice], None]], Session], *, watch: bool, steps: bool | None) -> int:
    """Talk on this process's terminal or pipes and return the exit code: 1 when something piped in was not done."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    chat = Chat(Screen(interactive), watch=watch, steps=interactive if steps is None else steps)
    with session_of(chat.show) as session:
        works = session.wait()
        if interactive:
            if works:
                chat.tell_handlers(session)
            chat.by_hand(session)
            return 0
        if not works and not watch:
            return 1
        chat.piped(session, sys.stdin)
        return int(chat.failed)
