"""Who is compared, by which commands, in which environments."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bench import contenders, venvs
from bench.peers.load import payload

PEERS = sorted({one.peer for one in contenders.ALL if one.peer})
EXACT = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


def test_a_peer_is_chosen_by_the_beginning_of_its_name() -> None:
    names = [one.name for one in contenders.chosen(["celery-chain", "huey"])]
    assert names == [
        "lumia",
        "lumia-unfused",
        "celery-chain-threads",
        "celery-chain-solo",
        "celery-chain-prefork",
        "huey",
    ]
    assert [one.name for one in contenders.chosen(["none"])] == ["lumia", "lumia-unfused"]
    assert contenders.chosen(None) == list(contenders.ALL)


def test_an_unknown_peer_is_refused_with_the_names_that_are_known() -> None:
    with pytest.raises(SystemExit, match=r"no peer 'rq'; known: .*dramatiq"):
        contenders.chosen(["rq"])


def test_every_contender_says_what_it_promises_in_three_lines() -> None:
    for one in contenders.ALL:
        assert all(line and "\n" not in line for line in vars(one.guarantee).values()), one.name


@pytest.mark.parametrize("peer", PEERS)
def test_a_peers_lock_pins_what_is_asked_for_with_hashes(peer: str) -> None:
    lock = venvs.lock_of(peer).read_text()
    pinned = dict(EXACT.findall(lock))
    asked = [Requirement(line) for line in (venvs.LOCKS / f"{peer}.in").read_text().split()]
    assert {one.name: str(one.specifier) for one in asked} == {one.name: f"=={pinned[one.name]}" for one in asked}
    assert len(re.findall(r"^[\w.-]+==.*\\\n    --hash=sha256:", lock, re.MULTILINE)) == len(pinned)
    assert "://" not in lock


@pytest.mark.parametrize("peer", PEERS)
def test_peers_share_the_client_library_that_lumia_uses(peer: str) -> None:
    ours = dict(EXACT.findall((Path(venvs.__file__).parents[1] / "requirements" / "runtime.txt").read_text()))
    theirs = dict(EXACT.findall(venvs.lock_of(peer).read_text()))
    shared = set(theirs) & {"redis", "hiredis", "celery", "kombu"}
    assert {name: theirs[name] for name in shared} == {name: ours[name] for name in shared}


@pytest.mark.parametrize("number", [None, 0, 123_456])
def test_a_payload_has_200_bytes_of_json(number: int | None) -> None:
    assert len(json.dumps(payload(number), separators=(",", ":"))) == 200


def test_an_environment_that_cannot_be_made_says_why() -> None:
    said = "import sys; sys.exit('WARNING: retrying\\nERROR: no network\\nbye')"
    with pytest.raises(venvs.PeerMissing, match=r"^huey: its environment can't be made: ERROR: no network$"):
        venvs._run("huey", [sys.executable, "-c", said])


def test_an_environment_of_the_same_lock_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "known.txt").write_text("")
    monkeypatch.setattr(venvs, "LOCKS", tmp_path)
    python = tmp_path / "made" / "known" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "made" / "known" / venvs.STAMP).write_text(venvs.stamp("known"))
    assert venvs.python_of("known", tmp_path / "made") == str(python)
    before = venvs.stamp("known")
    (tmp_path / "known.txt").write_text("# another lock\n")
    assert venvs.stamp("known") != before
