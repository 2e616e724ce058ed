"""Requests nobody thought of, at every route that the adapters mount: no 500, no crash, no secret in the log.

`LUMIA_FUZZ_EXAMPLES=2000 pytest tests/adapters/test_fuzz.py` goes on for longer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from lumia.gateway.mounting import mounts_of
from lumia.gateway.settings import Settings
from lumia.paths import base
from tests.support.gateway import Served, served
from tests.support.openapi import description

EXAMPLES = int(os.environ.get("LUMIA_FUZZ_EXAMPLES", "15"))
SECRETS = {name: f"s3cret-of-the-{name}-fuzz" for name in ("webhook", "hmac", "console")}
CONFIG: dict[str, dict[str, Any]] = {
    "webhook": {"sources": {"shop": {"token": SECRETS["webhook"]}, "mill": {"secret": SECRETS["hmac"]}}},
    "console": {"token": SECRETS["console"]},
}
HEADERS = {
    "Authorization": [f"Bearer {SECRETS['webhook']}", "Bearer wrong", "Bearer", "Basic eA=="],
    "X-Lumia-Signature": ["sha256=00", "sha256="],
    "Origin": ["null", "http://127.0.0.1", "http://[", "https://elsewhere.example"],
    "Cookie": ["lumia_console=1.2", "lumia_console=99999999999.x", "lumia_console="],
    "Range": ["bytes=0-1"],
}
BODY = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "sender_id": {"type": ["string", "integer"]},
        "group_id": {"type": ["string", "integer", "null"]},
        "message_id": {"type": ["string", "integer"]},
        "callback_url": {"type": "string"},
        "media": {},
    },
    "required": ["text", "sender_id"],
}


def adapters() -> list[Path]:
    """Return the adapters that ship with Lumia; those without an account in `CONFIG` have no connection to open."""
    return [path for path in sorted((base() / "adapters").iterdir()) if (path / "manifest.json").is_file()]


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with served(*adapters(), config=CONFIG, settings=Settings(max_body=262_144, threads=4), workers=1) as running:
        yield running


def operations(site: Served) -> dict[str, Any]:
    spec = description(
        mounts_of(site.bot.runtime), headers=HEADERS,
        parameters={"source": ["shop", "mill"], "name": ["console.js", "..", "%2e%2e"]},
        bodies={"/webhook/{source}": BODY},
    )  # fmt: skip
    schema = schemathesis.openapi.from_dict(spec)
    found: list[Any] = [one.ok() for one in schema.get_all_operations()]  # type: ignore[union-attr]
    return {f"{one.method} {one.path}": one for one in found}


def test_requests_nobody_thought_of_break_nothing_and_betray_nothing(
    site: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, logger="lumia")
    found = operations(site)
    assert {"post /webhook/{source}", "get /console", "post /console/login"} <= {name.lower() for name in found}
    monkeypatch.setenv("NO_PROXY", "*")
    for name, operation in found.items():
        _fuzz(site, name, operation)
    assert site.client.get("/healthz").status_code == 200
    logged = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    assert not [name for name, secret in SECRETS.items() if secret in logged]
    assert "error id" not in logged


def _fuzz(site: Served, name: str, operation: Any) -> None:
    answers: dict[int, int] = {}

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        try:
            answer = case.call(base_url=site.url, timeout=10, allow_redirects=False)
        except ValueError:
            return  # the client itself refuses to send it
        answers[answer.status_code] = answers.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, f"{name}: {answer.status_code} {answer.text[:200]}"

    send()
    assert answers, f"{name}: nothing was sent"
