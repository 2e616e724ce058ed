"""What a lab run is made with: settings, models and a bot root of its own that nothing else sees."""

from __future__ import annotations

import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lumia

from .settings import parse

HEARTFLOW, LOADER, MEMORY = "heartflow", "persona_loader", "memory_graph"
SECONDS: Mapping[str, float] = {"small": 0.5, "planner": 1.0, "thinker": 6.0, "main": 3.0, "polish": 2.0}
"""What a call of a role takes in the log's time, whatever it takes here: so two runs meet the same bursts."""


class SetupError(ValueError):
    """A run that can't be set up as asked; its text names the option and the way out."""


@dataclass(frozen=True)
class Variant:
    """One configuration of the chain.

    settings: dotted name, beginning with the plugin's, → value. models: role → model. seconds: role → what a call of it
    takes in the log's time. folder: of the TOML files to begin with; None for those of the active bot.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=lambda: dict(SECONDS))
    folder: Path | None = None
    memory: bool = False

    def with_options(self, given: Iterable[str]) -> Variant:
        """Return this one changed by `plugin.key=value` and `model.role=name`; raises `SetupError`."""
        pairs = [_pair(text, "heartflow.key=value, or model.role=name") for text in given]
        chosen = {name.removeprefix("model."): value for name, value in pairs if name.startswith("model.")}
        named = {name: _value(value) for name, value in pairs if not name.startswith("model.")}
        return replace(self, settings={**self.settings, **_known(named)}, models={**self.models, **_roles(chosen)})

    def with_models(self, given: Iterable[str]) -> Variant:
        """Return this one with models named by `role=name`; raises `SetupError`."""
        return replace(self, models={**self.models, **_roles(dict(_pair(text, "role=name") for text in given))})

    def with_seconds(self, given: Iterable[str]) -> Variant:
        """Return this one with call times named by `role=seconds`; raises `SetupError`."""
        pairs = _roles(dict(_pair(text, "role=seconds") for text in given))
        return replace(self, seconds={**self.seconds, **{role: _duration(role, text) for role, text in pairs.items()}})

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment in which this variant's models are looked up."""
        return {**os.environ, **{f"LUMIA_MODEL_{role.upper()}": name for role, name in self.models.items()}}

    @property
    def shown(self) -> dict[str, Any]:
        """Return what sets this variant apart, as JSON values."""
        paced = {role: self.seconds[role] for role in self.seconds if self.seconds[role] != SECONDS.get(role)}
        named = {"settings": dict(self.settings), "models": dict(self.models), "seconds": paced}
        return {name: value for name, value in named.items() if value} | ({"memory": True} if self.memory else {})


@contextmanager
def root_of(variant: Variant) -> Iterator[Path]:
    """Give a bot root with a copy of the variant's settings, which is gone after the block; raises `SetupError`."""
    source = variant.folder or lumia.runtime.current().root / "config"
    if not source.is_dir():
        raise SetupError(f"--config-dir: {source} is no folder; name one with lumia.toml and heartflow.toml")
    with tempfile.TemporaryDirectory(prefix="lumia-lab-") as made:
        root = Path(made)
        shutil.copytree(source, root / "config", ignore=shutil.ignore_patterns(".*"))
        (root / "config" / "lumia.toml").touch()
        if variant.memory:
            _note_database(root)
        yield root


def plugins(*, memory: bool) -> list[Path]:
    """Return the folders of the first-party plugins that take part, those that are there."""
    home = Path(__file__).parent.parent
    names = (HEARTFLOW, LOADER, *([MEMORY] if memory else []))
    return [home / name for name in names if (home / name / "manifest.json").is_file()]


def memory_settings() -> dict[str, dict[str, Any]]:
    """Return the settings of a memory that nothing else sees and that is gone with its bot."""
    name = f"lab_{lumia.system.new_id()}".lower().replace("-", "_")[:60]
    return {MEMORY.replace("_", "-"): {"schema": name, "temporary": True}}


def configure(variant: Variant, config: Any) -> None:
    """Write the variant's settings into an open bot's configuration; raises `SetupError` for one it doesn't know."""
    for name, value in variant.settings.items():
        plugin, _, key = name.partition(".")
        try:
            config.set_path(key, value, plugin)
        except lumia.errors.LumiaError as error:
            raise SetupError(f"--config {name}: {str(error).partition('; nothing was changed')[0]}") from None
    if any(name.startswith(f"{HEARTFLOW}.overrides") for name in variant.settings):
        try:
            parse(lumia.config.get(HEARTFLOW).overrides)
        except lumia.errors.ConfigValueError as error:
            raise SetupError(f"--config: {error}") from None


def _note_database(root: Path) -> None:
    """Let the lab's bot find the database of the active one."""
    url = lumia.system.database_url()
    if not url:
        raise SetupError("--with-memory: this bot has no database; start one with `lumia up` or set LUMIA_DATABASE_URL")
    noted = root / lumia.system.NOTED_DATABASE
    noted.parent.mkdir(parents=True, mode=0o700)
    noted.write_text(url, "utf-8")
    noted.chmod(0o600)


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SetupError(f"{text!r}: write {form}")
    return name.strip(), value.strip()


def _known(named: dict[str, Any]) -> dict[str, Any]:
    for name in named:
        if "." not in name:
            raise SetupError(f"--config {name}: name the plugin, too, as in heartflow.{name}=…")
    return named


def _roles(named: dict[str, str]) -> dict[str, str]:
    for role in named:
        if role not in lumia.models.ROLES:
            raise SetupError(f"{role!r} is no model role; the roles are {', '.join(lumia.models.ROLES)}")
    return named


def _duration(role: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise SetupError(f"--seconds {role}={text}: write seconds from 0 to 3600")
    return seconds


def _value(text: str) -> Any:
    """Return what `text` means as a value of TOML; what is none is taken as a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
