"""The one module that imports pydantic-ai. Runs on the bridge's loop only; its clients never leave it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from genai_prices import calc_price
from pydantic_ai import Agent, NativeOutput, PromptedOutput, RunUsage, UserError, capture_run_messages
from pydantic_ai.embeddings import Embedder, EmbeddingModel, EmbeddingResult, infer_embedding_model
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from lumia.models import bridge
from lumia.models.known import OPENAI_STYLE
from lumia.models.messages import Message, Request, clean
from lumia.models.reply import Reply, Usage, write_output
from lumia.models.roles import Candidate

Ask = Callable[..., Awaitable[Any]]
"""`chat` or `embed`."""
_GO_ON = "Go on."
_RETRY_STATUS = frozenset({408, 425, 429})
_EMBED_BATCH = 256


MOST_CHARS = 200_000
"""Characters of an answer that are kept."""


@dataclass(frozen=True)
class Failure:
    """Why a model gave no answer; `final`, a way out, when it is a matter of configuration and no other is tried.

    unusable: it answered, but not with what was asked for. usage, cost: what that came to, None if it isn't known.
    """

    reason: str
    final: str = ""
    unusable: bool = False
    usage: Usage | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Embedded:
    """The vectors of one embedding call."""

    vectors: Sequence[Sequence[float]]
    usage: Usage
    cost: float | None


class BadAnswerError(Exception):
    """A server answered, but not with what was asked for; usage and cost: what that came to."""

    def __init__(self, reason: str, usage: Usage | None = None, cost: float | None = None) -> None:
        super().__init__(reason)
        self.usage, self.cost = usage, cost


async def attempt(ask: Ask, candidate: Candidate, seconds: float, random: Callable[[], float], *args: Any) -> Any:
    """Return what `ask(client, candidate, *args)` gives within `seconds`, or a `Failure`.

    A connection that broke (a kept-alive one the server had closed, say) is tried once more at once. Loading the
    provider's library, once per process, doesn't count as its time.
    """
    if candidate.problem:
        return Failure(candidate.problem, "Configure it, or take it out of `fallback`")
    try:
        client = await _opened(candidate, _embedding_model if ask is embed else _model)
        async with asyncio.timeout(seconds):
            return await _twice(lambda: ask(client, candidate, *args), random)
    except TimeoutError:
        return Failure(f"no answer within {seconds:g} s")
    except Exception as error:
        return failure(error, candidate)


async def _twice(ask: Callable[[], Awaitable[Any]], random: Callable[[], float]) -> Any:
    try:
        return await ask()
    except ModelTimeoutError:
        raise
    except ModelConnectionError:
        await asyncio.sleep(0.05 + 0.1 * random())
        return await ask()


def failure(error: Exception, candidate: Candidate) -> Failure:
    """Sort an error: 429, 5xx, time-outs, broken connections and unusable answers pass to the next model."""
    if isinstance(error, UserError | ImportError):
        return Failure(_short(error), "Change the role's model, or install what it needs")
    if isinstance(error, BadAnswerError):
        return Failure(_short(error), unusable=True, usage=error.usage, cost=error.cost)
    if not isinstance(error, ModelAPIError):
        return Failure(_short(error), unusable=isinstance(error, UnexpectedModelBehavior))
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    wait = f", retry after {error.retry_after:g} s" if error.retry_after is not None else ""
    reason = f"HTTP {status}{wait}: {_short(_told(error.body))}" if status else _short(error)
    return Failure(reason, _way_out(status, candidate) if _is_final(error, status) else "")


def _is_final(error: ModelAPIError, status: int | None) -> bool:
    if isinstance(error, ModelQuotaExceededError):  # some send it as a 400; another provider's quota may be there
        return status in (400, 401, 403)
    return isinstance(error, ModelRequestRejectedError) or (
        status is not None and status < 500 and status not in _RETRY_STATUS
    )


def _way_out(status: int | None, candidate: Candidate) -> str:
    if status not in (401, 403):
        return f"Check the model's name ({candidate.name}), its base_url and the request's settings"
    if candidate.key_env:
        return f"Check the key in {' or '.join(candidate.key_env)} and what it may use"
    return "No key was sent: name the variable that holds it in api_key_env"


def _told(body: object) -> object:
    """Return the message of an error body, or all of it."""
    return body["message"] if isinstance(body, dict) and body.get("message") else body


def _short(error: object) -> str:
    text = " ".join(clean(str(error)).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}…"


async def chat(model: Model, candidate: Candidate, request: Request) -> Reply:
    """Return the answer of one model to `request`; raises `BadAnswerError` for answers that were paid for in vain."""
    output_type: Any = _outputs(candidate.structured, request.output_type)
    history, instructions = history_of(request.messages, request.system)
    settings: Any = dict(request.settings or {})
    used, asked = RunUsage(), {id(message) for message in history}
    with capture_run_messages() as exchanged:
        try:
            result = await _agent().run(
                message_history=history,
                model=model,
                output_type=output_type,
                instructions=instructions,
                model_settings=settings,
                infer_name=False,
                usage=used,
            )
            text = _bounded(clean(write_output(result.output, request.output_type)), request.output_type)
        except (UnexpectedModelBehavior, BadAnswerError) as error:
            if not used.total_tokens:  # nothing that was paid for
                raise
            answers = [message for message in exchanged if id(message) not in asked]
            raise BadAnswerError(str(error), _usage(used), _cost(answers, candidate)) from error
    return Reply(None, text, candidate.model, _usage(used), _cost(result.new_messages(), candidate))


def _usage(used: RunUsage) -> Usage:
    return Usage(used.input_tokens, used.output_tokens, used.requests)


def _bounded(text: str, output_type: Any) -> str:
    """Return an answer that a Box can hold: the beginning of a text that never ends; of a value there is no part."""
    if len(text) <= MOST_CHARS:
        return text
    if output_type is str:
        return f"{text[:MOST_CHARS]} …"
    raise BadAnswerError(f"an answer of {len(text):,} characters, more than {MOST_CHARS:,}")


@lru_cache(1)
def _agent() -> Agent[object, Any]:
    return Agent(retries=1)


def _outputs(structured: str, output_type: Any) -> Any:
    if output_type is str or structured == "tool":
        return output_type
    return NativeOutput(output_type) if structured == "native" else PromptedOutput(output_type)


def history_of(messages: Sequence[Message], system: str | None) -> tuple[list[ModelMessage], str | None]:
    """Return (history, instructions): system lines that open the chat are instructions, with `system` before them."""
    opening = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    told = [*([system] if system else []), *(message.content for message in messages[:opening])]
    history = [_history_item(message) for message in messages[opening:]]
    if not history or isinstance(history[-1], ModelResponse):
        history.append(ModelRequest(parts=[UserPromptPart(_GO_ON)]))
    return history, "\n\n".join(told) or None


def _history_item(message: Message) -> ModelMessage:
    if message.role == "assistant":
        return ModelResponse(parts=[TextPart(message.content)])
    if message.role == "system":
        return ModelRequest(parts=[SystemPromptPart(message.content)])
    # Providers differ in whether a message may carry a name, so a group's speakers are named in the text.
    said = f"{message.name}: {message.content}" if message.name else message.content
    return ModelRequest(parts=[UserPromptPart(said)])


def _cost(messages: Sequence[ModelMessage], candidate: Candidate) -> float | None:
    """US dollars by the price list that comes with pydantic-ai (no network), or None for what it doesn't list."""
    prices = [_price(message, candidate) for message in messages if isinstance(message, ModelResponse)]
    return _sum(prices)


