"""`lumia registry serve`: says where it is, answers there, and ends when it is told to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx

from tests.lumia.registry.repositories import plugin


def test_it_says_where_it_is_and_what_it_left_out_and_ends_on_sigterm(tmp_path: Path) -> None:
    plugin(tmp_path / "dice", "v1.0.0")
    plugin(tmp_path / "untagged")
    command = [sys.executable, "-m", "lumia", "registry", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        assert said.startswith("1 plugin at http://127.0.0.1:")
        assert httpx.get(f"{said.split()[-1]}/pkg/dice").json()["latest_tag"] == "v1.0.0"
        process.terminate()
        assert process.wait(20) in (0, -15)
        assert "no tag is a version; tag one" in process.stderr.read()


def test_a_folder_that_is_none_is_an_error_of_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lumia", "registry", "serve", str(tmp_path / "gone")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and "is no folder" in done.stderr
