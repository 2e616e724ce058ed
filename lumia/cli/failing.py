"""Failures for programs: with --json there is one JSON value on stdout, whatever happens."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO, cast

from lumia.cli import INTERRUPTED, output
from lumia.errors import LumiaError

FAILED = 1


@contextmanager
def told_as_json(args: Sequence[str]) -> Iterator[None]:
    """Print how the block fails as `{"error": …, "exit_code": …}` where `args` ask for JSON; the failure goes on.

    A command that printed its JSON and fails all the same, as `verify` with findings, has said it there.
    """
    if "--json" not in itertools.takewhile(lambda arg: arg != "--", args):
        yield
        return
    told = _Told(sys.stdout)
    try:
        with redirect_stdout(cast("TextIO", told)):
            yield
    except KeyboardInterrupt:
        told.end("interrupted", INTERRUPTED)
        raise
    except LumiaError as error:
        told.end(str(error), FAILED)
        raise
    except SystemExit as ended:
        cause = ended.__context__
        if type(cause).__name__ == "Abort":
            told.end("interrupted", INTERRUPTED)
        elif ended.code:
            told.end(_reason(cause), ended.code if isinstance(ended.code, int) else FAILED)
        raise
    except Exception as error:  # a fault of ours; its traceback is on stderr
        told.end(f"{type(error).__name__}: {error}", FAILED)
        raise


class _Told:
    """Standard output, which remembers whether a command has printed anything: plugins print their JSON themselves."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._written = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write `text`."""
        self._written = self._written or bool(text)
        return self._stream.write(text)

    def end(self, error: str, code: int) -> None:
        """Print a failure, unless something was printed."""
        if not self._written:
            output.data({"error": " ".join(error.split()), "exit_code": code})


def _reason(cause: BaseException | None) -> str:
    if isinstance(cause, LumiaError):
        return str(cause)
    said = getattr(cause, "format_message", None)  # a wrong command line, in typer's words
    return str(said()) if said is not None else "it failed; standard error says why"
