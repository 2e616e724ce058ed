"""`lumia lab …`: a recorded group log through the chain, and what two configurations make of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import lumia

if TYPE_CHECKING:
    from .lab_setup import Variant

Settings = Annotated[list[str], "A setting, as heartflow.trigger_threshold=0.5; may be given again."]
ModelNames = Annotated[list[str], "What serves a role, as main=openai:gpt-5; may be given again."]
Seconds = Annotated[list[str], "What a call of a role takes in the log's time, as main=8; may be given again."]
Folder = Annotated[str, "Folder of the TOML settings to begin with, instead of the bot's own."]
Memory = Annotated[bool, "With the memory plugin, in a schema of its own that is dropped afterwards."]
Page = Annotated[str, "Write the report as one HTML page."]
AsJson = Annotated[bool, "Print JSON."]


@lumia.command(
    "lab run", help="Feed recorded group logs through the chain: who is answered, who not, why, at what cost"
)
def run(
    *files: Annotated[str, "Logs: JSONL with message_id, time, group_id, sender_id, sender_name, text; or an export."],
    config: Settings = [],  # noqa: B006 (the command line makes a list of its own)
    model: ModelNames = [],  # noqa: B006
    seconds: Seconds = [],  # noqa: B006
    config_dir: Folder = "",
    with_memory: Memory = False,
    all_: Annotated[bool, "Show every message."] = False,
    out: Page = "",
    save: Annotated[str, "Keep the run as JSON for `lumia lab diff`."] = "",
    json_: AsJson = False,
) -> int:
    """Feed recorded group logs through heartflow's chain and print who was answered, who not and why.

    The clock follows the log, the models are the bot's own (offline without a key), and nothing is sent or kept: the
    run has a bot root of its own in memory.

    Example: lumia lab run group.jsonl --config heartflow.trigger_threshold=0.5 --out report.html
    """
    from . import lab_page, lab_report

    def work() -> int:
        _check_folders(out, save)
        variant = _variant(config_dir, with_memory).with_options(config).with_models(model).with_seconds(seconds)
        with _progress("messages") as progress:
            found = _run(files, variant, progress)
        _write(out, lambda: lab_page.page(found, title=_title(files)))
        _write(save, lambda: json.dumps(found, ensure_ascii=False, indent=1) + "\n")
        if found["failed"]:
            failed = next(one for one in found["decisions"] if one.get("failed"))
            _note(
                f"warning: {found['failed']} messages failed, the first is {failed['message_id']}: {failed['reason']}"
            )
        if found["failed_beside"]:
            told = found["failed_beside"]
            _note(f"warning: {len(told)} runs beside the messages failed, the first is {told[0]}")
        if json_:
            print(json.dumps(found, ensure_ascii=False))
        else:
            print("\n".join(lab_report.lines(found, every=all_)))
        return 0

    return _guarded(work)


@lumia.command("lab diff", help="Compare two saved runs, or one log under two configurations: figures and decisions")
def diff(
    *files: Annotated[str, "Two files of `lumia lab run --save`; or logs, with --a or --b."],
    a: Annotated[list[str], "Of the first run: heartflow.key=value or model.role=name; may be given again."] = [],  # noqa: B006
    b: Annotated[list[str], "Of the second run, likewise."] = [],  # noqa: B006
    config_dir: Folder = "",
    with_memory: Memory = False,
    out: Page = "",
    json_: AsJson = False,
) -> int:
    """Print two runs side by side and each message whose decision changed, with both reasons.

    Example: lumia lab diff group.jsonl --a heartflow.trigger_threshold=0.5 --b heartflow.trigger_threshold=0.7
    """
    from . import lab_diff, lab_page, lab_report

    def work() -> int:
        _check_folders(out)
        if a or b:
            names = (_named("A", a), _named("B", b))
            base = _variant(config_dir, with_memory)
            pair = []
            for options in (a, b):
                variant = base.with_options(options)
                with _progress("messages") as progress:
                    pair.append(_run(files, variant, progress))
        elif len(files) == 2:
            names = ("A", "B")
            pair = [lab_diff.load(file) for file in files]
        else:
            raise lab_diff.RunError("name two files that `lumia lab run --save` wrote, or logs with --a or --b")
        found = lab_diff.compare(pair[0], pair[1], names)
        _write(out, lambda: lab_page.diff_page(found, title=_title(files)))
        print(json.dumps(found, ensure_ascii=False) if json_ else "\n".join(lab_report.changes(found)))
        return 0

    return _guarded(work)


def _variant(config_dir: str, memory: bool) -> Variant:
    from .lab_setup import Variant

    return Variant(folder=Path(config_dir) if config_dir else None, memory=memory)


def _run(files: Sequence[str], variant: Variant, progress: Callable[[int, int], None]) -> dict[str, Any]:
    from . import lab_run
    from .lab_log import LogError

    if not files:
        raise LogError("name a log: JSONL with message_id, time, group_id, sender_id, sender_name and text")
    return lab_run.run(files, variant, progress=progress)


def _title(files: Sequence[str]) -> str:
    return ", ".join(Path(file).name for file in files) if len(files) < 4 else f"{len(files)} logs"


def _named(name: str, options: Sequence[str]) -> str:
    return f"{name} ({', '.join(options) or 'as configured'})"


def _guarded(work: Callable[[], int]) -> int:
    """Return the exit code of `work`; what the caller got wrong is one line on stderr and 2."""
    from .lab_diff import RunError
    from .lab_log import LogError
    from .lab_setup import SetupError

    try:
        return work()
    except (LogError, SetupError, RunError) as error:
        _note(f"error: {error}")
        return 2
    except OSError as error:
        _note(f"error: {error.filename}: {error.strerror or error}")
        return 1


def _check_folders(*targets: str) -> None:
    """Refuse, before anything is run, to write into a folder that isn't there."""
    from .lab_setup import SetupError

    for target in targets:
        if target and not Path(target).parent.is_dir():
            raise SetupError(f"{target} can't be written: there is no folder {Path(target).parent}; make it first")


def _write(target: str, made: Callable[[], str]) -> None:
    if target:
        Path(target).write_text(made(), "utf-8")
        _note(target)


def _note(line: str) -> None:
    print(line, file=sys.stderr)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function of (done, total) that moves a bar on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
