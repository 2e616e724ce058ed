"""The files in infra/ are data nobody imports; here they are at least well-formed and free of anyone's machine."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

INFRA = Path(__file__).resolve().parents[2] / "infra"
UNITS = sorted(INFRA.glob("systemd/*.service"))
PARTS = {
    "gateway": "-m lumia.gateway",
    "worker": "-A tasks worker",
    "beat": "-A tasks beat",
    "flower": "-A tasks flower",
}
SERVICE_KEYS = {
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "image",
    "init",
    "ports",
    "restart",
    "stop_grace_period",
    "stop_signal",
    "volumes",
    "working_dir",
}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text(encoding="utf-8"))
    return found


def unit(file: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys of systemd have capitals
    parser.read_string(file.read_text(encoding="utf-8"))
    return parser


def test_compose_has_every_process_and_only_keys_it_knows(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"valkey", "postgres", *PARTS}
    assert {key for service in compose["services"].values() for key in service} <= SERVICE_KEYS


def test_compose_starts_each_part_by_its_own_command(compose: dict[str, Any]) -> None:
    for name, words in PARTS.items():
        assert words in " ".join(compose["services"][name]["command"]).replace("  ", " ")


def test_compose_publishes_on_loopback_only(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_compose_makes_the_operator_choose_every_secret(compose: dict[str, Any]) -> None:
    text = (INFRA / "compose.yaml").read_text(encoding="utf-8")
    names = re.findall(r"\$\{(LUMIA_(?:SECRET|\w*PASSWORD))(:\?)?", text)
    assert names
    assert all(demanded for _, demanded in names)


def test_compose_gives_every_lumia_process_the_same_stores(compose: dict[str, Any]) -> None:
    for name in PARTS:
        environment = compose["services"][name]["environment"]
        assert {"LUMIA_ROOT", "LUMIA_REDIS_URL", "LUMIA_DATABASE_URL", "LUMIA_SECRET"} <= set(environment)


def test_the_brokers_settings_are_those_the_promises_rest_on() -> None:
    lines = (INFRA / "valkey.conf").read_text(encoding="utf-8").splitlines()
    assert {"appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction", "protected-mode yes"} <= set(lines)


@pytest.mark.parametrize("name", sorted(PARTS))
def test_each_process_has_a_unit_with_the_right_command(name: str) -> None:
    service = unit(INFRA / "systemd" / f"lumia-{name}.service")["Service"]
    assert PARTS[name] in service["ExecStart"]
    assert service["Restart"] == "always"
    assert service["User"] == "lumia"


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_a_unit_belongs_to_the_target(file: Path) -> None:
    assert unit(file)["Unit"]["PartOf"] == "lumia.target"
    assert file.name in unit(INFRA / "systemd" / "lumia.target")["Unit"]["Wants"]


@pytest.mark.parametrize("file", [*UNITS, INFRA / "systemd" / "lumia.target"], ids=lambda file: file.name)
def test_systemd_finds_no_fault(file: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("this machine has no systemd-analyze")
    done = subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert [line for line in done.stderr.splitlines() if "lumia" in line] == []


def test_no_file_names_anyones_machine() -> None:
    for file in INFRA.rglob("*"):
        if file.is_file():
            assert not re.search(r"/(home|root|Users)/", file.read_text(encoding="utf-8")), file
