"""`pkg dev`: what the author of a plugin needs from the first file to the registry (spec §13.2, §14)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lumia.cli import output
from lumia.cli.groups import group
from lumia.cli.pkg import dev_publish
from lumia.cli.pkg.validate import validate_command
from lumia.errors import PkgError

if TYPE_CHECKING:
    from lumia.pkg.dev.project import Project

dev_app = group(
    "Make a plugin: init, run, test, validate, pack, sign, publish.",
    "\b\nExample:\n  pkg dev init dice\n  cd dice && pkg dev run --watch",
)
"""The group `pkg dev`, mounted by `lumia.cli.pkg`."""


@dev_app.command("init")
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the plugin is called, like `dice`.")],
    folder: Annotated[Path | None, typer.Option("--dir", help="Where it is made; default: a folder NAME here.")] = None,
    description: Annotated[str, typer.Option(help="One sentence on what it does.")] = "",
) -> None:
    """Make a new plugin that answers in the chat, with a setting, a hook, tests and a git repository.

    \b
    Example:
      pkg dev init dice --description "Throws dice for the group."
    """
    from lumia.pkg.dev.scaffold import checked_name, create

    name = checked_name(name)
    made = folder or Path(name)
    create(made.expanduser().absolute(), name, description=description)
    output.text(str(made))
    output.note(f"next: cd {made} && pkg dev run --watch, and write !{name}")


Folder = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="The plugin's folder; default: this one.", show_default=False)
]


@dev_app.command("run")
def run(
    folder: Folder = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Load it anew whenever a file is saved.")] = False,
    beside: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PLUGIN", help="Load this one, too: a folder, or one of Lumia's own by name."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings of the plugin; default: its dev.toml.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="What loading, and each message, may take.")] = 30.0,
    memory: Annotated[int, typer.Option(min=128, metavar="MIB", help="Memory it may use (Linux).")] = 1024,
    steps: Annotated[
        bool | None, typer.Option("--steps/--no-steps", help="Show what each message went through.", show_default=False)
    ] = None,
) -> None:
    """Talk to the plugin in a chat: a whole bot in memory, in a process that may hang or crash.

    Lines from a pipe are said one after the other; the exit code is then 1 when one of them failed.

    \b
    Example:
      pkg dev run --watch
      echo '!dice' | pkg dev run
    """
    from lumia.cli.pkg import dev_chat
    from lumia.pkg.dev.sandbox import Bounds
    from lumia.pkg.dev.session import Session
    from lumia.pkg.dev.trial import Trial

    project = _project(folder)
    bounds = Bounds(seconds, seconds, memory << 20)
    trial = Trial(project, beside or (), settings)
    try:
        code = dev_chat.run(lambda show: Session(trial, show, bounds=bounds, watch=watch), watch=watch, steps=steps)
    finally:
        trial.close()
    if code:
        raise typer.Exit(code)


def _project(folder: Path | None) -> Project:
    """Return the plugin to work on, and tell which Python packages it would miss here."""
    from lumia.errors import ManifestError
    from lumia.pkg.dev.project import find_project, missing_packages

    project = find_project(folder)
    try:
        missing = missing_packages(project.manifest())
    except ManifestError:  # told when it is loaded
        missing = []
    if missing:
        wanted = " ".join(f"'{one}'" for one in missing)
        output.warn(f"not installed here, though its manifest asks for it: pip install {wanted}")
    return project


@dev_app.command("test", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(ctx: typer.Context) -> None:
    """Run the plugin's tests with pytest; what follows the command is handed on to it.

    \b
    Example:
      pkg dev test
      pkg dev test -k greets -x
    """
    from lumia.pkg.dev.testrun import NOTHING_FOUND, run_tests

    code = run_tests(_project(None), ctx.args)
    if code == NOTHING_FOUND:
        output.warn("pytest found no test; a test is a function like `def test_it_greets():` in tests/test_plugin.py")
    if code:
        raise typer.Exit(1)


@dev_app.command("pack")
def pack(
    folder: Folder = None,
    python: Annotated[
        list[str] | None, typer.Option("--python", metavar="PYTHON", help="For this Python, too; may be repeated.")
    ] = None,
    beside: Annotated[
        list[str] | None, typer.Option("--with", metavar="PLUGIN", help="What it depends on, to try whether it loads.")
    ] = None,
    repository: Annotated[
        Path | None, typer.Option("--repo", metavar="DIR", help="Commit and tag the packed files in this repository.")
    ] = None,
) -> None:
    """Compile the plugin to bytecode without its source, for each version of Python, and try whether it loads.

    \b
    Example:
      pkg dev pack
      pkg dev pack --python python3.12 --python python3.13
      pkg dev pack --repo ../dice-closed
    """
    from lumia.pkg.dev.pack import UNTAGGED, commit_into, label
    from lumia.pkg.dev.pack import pack as packed_for
    from lumia.pkg.dev.probe import problem_of

    project = _project(folder)
    tag = label(project)
    if repository is not None and tag == UNTAGGED:
        raise PkgError(f"{project.name} has no version tag at this commit, or uncommitted changes; commit and tag it")
    if repository is not None and len(python or ()) > 1:
        raise PkgError("bytecode belongs to one version of Python: pack into one repository for each")
    for packed in packed_for(project, python or ()):
        output.text(str(packed.folder))
        if packed.python != f"cp{sys.version_info[0]}{sys.version_info[1]}":
            output.note(f"for {packed.python}, {packed.files} files; not tried, this Python can't load it")
            continue
        problem = problem_of(packed.folder, beside or ())
        if problem is not None:
            raise PkgError(f"packed, but it doesn't load: {problem}")
        output.note(f"for {packed.python}, {packed.files} files; it loads")
        if repository is not None:
            commit_into(packed, repository.expanduser().absolute(), project, tag)
            output.note(f"{tag} is in {repository}: cd {repository} && pkg dev publish")


dev_app.command("validate")(validate_command)
dev_app.command("sign")(dev_publish.sign)
dev_app.command("publish")(dev_publish.publish)
