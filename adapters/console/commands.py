"""`lumia send` and `lumia chat`: the console in the terminal, on the running bot."""

from __future__ import annotations

import json
import math
import sys
from typing import Annotated

import lumia

from . import terminal
from .chat import Chat, submit

GOOD = ("done", "stopped", "blocked")


@lumia.command("send", help="Send one message to the running bot")
def send(
    text: Annotated[str, "What to say; - reads it from stdin."],
    group: Annotated[str | None, "Say it in this group; without it, in the sender's private chat."] = None,
    sender: Annotated[str, "Who says it."] = "you",
    wait: Annotated[bool, "Wait until the message has gone all its way, and print the replies."] = False,
    timeout: Annotated[float, "How long --wait waits, in seconds."] = 30.0,
    json_: Annotated[bool, "Print JSON."] = False,
    message_id: Annotated[str, "Makes the message known: said again under the same id, it is the same message."] = "",
) -> int:
    """Send one message to the running bot; prints the run's id, or with --wait its replies.

    Exit code 1: the run failed or was cancelled, or --wait ran out of time.

    Example:
      lumia send "Hello, what are you?" --group lab --sender ada --wait --json
    """
    said = sys.stdin.read() if text == "-" else text
    if not said.strip() or not sender.strip():
        return _usage("TEXT and --sender have at least one character that is not a space")
    if group is not None and not group.strip():
        return _usage("--group has at least one character that is not a space; leave it out for the private chat")
    if not 0 < timeout < math.inf:
        return _usage(f"--timeout is a number of seconds above 0, got {timeout:g}")
    run_id = submit(_chat(group, sender), sender, said, message_id or lumia.system.new_id())
    if wait:
        return _report(run_id, timeout, as_json=json_)
    print(json.dumps({"run_id": run_id}) if json_ else run_id, flush=True)
    return 0


@lumia.command("chat", help="Chat with the running bot in the terminal")
def chat(
    group: Annotated[str, "The group to talk in; without it, the sender's private chat."] = "",
    sender: Annotated[str, "Who you are."] = "you",
    history: Annotated[int, "How many earlier messages to show."] = 10,
    timeout: Annotated[float, "How long to wait for each reply, in seconds."] = 120.0,
) -> int:
    """Chat with the running bot; shows the stage at work while it thinks. Ctrl-D ends.

    Lines piped into it are said one after the other, and the replies are printed.

    Example:
      lumia chat --group lab --sender ada
      printf 'Hello!\\nWhat are you?\\n' | lumia chat
    """
    if not sender.strip() or history < 0:
        return _usage("--sender is not empty and --history is not negative")
    talk = terminal.Talk(_chat(group, sender), sender, timeout)
    return talk.by_hand(history) if sys.stdin.isatty() else talk.piped(sys.stdin)


def _chat(group: str | None, sender: str) -> Chat:
    return Chat("group", group) if group else Chat("private", sender)


def _usage(why: str) -> int:
    print(f"error: {why}; see --help", file=sys.stderr)
    return 2


def _report(run_id: str, timeout: float, *, as_json: bool) -> int:
    try:
        result = lumia.runs.wait(run_id, timeout)
    except lumia.errors.RunTimeoutError as error:
        print(f"error: {error}", file=sys.stderr)
        so_far = lumia.runs.result(run_id)
        if as_json and so_far is not None:
            print(json.dumps(so_far.as_dict(), ensure_ascii=False), flush=True)
        return 1
    if as_json:
        print(json.dumps(result.as_dict(), ensure_ascii=False), flush=True)
    else:
        for reply in result.replies:
            print(terminal.printable(reply), flush=True)
        if not result.replies:
            print(terminal.silence(result), file=sys.stderr)
    return 0 if result.outcome in GOOD else 1
