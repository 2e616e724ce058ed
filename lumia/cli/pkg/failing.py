"""Failures for programs: with --json there is one JSON value on stdout, whatever happens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
    before = output.values_printed()
    try:
        yield
    except KeyboardInterrupt:
        _tell(before, "interrupted", INTERRUPTED)
        raise
    except LumiaError as error:
        _tell(before, str(error), FAILED)
        raise
    except SystemExit as ended:
        cause = ended.__context__
        if type(cause).__name__ == "Abort":
            _tell(before, "interrupted", INTERRUPTED)
        elif ended.code:
            _tell(before, _reason(cause), ended.code if isinstance(ended.code, int) else FAILED)
        raise


def _reason(cause: BaseException | None) -> str:
    if isinstance(cause, LumiaError):
        return str(cause)
    said = getattr(cause, "format_message", None)  # a wrong command line, in typer's words
    return str(said()) if said is not None else "it failed; standard error says why"


def _tell(before: int, error: str, code: int) -> None:
    if output.values_printed() == before:
        output.data({"error": " ".join(error.split()), "exit_code": code})
