"""What an adapter does with `msg.send`; its platform is a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lumia
from lumia import adapters

from .common import count_call


@lumia.event.consumer_re("msg.send, dest=199.probe.*")
def hands_parts_on(src: str, content: lumia.Box[Any]) -> None:
    adapters.dispatch("probe", src, content)


@lumia.event.consumer("probe.send", retry=lumia.Retry(attempts=3, backoff=0.05))
def delivers_parts(content: lumia.Box[Any]) -> None:
    with adapters.delivering(content) as out:
        for number, text in enumerate(out.text.split("|")):
            out.part(number, post, out.chat, text)


def post(folder: str, text: str) -> dict[str, Any]:
    """Append to the platform's file; the beginning of a text says how often and with what it fails before."""
    fault, _, said = text.rpartition(":")
    if fault and count_call(f"{folder}/{said}") == 1:
        raise {
            "busy": lumia.errors.RetryAfterError("too many", wait=0.2),
            "away": lumia.errors.UnreachableError("connection refused"),
            "never": lumia.errors.RejectedError("blocked"),
            "silent": TimeoutError("no answer"),
        }[fault]
    with (Path(folder) / "sent").open("a") as file:
        file.write(f"{said}\n")
    return {"message_id": f"id of {said}"}
