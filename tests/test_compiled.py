"""What makes a run of the suite in several processes quicker does so with this pytest."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from lumia import finder
from lumia.paths import base
from tests.support import compiled


def test_a_test_file_rewritten_ahead_is_not_rewritten_again(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, broken = tmp_path / "test_one.py", tmp_path / "test_broken.py"
    file.write_text("def test_one() -> None:\n    assert 1 + 1 == 2\n")
    broken.write_text("def test_one(")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    compiled.rewrite([broken, file], pytestconfig)
    assert [cached.name.split(".")[0] for cached in tmp_path.rglob("*.pyc")] == ["test_one"]

    hook: Any = pytestconfig.pluginmanager.rewrite_hook
    monkeypatch.setattr("_pytest.assertion.rewrite._rewrite_test", None)  # a call of it would fail
    spec: Any = hook.find_spec("test_one", [str(tmp_path)])
    module: Any = type(pytest)("test_one")
    module.__spec__ = spec
    spec.loader.exec_module(module)
    module.test_one()


def test_what_processes_import_is_compiled_where_they_look_for_it() -> None:
    compiled.product()
    for file in ("lumia/runtime.py", "tasks/transport.py", "tests/support/wait.py", "bench/bot.py"):
        source = base() / file
        assert _loaded(SourceFileLoader("it", str(source))), file
    for plugin in ("handlers/heartflow/plugin.py", "adapters/telegram/plugin.py", "plugins/hello/plugin.py"):
        assert _loaded(finder._Source("it", str(base() / plugin))), plugin


def _loaded(loader: SourceFileLoader) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "source_to_code", lambda *_, **__: None)  # only bytecode gives code now
        return loader.get_code("it") is not None
