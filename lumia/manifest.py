"""manifest.json: what a plugin says about itself (spec §7.2; DESIGN §3, §10).

A manifest is read without running any of the plugin's code, so gateway, CLI and `pkg` know plugins they don't load.
"""

from __future__ import annotations

import difflib
import json
import keyword
import re
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from lumia.errors import ManifestError

MANIFEST_FILE = "manifest.json"
DEFAULT_SCHEMA_FILE = "config-schema.toml"
MAX_BYTES = 1024 * 1024
FIRST_FREE_PID = 100
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_COMMAND = re.compile(r"[a-z][a-z0-9-]*( [a-z][a-z0-9-]*)*( \*)?")
_WORD = re.compile(r"[a-z0-9][a-z0-9._-]*")
_GIT_URL = re.compile(r"(https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")
_RESERVED = frozenset({"lumia"})
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def underscored(name: str) -> str:
    """Return the folder, module and handler spelling of a plugin name: `memory-graph` → `memory_graph`."""
    return name.replace("-", "_")


def hyphenated(name: str) -> str:
    """Return the manifest, registry and command spelling of a plugin name: `memory_graph` → `memory-graph`."""
    return name.replace("_", "-")


def _plugin_name(value: str) -> str:
    if not _NAME.fullmatch(value) or len(value) > 64:
        raise ValueError(
            f"{value!r} is no plugin name; use at most 64 of a-z, 0-9 and single hyphens, starting with a letter, "
            "like 'memory-graph'"
        )
    if keyword.iskeyword(value) or value in _RESERVED:
        raise ValueError(f"{value!r} is a reserved word; choose another name")
    return value


def _version(value: str) -> str:
    try:
        Version(value)
    except InvalidVersion:
        raise ValueError(f"{value!r} is no version; write it like '0.2.0'") from None
    return value


def _range(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier:
        raise ValueError(f"{value!r} is no version range; write it like '>=0.2.0' or '>=0.2,<1'") from None
    return value


def _requirement(value: str) -> str:
    try:
        asked = Requirement(value)
    except InvalidRequirement:
        raise ValueError(f"{value!r} is no Python requirement; write it like 'feedparser>=6,<7' (PEP 508)") from None
    if asked.url is not None:
        raise ValueError(f"{value!r} names an address; name a package of the Python package index and a range")
    return value


def _inner_path(value: str) -> str:
    parts = value.split("/")
    if "\\" in value or ":" in value or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{value!r} is no file inside the plugin's folder; name one like {DEFAULT_SCHEMA_FILE!r}")
    return value


def _entry(value: str) -> str:
    if value not in ("plugin.py", "plugin.pyc"):
        raise ValueError(f"{value!r} is no entry point; it is 'plugin.py' or 'plugin.pyc', in the plugin's folder")
    return value


def _word(value: str) -> str:
    if not _WORD.fullmatch(value):
        raise ValueError(f"{value!r} is no name; use a-z, 0-9, '.', '_' and '-', starting with a letter or digit")
    return value


def _command(value: str) -> str:
    if not _COMMAND.fullmatch(value):
        raise ValueError(f"{value!r} is no command name; use a-z, 0-9 and '-', a space makes a subcommand")
    return value


def _git_url(value: str) -> str:
    if not _GIT_URL.fullmatch(value):
        raise ValueError(f"{value!r} is no git URL; use https://, ssh://, git://, file:// or user@host:path")
    return value


PluginName = Annotated[str, AfterValidator(_plugin_name)]
_Names = Annotated[tuple[Annotated[str, AfterValidator(_word)], ...], Field(strict=False)]


class _Strict(BaseModel):
    """Unknown keys are errors, except keys of an author's own, which start with `x-` and are left out."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_own_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if not str(key).startswith("x-")}


class Source(_Strict):
    """Where the plugin's repository is."""

    type: Literal["git"] = "git"
    url: Annotated[str, AfterValidator(_git_url)]


class Adapter(_Strict):
    """What an adapter says of itself (docs/adapters.md).

    platform: its name in messages and destinations. pid: the platform's number. capabilities: what it can do beside
    receiving. accounts: the setting whose tables are its accounts; an adapter without that setting has one account.
    """

    platform: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,32}$")]
    pid: Annotated[int, Field(ge=1, le=999_999_999)]
    capabilities: Annotated[
        tuple[Literal["send", "reply", "edit", "delete", "media", "threads", "mentions"], ...], Field(strict=False)
    ] = ()
    accounts: str = "accounts"

    @model_validator(mode="after")
    def _has_its_own_number(self) -> Adapter:
        from lumia.payloads import PIDS

        wanted = PIDS.get(self.platform)
        if wanted is not None and self.pid != wanted:
            raise ValueError(f"platform {self.platform!r} has pid {wanted}, not {self.pid}")
        if wanted is None and self.pid < FIRST_FREE_PID:
            raise ValueError(f"pids below {FIRST_FREE_PID} belong to the platforms Lumia ships, got {self.pid}")
        return self


