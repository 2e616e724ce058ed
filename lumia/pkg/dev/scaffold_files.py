"""The files of a new plugin, as text with `{name}`-like places."""

from __future__ import annotations

from collections.abc import Mapping

PLUGIN = '''"""{title}: {description}"""

from __future__ import annotations

from typing import Any

import lumia


@lumia.pipe.on("msg", priv=300)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    """Answer `!{name}`; pass every other message on to the next handler."""
    msg = content.into()
    if msg["text"].strip() != "!{name}":
        lumia.utils.next()
        return
    text = f"{{lumia.config.get('{name}').greeting}}, {{msg['sender']['name']}}!"
    lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any({{"text": text}}, meta={{"account": msg["account"]}}))
    lumia.utils.stop("answered")
'''

SCHEMA = """# The settings of {name}. Their values are in config/{name}.toml, where a change takes effect at once.
# Types: str, int, float, bool, list[str], list[int], list[float], table; also min, max, choices and secret = true.

[greeting]
type = "str"
default = "hello"
description = "How people are greeted"
"""

TEST = '''"""What {name} does for the people who talk to the bot: `pkg dev test` runs this."""

from __future__ import annotations

from pathlib import Path

from lumia.testing import Bot

PLUGIN = Path(__file__).parents[1]


def test_it_greets_whoever_asks() -> None:
    with Bot(PLUGIN) as bot:
        assert bot.send("!{name}", sender="ann").replies == ["hello, ann!"]


def test_the_greeting_is_a_setting() -> None:
    with Bot(PLUGIN, config={{"{name}": {{"greeting": "ahoy"}}}}) as bot:
        assert bot.send("!{name}", sender="ann").replies == ["ahoy, ann!"]


def test_other_messages_are_left_to_others() -> None:
    with Bot(PLUGIN) as bot:
        assert bot.send("good morning").replies == []
'''

HOOK = '''"""Runs once, after the installation, in the bot's Python; any exit code but 0 undoes what was installed.

Hooks that a plugin may have, each a script in this folder: pre_install, post_install, pre_upgrade, post_upgrade,
pre_uninstall and post_uninstall. Each gets PLUGIN_NAME, PLUGIN_VERSION, PLUGIN_DIR and BOT_ROOT; upgrades PREV_VERSION,
too. Delete this file when there is nothing to do.
"""

import os

print(f"{{os.environ['PLUGIN_NAME']}} {{os.environ['PLUGIN_VERSION']}} is there: write !{name} in a chat")
'''

PYPROJECT = """# How the code is checked and formatted: `pkg dev validate` uses this.
[tool.ruff]
line-length = 120
target-version = "py311"

[tool.ruff.lint]
select = ["B", "E", "F", "I", "UP", "W"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

README = """# {title}

{description}

| you write | the bot answers |
|---|---|
| `!{name}` | `hello, ann!` |

## Install

```console
$ pkg -S {name}
```

`config/{name}.toml` then holds the settings; `config-schema.toml` explains them.

## Work on it

```console
$ pkg dev run --watch   # talk to it; a save reloads it
$ pkg dev test          # the tests in tests/
$ pkg dev validate      # what the registry will check
$ pkg dev publish       # tag, sign, submit
```
"""

IGNORED = """__pycache__/
*.pyc
.pytest_cache/
.ruff_cache/
/dist/
/.venv/
# Settings of yours for `pkg dev run`.
/dev.toml
"""

LICENCE = """MIT License

Copyright (c) {year} {owner}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
"""The text of what the manifest names; with places for the year and the owner."""

FILES: Mapping[str, str] = {
    "plugin.py": PLUGIN,
    "config-schema.toml": SCHEMA,
    "tests/test_plugin.py": TEST,
    "hooks/post_install.py": HOOK,
    "pyproject.toml": PYPROJECT,
    "README.md": README,
    ".gitignore": IGNORED,
}
"""Path → template; the manifest is made from values."""
