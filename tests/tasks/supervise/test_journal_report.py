"""What an operator is shown of the journal and its archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.supervise import journal_report
from tasks.supervise.findings import OK, RISK
from tasks.supervise.journal_report import check_journal
from tasks.transport import RedisTransport, connect
from tests.tasks.test_scripts import request


@pytest.fixture
def transport(valkey_url: str) -> RedisTransport:
    return RedisTransport(connect(valkey_url), worker="host:1:aa")


def test_the_figures_are_those_the_transport_counts(transport: RedisTransport, valkey_url: str) -> None:
    transport.start([request(), request()])
    told, counters = journal_report.as_dict(valkey_url), transport.health().counters
    assert told["lag_entries"] == counters["archive lag entries"] == 2
    assert told["bytes"] == counters["journal bytes"] > 100
    assert told["alarms"] == [] and counters["alarms"] == 0
    transport.close()


def test_an_alarm_is_shown_with_its_way_out(transport: RedisTransport, valkey_url: str, tmp_path: Path) -> None:
    transport.call("alarm", "journal full", "12 entries were dropped", "start a worker")
    transport.call("alarm", "journal full", "13 entries were dropped", "start a worker")
    assert journal_report.lines(valkey_url) == ["! journal full: 13 entries were dropped (2 times) → start a worker"]
    (finding,) = [one for one in check_journal(tmp_path, valkey_url) if one.check == "journal"]
    assert (finding.level, finding.fix) == (RISK, "start a worker")
    transport.call("alarm", "journal full", "", "")
    assert journal_report.lines(valkey_url) == []
    transport.close()


def test_an_archive_that_is_behind_is_a_risk(transport: RedisTransport, valkey_url: str, tmp_path: Path) -> None:
    transport.start([request()])
    assert [one.level for one in check_journal(tmp_path, valkey_url)] == [OK]
    transport.redis.delete("lumia:journal")
    transport.redis.xadd("lumia:journal", {"j": "{}"}, id="1000-0")
    (finding,) = check_journal(tmp_path, valkey_url)
    assert finding.level == RISK and "entries to be archived" in finding.message
    transport.close()


def test_little_room_for_files_is_a_risk_where_files_are_written(
    transport: RedisTransport, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_report, "SPILL_ROOM", 1 << 62)
    transport.redis.hset("lumia:archiver", "database", "none")
    assert [one.check for one in check_journal(tmp_path, valkey_url)] == ["archive", "archive files"]
    transport.redis.hset("lumia:archiver", "database", "ok")
    assert [one.check for one in check_journal(tmp_path, valkey_url)] == ["archive"]
    transport.close()


def test_a_server_that_does_not_answer_shows_nothing(tmp_path: Path) -> None:
    assert journal_report.as_dict("redis://127.0.0.1:1/0") == {} and journal_report.lines("") == []
    assert list(check_journal(tmp_path, "")) == []
