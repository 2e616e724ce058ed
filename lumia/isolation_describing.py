"""Describing an isolated plugin: imported once in its own environment, so that no other process has to.

`python -m lumia.isolation_describing NAME` is that process; it tells handlers, declared settings, or the failure as one
line of JSON. What it told is kept beside the environment, by generation.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lumia import __version__, paths
from lumia import config as configuration
from lumia.config_field import UNSET
from lumia.errors import ConfigSchemaError, PluginLoadError
from lumia.isolation import Description, FailedElsewhereError, apart, limits_of
from lumia.isolation_env import Environment, environment
from lumia.manifest import ProcessLimits
from lumia.marks import HANDLER_KINDS, Mark, Retry, retry_of
from lumia.plugin import Handler, PluginFailure
from lumia.resolve import Candidate

SECONDS = 60.0
"""How long an isolated plugin may take to be imported."""


def described(root: Path, candidate: Candidate, generation: str) -> Description:
    """Return what the plugin's own process tells of it, or told of this generation before.

    Raises `FailedElsewhereError` with the failure told, `PluginLoadError` when the process didn't live to tell.
    """
    env = environment(root, candidate.manifest)
    key = hashlib.sha256(f"{__version__} {generation}".encode()).hexdigest()[:16]
    file = env.folder / "described" / f"{key}.json"
    with suppress(OSError, ValueError):
        return _understood(json.loads(file.read_text("utf-8")), candidate, generation)
    told = _told(root, candidate, env)
    found = _understood(told, candidate, generation)
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(told), "utf-8")
    new.replace(file)
    return found


def own_environ(root: Path, plugin: str) -> dict[str, str]:
    """Return the environment variables of a process that executes an isolated plugin."""
    mine = {name: value for name, value in os.environ.items() if name != paths.ISOLATED_WORKER}
    return {**mine, paths.ISOLATED: plugin, "LUMIA_ROOT": str(root), "PYTHONPATH": str(paths.base())}


def _told(root: Path, candidate: Candidate, env: Environment) -> dict[str, Any]:
    name, limits = candidate.name, limits_of(candidate.manifest)
    command = [str(env.python), "-P", "-m", __name__, name]
    child = subprocess.Popen(
        command, cwd=root, env=own_environ(root, name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise PluginLoadError(f"importing {name} in its own process took more than {SECONDS:g} s") from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.communicate()
    try:
        told: dict[str, Any] = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        raise PluginLoadError(_last_words(name, child.returncode, err, limits)) from None
    return told


def _last_words(name: str, code: int, err: bytes, limits: ProcessLimits) -> str:
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
    said = f": {lines[-1].strip()[:300]}" if lines else ""
    return f"importing {name} in its own process (at most {limits.memory_mb} MiB) ended it with {how}{said}"


def _understood(told: Mapping[str, Any], candidate: Candidate, generation: str) -> Description:
    if "failure" in told:
        raise FailedElsewhereError(PluginFailure(**told["failure"]))
    handlers = tuple(_handler(row, candidate, generation) for row in told["handlers"])
    return Description(handlers, {key: _field(value) for key, value in told["declared"].items()})


def _handler(row: Mapping[str, Any], candidate: Candidate, generation: str) -> Handler:
    options = dict(row["options"])
    if "retry" in options:
        options["retry"] = Retry(**options["retry"])
    mark = Mark(row["kind"], row["id"], row["glob"], row["priv"], options)
    return Handler(row["name"], apart, mark, candidate.name, generation, row["source"])


def _field(told: Mapping[str, Any]) -> configuration.Field:
    values = dict(told)
    if values.get("choices") is not None:
        values["choices"] = tuple(values["choices"])
    if values.get("fields") is not None:
        values["fields"] = {key: _field(value) for key, value in values["fields"].items()}
    return configuration.Field(**values)


# --- the process that imports it


class _Declared:
    """Takes what the loader would register."""

    def __init__(self) -> None:
        self.fields: dict[str, configuration.Field] = {}

    def register(self, plugin_name: str, schema_file: Path | None, declared: dict[str, configuration.Field]) -> None:
        """Remember what was declared in code; the schema file is read by whoever asked."""
        self.fields = declared


def main(name: str) -> None:
    """Import the plugin, and print its description or failure."""
    from lumia.isolation_limits import restrain

    told = os.dup(1)
    os.dup2(2, 1)
    text = json.dumps(_look(name, restrain)) + "\n"
    os.write(told, text.encode())
    os._exit(0)  # whatever threads its import has started


def _look(name: str, restrain: Any) -> dict[str, Any]:
    from lumia.isolation import Isolation
    from lumia.loader import Loader
    from lumia.services import Services

    root = paths.find_root()
    config = _Declared()
    loader = Loader(
        paths.base(), root, config=config, services=Services(), core_version=__version__,
        elsewhere=Isolation.here(root),
    )  # fmt: skip
    own = next((found.manifest for found in loader.found() if found.name == name and found.manifest), None)
    if own is not None:
        restrain(limits_of(own))
    loaded = loader.load({name}, on_load=False)
    if name not in loaded.plugins:
        failures = [failure for failure in loaded.failures if failure.name == name] or loaded.failures
        return {"failure": asdict(failures[0])}
    try:
        return {
            "handlers": [_row(handler) for handler in loaded.plugins[name].handlers if handler.mark.kind != "command"
                         and handler.mark.kind != "check"],
            "declared": {key: _told_field(name, key, field) for key, field in config.fields.items()},
        }  # fmt: skip
    except PluginLoadError as error:
        return {"failure": asdict(PluginFailure(name, "register", "manifest.json", None, str(error)))}


def _row(handler: Handler) -> dict[str, Any]:
    mark = handler.mark
    if mark.kind not in HANDLER_KINDS:
        raise PluginLoadError(
            f"{handler.name} is a {mark.kind}, which is called in the bot's own processes, and its plugin is isolated; "
            'remove it, or "isolation" from the manifest'
        )
    options = dict(mark.options)
    if "retry" in options:
        options["retry"] = asdict(retry_of(options["retry"]) or Retry())
    return {"name": handler.name, "kind": mark.kind, "id": mark.id, "glob": mark.glob, "priv": mark.priv,
            "options": options, "source": handler.source}  # fmt: skip


def _told_field(plugin: str, key: str, field: configuration.Field) -> dict[str, Any]:
    values = {one.name: getattr(field, one.name) for one in fields(field)}
    if field.fields is not None:
        values["fields"] = {inner: _told_field(plugin, inner, one) for inner, one in field.fields.items()}
    told = {name: value for name, value in values.items() if value is not UNSET and value is not None}
    try:
        json.dumps(told)
    except (TypeError, ValueError):
        raise ConfigSchemaError(
            f"{plugin} is isolated and declares {key!r} with a value that can't be told to other processes; "
            "put the setting into config-schema.toml"
        ) from None
    return told


if __name__ == "__main__":
    main(sys.argv[1])