class ProcessLimits(_Strict):
    """What the processes of an isolated plugin may use (docs/isolation.md).

    memory_mb: MiB of one process with all it starts. seconds: of one step, None for the bot's own limit. concurrency:
    steps at once, each in a process.
    """

    memory_mb: Annotated[int, Field(ge=128, le=1_048_576)] = 512
    seconds: Annotated[float, Field(gt=0, le=86_400, strict=False)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=64)] = 1


class Manifest(_Strict):
    """The content of a manifest.json (spec §7.2).

    name: hyphenated. dependencies: plugin name → version range (PEP 440). provides: services and domains it offers;
    unique: domains it claims alone. Beyond the spec: gateway (it mounts routes or owns sockets, so the gateway loads
    it), adapter (it connects a platform), commands (name → one line of help), queues of its own, permissions it asks
    for, python_dependencies (packages it needs, PEP 508), isolation ("process" asks for a worker of its own), limits
    (of that worker).
    """

    name: PluginName
    display_name: str = ""
    description: str = ""
    author: str = ""
    license: str = ""
    main: Annotated[str, AfterValidator(_entry)] = "plugin.py"
    min_core_version: Annotated[str, AfterValidator(_version)] | None = None
    dependencies: dict[PluginName, Annotated[str, AfterValidator(_range)]] = Field(default_factory=dict)
    python_dependencies: Annotated[tuple[Annotated[str, AfterValidator(_requirement)], ...], Field(strict=False)] = ()
    provides: _Names = ()
    unique: _Names = ()
    source: Source | None = None
    config_schema: Annotated[str, AfterValidator(_inner_path)] | None = None
    closed_source: bool = False
    gateway: bool = False
    adapter: Adapter | None = None
    commands: dict[Annotated[str, AfterValidator(_command)], str] = Field(default_factory=dict)
    queues: _Names = ()
    permissions: _Names = ()
    isolation: Literal["process"] | None = None
    limits: ProcessLimits | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_version(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            raise ValueError(
                "remove the field 'version': a plugin's version is the git tag at its commit (git tag v1.2.3)"
            )
        return data

    @model_validator(mode="after")
    def _can_be_isolated(self) -> Manifest:
        if self.limits is not None and self.isolation is None:
            raise ValueError('"limits" are those of a process of its own; add "isolation": "process", or remove them')
        if self.isolation is not None and (self.gateway or self.adapter is not None):
            what = "adapter" if self.adapter is not None else "gateway"
            raise ValueError(f'"isolation" and "{what}" exclude each other: what is in the gateway is in its process')
        return self


def load_manifest(folder: Path) -> Manifest:
    """Return the manifest of the plugin in `folder`.

    Raises `ManifestError` naming the file and the line and column, or the field, that is wrong.
    """
    file = folder / MANIFEST_FILE
    data = _parse(_read(file), file)
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(_problem(details) for details in error.errors())
        raise ManifestError(f"{file}: {problems}", file=str(file)) from None


def _read(file: Path) -> str:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            _refuse(file, "is no ordinary file")
        if status.st_size > MAX_BYTES:
            _refuse(file, f"is {status.st_size} bytes; a manifest has at most {MAX_BYTES}")
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        _refuse(file, f"can't be read: {error.strerror}")
    except UnicodeDecodeError as error:
        _refuse(file, f"is not UTF-8 at byte {error.start}; save it as UTF-8")


def _refuse(file: Path, problem: str, line: int | None = None) -> NoReturn:
    raise ManifestError(f"{file}: {problem}", file=str(file), line=line)


def _parse(text: str, file: Path) -> dict[str, Any]:
    try:
        data = json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant)
        if not isinstance(data, dict):
            _refuse(file, f'a manifest is a JSON object like {{"name": "my-plugin"}}, got a {type(data).__name__}')
        _refuse_odd_text(data, file)
        return data
    except json.JSONDecodeError as error:
        _refuse(file, f"line {error.lineno}, column {error.colno}: {error.msg}", error.lineno)
    except RecursionError:
        _refuse(file, "is nested too deeply")
    except ValueError as error:
        _refuse(file, str(error))


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is given twice")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _refuse_odd_text(data: dict[str, Any], file: Path) -> None:
    for field, text in _texts(data, ""):
        odd = next((char for char in text if unicodedata.category(char) in ("Cc", "Cs") or char in _BIDI), None)
        if odd is not None:
            _refuse(file, f"field {field!r} holds the invisible character U+{ord(odd):04X}; remove it")


def _texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield field, key
            yield from _texts(inner, f"{field}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{field}[{number}]")


def _problem(details: ErrorDetails) -> str:
    field = ".".join(str(part) for part in details["loc"] if part != "[key]")
    if details["type"] == "extra_forbidden":
        return _unknown(field)
    if details["type"] == "missing":
        return f"the field {field!r} is missing"
    message = details["msg"].removeprefix("Value error, ")
    return f"field {field!r}: {message}" if field else message


def _unknown(field: str) -> str:
    inner: dict[str, type[BaseModel]] = {"source": Source, "adapter": Adapter, "limits": ProcessLimits}
    model = inner.get(field.partition(".")[0], Manifest) if "." in field else Manifest
    close = difflib.get_close_matches(field.rpartition(".")[2], model.model_fields, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else "; remove it"
    return f"unknown field {field!r}{meant} (keys of your own start with 'x-')"
