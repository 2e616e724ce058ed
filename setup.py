"""What pyproject.toml can't say: a wheel carries the folders beside `lumia/` as data in `lumia/_base/`.

Nothing generic (`tasks`, `config`) may land at the top of site-packages; an editable install uses the checkout itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
BASE_FOLDERS = ("tasks", "handlers", "adapters", "plugins", "infra")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.py[co]", ".git", ".*_cache", "data", "node_modules")


class BuildWithBase(build_py):
    """Copy the base folders into the build, replacing whatever an earlier build left there."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        package = Path(self.build_lib, "lumia")
        shutil.rmtree(package, ignore_errors=True)
        super().run()
        for name in BASE_FOLDERS:
            shutil.copytree(HERE / name, package / "_base" / name, ignore=LEFT_OUT)


setup(cmdclass={"build_py": BuildWithBase})