def _price(answer: ModelResponse | EmbeddingResult, candidate: Candidate) -> float | None:
    """A server of one's own has its own prices, even when its models have well-known names."""
    try:
        if candidate.base_url:
            return float(calc_price(answer.usage, candidate.name, provider_api_url=candidate.base_url).total_price)
        return float(answer.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _sum(prices: Sequence[float | None]) -> float | None:
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


async def embed(
    model: EmbeddingModel,
    candidate: Candidate,
    texts: Sequence[str],
    input_type: Literal["document", "query"],
    settings: Mapping[str, Any],
) -> Embedded:
    """Return the vectors of one embedding model for `texts`, asked in batches."""
    embedder = Embedder(model)
    vectors: list[Sequence[float]] = []
    tokens, prices = 0, []
    for start in range(0, len(texts), _EMBED_BATCH):
        # An empty input is refused by most servers; a blank one has the same meaning.
        batch = [text or " " for text in texts[start : start + _EMBED_BATCH]]
        options: Any = dict(settings)
        result = await embedder.embed(batch, input_type=input_type, settings=options)
        if len(result.embeddings) != len(batch):
            raise BadAnswerError(f"{len(result.embeddings)} vectors came back for {len(batch)} texts")
        vectors.extend(result.embeddings)
        tokens += result.usage.input_tokens
        prices.append(_price(result, candidate))
    return Embedded(vectors, Usage(tokens, 0, len(prices)), _sum(prices))


async def _opened(candidate: Candidate, build: Callable[[Candidate, Provider[Any]], Any]) -> Any:
    """Return the client of `candidate`, built once per loop and closed with it."""
    home = bridge.current()
    wanted = (build, candidate)
    if wanted not in home.cache:
        provider = _provider(candidate)
        if hasattr(provider.client, "max_retries"):
            provider.client.max_retries = 0  # a client that tries again by itself keeps the fallback waiting
        home.cache[wanted] = build(candidate, provider)
        await home.stack.enter_async_context(provider)
    return home.cache[wanted]


def _model(candidate: Candidate, provider: Provider[Any]) -> Model:
    return infer_model(f"{candidate.provider}:{candidate.name}", lambda _: provider)


def _embedding_model(candidate: Candidate, provider: Provider[Any]) -> EmbeddingModel:
    kind = "openai" if candidate.provider in OPENAI_STYLE else candidate.provider
    return infer_embedding_model(f"{kind}:{candidate.name}", provider_factory=lambda _: provider)


def _provider(candidate: Candidate) -> Provider[Any]:
    if candidate.provider in OPENAI_STYLE and candidate.base_url:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return OpenAICompatibleProvider("openai-compatible", base_url=candidate.base_url, api_key=candidate.key)
    try:
        kind = infer_provider_class(candidate.provider)
    except ValueError:
        raise UserError(f"there is no model provider {candidate.provider!r}") from None
    given = {"base_url": candidate.base_url, "api_key": candidate.key}
    known = inspect.signature(kind).parameters
    if candidate.base_url and "base_url" not in known:
        raise UserError(
            f"{candidate.provider} takes no base_url; use openai-chat:{candidate.name} for a server of your own"
        )
    return kind(**{name: value for name, value in given.items() if value and name in known})
