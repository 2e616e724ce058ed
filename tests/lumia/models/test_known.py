"""The table of providers agrees with pydantic-ai."""

from __future__ import annotations

import inspect
import re

import pytest
from pydantic_ai.providers import infer_provider_class

from lumia.models import known


@pytest.mark.parametrize("name", sorted(known.PROVIDERS))
def test_every_provider_of_the_table_is_one_of_pydantic_ai(name: str) -> None:
    provider = known.PROVIDERS[name]
    if command := known.missing_package(name):
        assert command == f'pip install "pydantic-ai-slim[{provider.extra}]"'
        with pytest.raises(ImportError, match=re.escape(f"pydantic-ai-slim[{provider.extra}]")):
            infer_provider_class(name)
    else:
        found = infer_provider_class(name)
        source = inspect.getsource(inspect.getmodule(found) or found)
        assert all(key in source for key in provider.keys)


def test_a_provider_nobody_knows_is_left_to_pydantic_ai() -> None:
    assert known.missing_package("brand-new") is None


@pytest.mark.parametrize(
    "name,provider", [("deepseek-chat", "deepseek"), ("GPT-4o-mini", "openai-chat"), ("my-own-model", None)]
)
def test_well_known_names_need_no_prefix(name: str, provider: str | None) -> None:
    assert known.provider_of_bare_name(name) == provider
