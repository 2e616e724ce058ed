"""The journal of the operation going on: what a next `pkg` must know to finish or undo it.

It is written, and on the disk, before the step it names is done. What a step has done is seen from the files
themselves, so each step, forward or back, can be done again after a crash at any point of it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lumia.atomic import replace
from lumia.errors import OperationError
from lumia.pkg import failpoints
from lumia.pkg.layout import Layout
from lumia.pkg.model import Kind, Locked

STEPS = {
    "begin": "beginning",
    "stage": "staging {}",
    "pre-hook": "running a hook of {}",
    "carry": "keeping what {} has made itself",
    "swap-out": "taking the present {} away",
    "swap-in": "putting {} in place",
    "config": "writing the settings of {}",
    "disabled": "writing config/lumia.toml",
    "post-hook": "running a hook of {}",
    "lock": "writing the lock file",
    "commit": "committing in plugins/",
    "index": "refreshing git's index of plugins/",
    "packages": "switching to its Python packages",
    "deploy": "handing it to the running bot",
    "uninstall-hook": "running a hook of {}",
    "trust": "remembering the key of {}",
    "finish": "finishing",
    "clean": "deleting what was kept for undoing",
}
"""The steps of an operation in their order, and what each does in words.

Up to `packages` a crash undoes it, from `deploy` on it is finished."""
UNDO_STEPS = (
    "undo",
    "undo-packages",
    "undo-commit",
    "undo-lock",
    "undo-config",
    "undo-folder",
    "undo-finish",
    "undo-clean",
)
"""The steps of undoing, in their order."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Change(_Model):
    """One plugin's change. there: its folder was there before."""

    kind: Kind
    name: str
    before: Locked | None
    after: Locked | None
    there: bool = False


class Rewritten(_Model):
    """A settings file that was replaced. number: of its images in the undo folder. existed: it was there before.

    made: it is there afterwards. mode: of the file before. names: what was put into `disabled` (True) or taken out.
    """

    path: str
    number: int
    existed: bool
    made: bool
    mode: int = 0o644
    names: dict[str, bool] = {}


class Commit(_Model):
    """What happens in the repository plugins/. old: None when it had no commit. made: the repository is ours."""

    branch: str
    old: str | None
    new: str | None = None
    made: bool = False


class Packages(_Model):
    """Texts of data/python/current.json, which name the Python packages that processes start with; None: no file."""

    old: str | None
    new: str | None


class Journal(_Model):
    """An operation. area: folder, relative to the bot root, for what is swapped in (`new`) and out (`old`).

    staged: all new versions are in `area`. handed: the running bot may have it. hooks: plugins whose post_uninstall
    has ended. packages: None where they stay as they are.
    """

    version: Literal[1] = 1
    id: str
    phase: Literal["change", "deploy", "undo"] = "change"
    step: str = "begin"
    plugin: str = ""
    started: str
    command: str
    area: str
    changes: tuple[Change, ...]
    purge: tuple[str, ...] = ()
    rewritten: tuple[Rewritten, ...] = ()
    commit: Commit
    had_lock: bool
    staged: bool = False
    handed: bool = False
    hooks: tuple[str, ...] = ()
    packages: Packages | None = None
    warnings: tuple[str, ...] = ()

    def with_(self, **changes: object) -> Journal:
        """Return this journal with other values."""
        return self.model_copy(update=changes)


def read(layout: Layout) -> Journal | None:
    """Return the operation that is going on or was cut off; None when there is none. Raises `OperationError`."""
    try:
        return Journal.model_validate_json(layout.journal.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperationError(f"{layout.journal} can't be read ({error.strerror}); give this user the rights") from error
    except ValidationError as error:
        raise OperationError(
            f"{layout.journal} is damaged, or of another version of Lumia ({error.errors()[0]['msg']}): it says how an "
            f"operation that was cut off is undone; what it replaced is in {layout.undo}. Put that back by hand, or "
            "finish with the version that began it, then delete the file"
        ) from error


def write(layout: Layout, journal: Journal) -> None:
    """Replace the journal; then it is on the disk. Raises `OSError`."""
    replace(layout.journal, journal.model_dump_json(indent=1).encode(), mode=0o600)


def enter(layout: Layout, journal: Journal, step: str, plugin: str = "") -> Journal:
    """Write that `step` begins and return the journal that says so."""
    journal = journal.with_(step=step, plugin=plugin)
    write(layout, journal)
    failpoints.hit(step, plugin)
    return journal
