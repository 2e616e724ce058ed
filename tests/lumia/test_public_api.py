"""The exported names are a promise: a name that goes, or a parameter that changes, breaks plugins."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
import time
from typing import Any

import pytest

import lumia

NAMES = [
    "Box", "LumiaError", "Rate", "Retry", "__version__", "adapters", "annotate", "blobs", "checks", "command", "config",
    "context", "cron", "effect", "errors", "event", "gateway", "lanes", "limit", "mcp", "media", "models", "outside",
    "payloads", "pipe", "recorded", "runs", "runtime", "services", "store", "system", "testing", "utils", "web",
]  # fmt: skip

START = (
    "id, content, *, key, dedup, detach, delay, priority, also, cap, overflow, max_age, stale, collect, max_wait, "
    "rate, queue"
)
CALLS = {
    "Box.any": "value, *, meta, destructor",
    "adapters.accept": "adapter, msg, raw, *, meta",
    "adapters.account": "adapter, name, *, platform",
    "adapters.accounts": "",
    "adapters.check": "fn",
    "adapters.delete": "src, message_id, *, account",
    "adapters.delivering": "content, policy",
    "adapters.dispatch": "adapter, src, content, *, event, account, queue",
    "adapters.edit": "src, message_id, content, *, account",
    "adapters.following": "adapter, wanted, serve, *, names, platform",
    "adapters.hold": "state, store",
    "adapters.keeping_up": "state, connect, down",
    "adapters.until_stored": "state, store, what",
    "adapters.owning": "name, *, ttl",
    "adapters.parts": "text, limit, measure",
    "adapters.queue": "adapter, account",
    "adapters.receipts.answers": "platform, account, chat, message_id",
    "adapters.receipts.sent": "platform, account, chat, message_id",
    "adapters.serving": "adapter, account",
    "adapters.settings": "fn",
    "adapters.submit": "adapter, msg, raw, *, meta",
    "adapters.waiting": "",
    "annotate": "**notes",
    "blobs.get": "ref",
    "blobs.open": "ref",
    "blobs.put": "data, media_type",
    "checks.check": "name",
    "checks.fail": "message, fix",
    "checks.ok": "message",
    "checks.risk": "message, fix",
    "command": "name, *, help",
    "config.declare": "plugin, fields",
    "config.get": "plugin",
    "context.origin": "",
    "cron": "expression, *, tz, missed, queue, retry, timeout, hard",
    "effect": "key, call, *args, *, policy, kind, **kwargs",
    "event.chain": "id, priv, *, queue, retry, timeout, hard",
    "event.chain_re": "glob, priv, *, queue, retry, timeout, hard",
    "event.consumer": "id, priv, *, queue, retry, timeout, hard",
    "event.consumer_re": "glob, priv, *, queue, retry, timeout, hard",
    "event.interceptor": "id, priv, *, queue, retry, timeout, hard",
    "event.interceptor_re": "glob, priv, *, queue, retry, timeout, hard",
    "event.start": START,
    "lanes.stale_by": "",
    "lanes.waiting": "last, *, first",
    "limit": "name, rate",
    "mcp.tool": "server, name, *, description, timeout",
    "payloads.destination": "pid, platform, kind, id, *, action",
    "payloads.parse_destination": "id_str",
    "payloads.text_of": "value",
    "pipe.on": "id, priv, *, queue, retry, timeout, hard",
    "pipe.on_re": "glob, priv, *, queue, retry, timeout, hard",
    "pipe.start": START,
    "recorded": "kind, name, call, *args, **kwargs",
    "runs.cursor": "",
    "runs.result": "run_id",
    "runs.tail": "after, timeout, limit",
    "runs.wait": "run_id, timeout",
    "runs.wait_async": "run_id, timeout",
    "runtime.current": "",
    "runtime.open_bot": "root, *, load, transport, start",
    "services.get": "name, type",
    "services.provide": "name, obj",
    "store.append": "key, value, *, scope, keep, ttl",
    "store.delete": "key, *, scope",
    "store.fields": "key, *, scope",
    "store.get": "key, default, *, scope",
    "store.incr": "key, by, *, field, scope, ttl",
    "store.items": "key, *, scope, last",
    "store.of": "plugin",
    "store.put": "key, field, value, *, scope, ttl",
    "store.set": "key, value, *, scope, ttl",
    "system.adapters.heartbeat": "adapter_id, version",
    "system.adapters.list": "",
    "system.adapters.reg": "adapter_id, version, *, platform, account",
    "system.database_url": "root",
    "system.mcp.call": "server, tool, input, *, timeout, context",
    "system.mcp.register": "server_name, command, args, env",
    "system.mcp.tools": "",
    "system.monotonic": "",
    "system.new_id": "",
    "system.now": "",
    "system.random": "",
    "testing.Bot": "*what, *, config, clock, root, name, limits, permissions",
    "testing.ManualClock": "start, seed",
    "testing.fake_redis": "",
    "utils.intercept": "reason",
    "utils.next": "box, *, delay",
    "utils.stop": "reason",
    "web.resident": "fn",
    "web.route": "path, methods",
    "web.websocket": "path",
}

HEAVY = ("celery", "redis", "psycopg", "dill", "tomlkit", "typer", "starlette", "croniter", "pydantic_ai")


def found(path: str) -> Any:
    value: Any = lumia
    for name in path.split("."):
        value = getattr(value, name)
    return value


def parameters(call: Any) -> str:
    shown, starred = [], False
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        shown.append(marks.get(parameter.kind, "") + parameter.name)
    return ", ".join(shown)


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_public_names_are_these() -> None:
    assert lumia.__all__ == NAMES
    for name in NAMES:
        assert getattr(lumia, name) is not None


@pytest.mark.parametrize("path", sorted(CALLS))
def test_a_public_call_keeps_its_parameters(path: str) -> None:
    assert parameters(found(path)) == CALLS[path]


def test_every_public_call_says_what_it_does() -> None:
    assert [path for path in CALLS if not (inspect.getdoc(found(path)) or "").strip()] == []


def test_a_name_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        AttributeError, match=r"'lumia' has no attribute 'pipeline'; its public names are Box, .*, pipe,"
    ):
        lumia.pipeline  # noqa: B018
    assert not hasattr(lumia, "inmemory_transport")


def test_utils_holds_the_three_words_and_nothing_else() -> None:
    own = {name for name, value in vars(lumia.utils).items() if getattr(value, "__module__", "") == "lumia.utils"}
    assert own == {"next", "stop", "intercept"}


def test_every_error_derives_from_one_and_stands_in_the_drawn_tree() -> None:
    errors = importlib.import_module("lumia.errors")
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(one, lumia.LumiaError) for one in classes)
    assert [one.__name__ for one in classes if f" {one.__name__}" not in f" {errors.__doc__}"] == []


def test_importing_lumia_loads_nothing_heavy() -> None:
    loaded = json.loads(python("import sys, lumia, json; print(json.dumps(sorted(sys.modules)))"))
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []
    assert [name for name in loaded if name.startswith(("pydantic", "lumia.models."))] == []


def test_importing_lumia_is_compared_with_importing_pydantic(record_property: Any) -> None:
    def best(module: str) -> float:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            python(f"import {module}")
            times.append(time.perf_counter() - began)
        return min(times)

    nothing = best("sys")
    ratio = (best("lumia") - nothing) / max(0.001, best("pydantic") - nothing)
    record_property("import lumia, in units of import pydantic", round(ratio, 2))
    assert ratio > 0
