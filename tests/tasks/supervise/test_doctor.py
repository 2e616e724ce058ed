"""`lumia doctor`: each risk is one line with its way out, and only what hinders a start fails."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from lumia import paths
from lumia.config import ConfigStore
from lumia.deployment import Wanted
from lumia.pkg.bringing import Root
from tasks.keys import PREFIX
from tasks.supervise import doctor
from tasks.supervise.bot_report import BotReport, bot_report
from tasks.supervise.check_deployment import check_deployment
from tasks.supervise.check_machine import check_machine
from tasks.supervise.check_servers import check_servers
from tasks.supervise.findings import FAIL, OK, RISK, Finding
from tasks.supervise.folders import Folders
from tasks.supervise.notes import notes
from tasks.supervise.ports import free_port, is_free
from tasks.supervise.resp import connect
from tasks.supervise.settings import Settings
from tasks.supervise.state import ServiceState, UpState
from tests.support import servers

pytestmark = pytest.mark.services


@pytest.fixture
def here(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUMIA_ROOT", str(bot_root))
    below_ephemeral = range(20_000 + os.getpid() % 1000 * 4, 32_000, 4)  # nobody's outgoing connection lands there
    first = next(port for port in below_ephemeral if all(is_free("127.0.0.1", port + n) for n in range(4)))
    for number, name in enumerate(("GATEWAY", "FLOWER", "REDIS", "POSTGRES")):
        monkeypatch.setenv(f"LUMIA__{name}__PORT", str(first + number))
    return bot_root


def named(findings: list[Finding], check: str) -> list[Finding]:
    return [one for one in findings if one.check == check]


def levels(findings: list[Finding], check: str) -> set[str]:
    return {one.level for one in named(findings, check)}


def test_a_fresh_bot_on_this_machine_can_start(here: Path) -> None:
    findings = doctor.examine()
    assert doctor.is_ok(findings), [one.line for one in findings if one.level == FAIL]
    assert {"python", "packages", "disk", "redis", "postgres", "pgvector", "root", "secret", "ports", "config"} <= {
        one.check for one in findings
    }


def test_every_problem_has_a_way_out_and_is_one_line(here: Path) -> None:
    for finding in doctor.examine():
        assert "\n" not in finding.line
        assert finding.level == OK or finding.fix, finding


def test_without_a_bot_root_it_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_ROOT", str(tmp_path))
    findings = doctor.examine()
    assert not doctor.is_ok(findings)
    assert "lumia init" in named(findings, "root")[0].fix


def test_an_invalid_config_file_fails_and_is_named(here: Path) -> None:
    (here / "config" / "lumia.toml").write_text("[worker]\nconcurrency = -1\n", encoding="utf-8")
    findings = doctor.examine()
    assert not doctor.is_ok(findings)
    assert any("concurrency" in one.message and one.level == FAIL for one in findings)


def test_a_taken_port_fails(here: Path) -> None:
    with socket.create_server(("127.0.0.1", int(os.environ["LUMIA__REDIS__PORT"]))):
        findings = doctor.examine()
    assert levels(findings, "ports") == {FAIL}
    assert "[redis] port" in named(findings, "ports")[0].fix


def test_a_plugin_that_does_not_load_is_a_risk_with_its_reason(here: Path) -> None:
    folder = here / "plugins" / "broken"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{", encoding="utf-8")
    findings = doctor.examine()
    assert doctor.is_ok(findings)
    assert any("broken" in one.message for one in named(findings, "plugins") if one.level == RISK)


def test_a_root_that_can_not_be_written_fails(here: Path) -> None:
    (here / "data").write_text("in the way", encoding="utf-8")
    assert FAIL in levels(doctor.examine(), "root")


def test_a_redis_without_persistence_or_with_eviction_is_a_risk(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with servers.valkey(tmp_path / "forgetful", appendonly=False) as server:
        monkeypatch.setenv("LUMIA_REDIS_URL", server.url)
        with connect(server.url) as redis:
            redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        findings = list(check_servers(here, Settings(), None))
    assert levels(findings, "redis server") == {OK}
    assert levels(findings, "persistence") == {RISK}
    assert levels(findings, "eviction") == {RISK}
    assert levels(findings, "clock") == {OK}


def test_a_good_redis_is_fine(valkey_url: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_REDIS_URL", valkey_url)
    findings = list(check_servers(here, Settings(postgres_enabled=False), None))
    assert {one.level for one in findings} == {OK}


def test_a_deployment_record_that_is_refused_here_is_a_risk_with_its_way_out(valkey_url: str, here: Path) -> None:
    def found(record: Wanted) -> list[Finding]:
        with connect(valkey_url) as redis:
            redis.ask("HSET", f"{PREFIX}deployment", "active", "7", "active_wanted", record.dump())
        return list(check_deployment(here, valkey_url))

    root = Root(here, ConfigStore(here))
    assert list(check_deployment(here, valkey_url)) == list(check_deployment(here, "")) == []
    (foreign,) = found(Wanted({}))
    assert (foreign.level, "deployment 7 is refused here" in foreign.message) == (RISK, True)
    assert "not signed" in foreign.message and "`pkg sync`" in foreign.fix
    assert [one.level for one in found(root.sealed(Wanted({}, serial=2)))] == [OK]
    root.saw(root.sealed(Wanted({}, serial=2)))
    (older,) = found(root.sealed(Wanted({}, serial=1)))
    assert (older.level, "older than what" in older.message) == (RISK, True)


def test_a_redis_that_does_not_answer_fails(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    findings = list(check_servers(here, Settings(postgres_enabled=False), None))
    assert levels(findings, "redis server") == {FAIL}


def test_a_missing_package_fails_and_another_version_is_a_risk(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "runtime.in").write_text("# why\nno-such-package==1\ncelery==0.1\nredis>=1\n")
    findings = named(list(check_machine(tmp_path, None)), "packages")
    assert [(one.level, one.message.split()[0]) for one in findings] == [(FAIL, "no-such-package"), (RISK, "celery")]


def test_the_tools_of_plugins_are_listed(bot_root: Path) -> None:
    folder = bot_root / "plugins" / "shop"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"name": "shop"}', encoding="utf-8")
    code = 'import lumia\n\n\n@lumia.mcp.tool("shop", "price", description="d")\ndef price() -> dict:\n    return {}\n'
    (folder / "plugin.py").write_text(code, encoding="utf-8")
    assert "shop.price (shop)" in bot_report(paths.base(), bot_root).tools


def test_the_report_of_a_hopeless_bot_is_an_error_and_no_crash(bot_root: Path) -> None:
    (bot_root / "config" / "lumia.toml").write_text("[", encoding="utf-8")
    report = bot_report(paths.base(), bot_root)
    assert report.errors
    assert isinstance(report, BotReport)


def test_up_announces_the_offline_model_and_a_plugin_that_does_not_load(here: Path) -> None:
    folder = here / "plugins" / "broken"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{", encoding="utf-8")
    said = notes(paths.base(), here, UpState(1, 0.0))
    assert any("offline model answers for every role" in line for line in said)
    assert any(line.startswith("warning: ") and "broken" in line for line in said)


def test_up_warns_of_a_given_redis_that_forgets(tmp_path: Path, here: Path) -> None:
    with servers.valkey(tmp_path / "forgetful", appendonly=False) as server:
        state = UpState(1, 0.0, redis_url=server.url, services=(ServiceState("redis", None, "ready", "redis://x"),))
        assert any("append-only" in line for line in notes(paths.base(), here, state))


def test_a_secret_others_could_read_is_reported(here: Path) -> None:
    Folders(here).prepare()
    doctor.examine()
    (here / "data" / "secret.key").chmod(0o644)
    assert levels(doctor.examine(), "secret") == {RISK}


def test_the_json_form_holds_what_the_line_says() -> None:
    finding = Finding(RISK, "disk", "1 GiB free", "free some")
    assert finding.line == "! disk: 1 GiB free → free some"
    assert json.loads(json.dumps(finding.as_dict())) == {
        "check": "disk",
        "level": "risk",
        "message": "1 GiB free",
        "fix": "free some",
    }
