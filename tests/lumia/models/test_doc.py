"""The page about models shows code that runs."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from lumia.models.roles import ROLES, resolve
from lumia.paths import base

PAGE = (base() / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_config_of_the_page_is_valid() -> None:
    (source,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    tables = tomllib.loads(source)["models"]
    environ = {"DEEPSEEK_API_KEY": "k", "OPENAI_API_KEY": "k"}
    plans = [resolve(role, tables, environ) for role in ROLES]
    assert [
        (plan.problem, [candidate.problem for candidate in plan.candidates if candidate.problem]) for plan in plans
    ] == [(None, [])] * len(ROLES)
    assert [candidate.model for candidate in plans[3].candidates] == [
        "deepseek:deepseek-chat",
        "openai-chat:qwen2.5:7b",
        "offline",
    ]


def test_the_server_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(from lumia\.models.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/models.md", "exec"), names)
    assert names["reply"].text == "I am back"
