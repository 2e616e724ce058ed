"""docs/slack.md says what the adapter does: its app manifest, its settings."""

from __future__ import annotations

import re
import textwrap

import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from adapters.slack.accounts import Account
from adapters.slack.checking import SCOPES, USEFUL
from lumia.paths import base

PAGE = (base() / "docs" / "slack.md").read_text(encoding="utf-8")


def test_the_manifest_asks_for_what_is_needed() -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    manifest = yaml.safe_load(textwrap.dedent("   " + found[1].lstrip()))
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == SCOPES | set(USEFUL)
    settings = manifest["settings"]
    addresses = {settings[key]["request_url"] for key in ("event_subscriptions", "interactivity")}
    addresses |= {one["url"] for one in manifest["features"]["slash_commands"]}
    assert addresses == {"https://bot.example.com/slack/main/events"}
    wanted = {"app_mention", "message.channels", "message.groups", "message.im", "message.mpim"}
    assert wanted <= set(settings["event_subscriptions"]["bot_events"])


def test_every_setting_is_explained() -> None:
    assert not [name for name in Account.__dataclass_fields__ if name != "name" and f"| `{name}`" not in PAGE]
