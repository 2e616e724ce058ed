"""The effect ledger: what each try may write, who is too late, and how it is settled by hand, on every transport."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lumia.errors import EffectError, StaleClaimError
from lumia.inmemory import InMemoryTransport
from lumia.journal import JournalEntry
from lumia.marks import Retry
from lumia.ports import Claim, Commit, EffectRecord, EffectUse, RunRequest, StepRecord
from lumia.routes import Plan, PlanStep
from lumia.system import new_id
from tasks.transport import RedisTransport, connect
from tests.conformance.conftest import Probe
from tests.support import servers

PLAN = Plan.of([PlanStep(f"p.s{n}", "pipe", "g1", "default", None, False, Retry()) for n in range(2)])


@dataclass
class Tries:
    """One run whose step is tried by one worker after the other."""

    transport: Any
    run: str

    def claim(self) -> Claim:
        """Claim the step, as a worker that got its message does."""
        if isinstance(self.transport, InMemoryTransport):
            found = self.transport.take()
        else:
            at = {name: self.transport.redis.hget(f"lumia:r:{self.run}", name) for name in ("x", "q")}
            found = self.transport.claim(self.run, int(at["x"] or 0), int(at["q"]))
        assert found is not None
        return found

    def lose(self, claim: Claim) -> Claim:
        """Take the step from its worker, as the reaper does, and claim it for another one."""
        if isinstance(self.transport, InMemoryTransport):
            self.transport.push(self.transport._runs[claim.run_id])
        else:
            self.transport.redis.zadd("lumia:claims", {claim.run_id: 1})
            self.transport.call("reap", 2500, 1000, 60_000, 1000)
        return self.claim()

    def use(self, claim: Claim, policy: str = "retry") -> EffectUse:
        return EffectUse(self.run, f"{claim.step}:pay", policy, self.entry(claim, ""))

    def entry(self, claim: Claim, outcome: str) -> JournalEntry:
        detail = {"effect": "pay", "kind": "call"}
        return JournalEntry("effect", claim.run_id, step=claim.step, outcome=outcome, detail=detail)

    def begin(self, claim: Claim, policy: str = "retry") -> EffectRecord | None:
        return self.transport.begin_effect(claim, self.use(claim, policy))  # type: ignore[no-any-return]

    def end(self, claim: Claim, state: str = "done", value: str = '{"j":1}', policy: str = "retry") -> bool:
        record = EffectRecord(state, value, policy, claim.token, claim.run_id, claim.step)
        return bool(self.transport.end_effect(claim, self.use(claim, policy), record, self.entry(claim, state)))

    def settle(self, state: str, value: str = "", name: str = "0:pay") -> None:
        entry = JournalEntry("effect", self.run, step=0, outcome=state, detail={"effect": "pay", "by": "hand"})
        self.transport.settle_effect(self.run, name, EffectRecord(state, value), entry)

    def found(self) -> tuple[str, str]:
        record = self.transport.effect(self.run, "0:pay")
        return record.state, record.value

    @property
    def told(self) -> list[str]:
        entries = self.transport.tail("0", 0, 1000)
        return [entry.outcome for entry in entries if entry.kind == "effect" and entry.run_id == self.run]

    @property
    def stale(self) -> int:
        return int(self.transport.health().counters.get("stale effects", 0))


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.valkey(tmp_path_factory.mktemp("ledger")) as server:
        yield server.url


@pytest.fixture(params=["memory", "redis"])
def tries(request: pytest.FixtureRequest) -> Iterator[Tries]:
    run = new_id()
    if request.param == "memory":
        transport: Any = InMemoryTransport()
    else:
        redis = connect(request.getfixturevalue("valkey_url"))
        redis.flushdb()
        transport = RedisTransport(redis, worker="host:1:aa")
        transport.call("heartbeat", transport.worker, 2500)
        redis.set("lumia:beat:since", 1)
    transport.start([RunRequest(run, "pipe", "msg", PLAN, '{"j":1}', root_id=run, attached=False)])
    yield Tries(transport, run)
    transport.close()


def test_a_call_begins_and_ends_and_the_next_try_gets_its_result(tries: Tries) -> None:
    claim = tries.claim()
    assert tries.transport.effect(tries.run, "0:pay") is None
    assert tries.begin(claim) is None and tries.found() == ("intended", "")
    assert tries.end(claim) and tries.found() == ("done", '{"j":1}')
    record = tries.begin(tries.lose(claim))
    assert record is not None and (record.state, record.value) == ("done", '{"j":1}')
    assert tries.told == ["done", "replayed"]


def test_sending_anything_again_gives_the_first_answer_and_one_entry(tries: Tries) -> None:
    claim = tries.claim()
    assert tries.begin(claim) is None and tries.begin(claim) is None
    assert tries.end(claim) and tries.end(claim)
    follower = tries.lose(claim)
    first, second = tries.begin(follower), tries.begin(follower)
    assert first is not None and second is not None and first.value == second.value == '{"j":1}'
    assert tries.told == ["done", "replayed"]


def test_a_failed_call_is_made_again(tries: Tries) -> None:
    claim = tries.claim()
    assert tries.begin(claim) is None and tries.end(claim, "failed", "OSError: away")
    assert tries.begin(claim) is None and tries.end(claim)
    assert tries.told == ["failed", "done"]


def test_an_intent_whose_try_is_gone_is_unknown_and_made_again_under_retry(tries: Tries) -> None:
    claim = tries.claim()
    tries.begin(claim)
    assert tries.begin(tries.lose(claim)) is None
    assert tries.told == ["unknown"] and tries.found()[0] == "intended"


@pytest.mark.parametrize("then, now", [("hold", "hold"), ("hold", "retry"), ("retry", "hold")])
def test_under_hold_of_then_or_now_it_is_not(tries: Tries, then: str, now: str) -> None:
    claim = tries.claim()
    tries.begin(claim, then)
    follower = tries.lose(claim)
    for _ in range(2):
        record = tries.begin(follower, now)
        assert record is not None and record.state == "unknown"
    assert tries.told == ["unknown", "held", "held"] and tries.found()[0] == "unknown"


def test_a_zombie_begins_nothing(tries: Tries) -> None:
    zombie = tries.claim()
    tries.lose(zombie)
    with pytest.raises(StaleClaimError, match=tries.run):
        tries.begin(zombie)
    assert tries.transport.effect(tries.run, "0:pay") is None and tries.told == [] and tries.stale == 1


def test_a_zombies_result_is_kept_while_nobody_else_has_begun_the_call(tries: Tries) -> None:
    zombie = tries.claim()
    tries.begin(zombie)
    live = tries.lose(zombie)
    assert tries.end(zombie) and tries.found() == ("done", '{"j":1}')
    record = tries.begin(live)
    assert record is not None and record.state == "done" and tries.stale == 0


def test_a_zombies_result_resolves_what_was_held_for_it(tries: Tries) -> None:
    zombie = tries.claim()
    tries.begin(zombie, "hold")
    held = tries.begin(tries.lose(zombie), "hold")
    assert held is not None and held.state == "unknown"
    assert tries.end(zombie, policy="hold") and tries.found() == ("done", '{"j":1}')
    assert tries.transport.effects() == []


def test_a_zombies_result_never_replaces_what_the_live_try_began(tries: Tries) -> None:
    zombie = tries.claim()
    tries.begin(zombie)
    live = tries.lose(zombie)
    assert tries.begin(live) is None
    assert not tries.end(zombie, value='{"j":"old"}') and tries.found()[0] == "intended"
    assert tries.end(live) and not tries.end(zombie, value='{"j":"old"}')
    assert tries.found() == ("done", '{"j":1}') and tries.stale == 2
    assert tries.told == ["unknown", "done"]


def test_an_end_after_a_result_changes_nothing(tries: Tries) -> None:
    claim = tries.claim()
    tries.begin(claim)
    assert tries.end(claim) and tries.end(claim, "unknown", "cancelled")
    assert tries.found()[0] == "done" and tries.told == ["done"]


def test_the_claim_of_another_step_is_no_claim(tries: Tries) -> None:
    claim = tries.claim()
    entry = JournalEntry("step", tries.run, step=0)
    follower = tries.transport.commit(claim, Commit("next", StepRecord("p.s0", "next"), entry, index=1, fuse=True))
    assert follower is not None and follower.token == claim.token
    with pytest.raises(StaleClaimError):
        tries.begin(claim)
    assert tries.transport.begin_effect(follower, tries.use(follower)) is None


def test_an_effect_of_an_ended_run_is_listed_as_unknown_and_settled_by_hand(tries: Tries) -> None:
    claim = tries.claim()
    tries.begin(claim, "hold")
    assert [(run, name, record.state) for run, name, record in tries.transport.effects()] == [
        (tries.run, "0:pay", "intended")
    ]
    with pytest.raises(EffectError, match="is being made right now"):
        tries.settle("done", '{"j":5}')
    live = tries.lose(claim)
    ((_, _, record),) = tries.transport.effects(tries.run)
    assert record.state == "unknown" and record.policy == "hold"
    tries.settle("done", '{"j":5}')
    tries.settle("done", '{"j":5}')
    assert tries.transport.effects() == []
    found = tries.begin(live, "hold")
    assert found is not None and (found.state, found.value) == ("done", '{"j":5}')
    assert tries.told == ["done", "replayed"]


def test_settled_as_failed_it_is_made_again(tries: Tries) -> None:
    claim = tries.claim()
    tries.begin(claim, "hold")
    live = tries.lose(claim)
    tries.settle("failed", "never arrived")
    assert tries.begin(live, "hold") is None and not tries.end(claim, policy="hold")


def test_only_what_is_unknown_can_be_settled(tries: Tries) -> None:
    claim = tries.claim()
    tries.begin(claim)
    tries.end(claim)
    with pytest.raises(EffectError, match="has its result"):
        tries.settle("failed")
    with pytest.raises(EffectError, match=f"lumia effects list {tries.run}"):
        tries.settle("failed", name="0:other")


def test_a_large_result_comes_back_as_it_was(tries: Tries) -> None:
    claim = tries.claim()
    tries.begin(claim)
    value = '{"j":"' + "ä\\n" * 200_000 + '"}'
    assert tries.end(claim, value=value) and tries.found() == ("done", value)


# --- the same through handlers


def effects(bot: Probe, run_id: str) -> list[JournalEntry]:
    return [entry for entry in bot.journal(run_id) if entry.kind == "effect"]


def test_the_entry_of_an_effect_tells_what_a_replay_needs(bot: Probe, tmp_path: Path) -> None:
    result = bot.pipe("recovering", file=str(tmp_path / "calls"))
    first, *again = effects(bot, result.run_id)
    assert (first.outcome, first.attempt, first.step) == ("done", 1, 0)
    assert {**first.detail, "args": ""} == {
        "effect": "paid call", "kind": "call", "policy": "retry", "args": "", "value": '{"j":1}',
    }  # fmt: skip
    assert len(first.detail["args"]) == 16
    assert [(entry.outcome, entry.attempt) for entry in again] == [("replayed", 2), ("replayed", 3)]
    assert all("value" not in entry.detail for entry in again)


def test_a_consumer_tried_again_on_its_own_shares_the_ledger(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    bot.event("recovering consumers", file=str(file))
    assert bot.seen == [["paid", 1, "tries", 3]] and file.stat().st_size == 1


def test_an_async_effect_is_recorded_too(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    result = bot.pipe("recovering async", file=str(file))
    assert result.outcome == "done" and file.stat().st_size == 1
    assert [entry.outcome for entry in effects(bot, result.run_id)] == ["done", "replayed", "replayed"]


def test_a_live_resource_s_run_has_a_ledger_too(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    bot.pipe("opening and paying", file=str(file))
    assert file.stat().st_size == 1 and bot.seen == [["paid", 1]]


def test_an_effect_held_is_settled_and_the_step_gets_the_settled_result(bot: Probe, tmp_path: Path) -> None:
    result = bot.pipe("holding", file=str(tmp_path / "calls"))
    assert result.outcome == "failed" and "lumia effects settle" in result.reason
    found = [(name, record.state) for _, name, record in bot.runtime.transport.effects(result.run_id)]
    assert found == [("0:once", "unknown")]
    assert [entry.outcome for entry in effects(bot, result.run_id)] == ["unknown", "held"]


def test_what_a_step_reads_stands_in_its_entry(bot: Probe) -> None:
    result = bot.pipe("reading")
    (step,) = [entry for entry in bot.journal(result.run_id) if entry.kind == "step"]
    kinds = [read[0] for read in step.detail["reads"]]
    assert kinds == ["now", "store", "store", "store"] and len(step.detail["reads"][0]) == 3
    assert step.detail["reads"][1] == ["store", f"probe/{bot.scope}/absent", ["none", None]]
    assert step.detail["reads"][2][1:] == [f"probe/{bot.scope}/counted", ["none", None]]
    assert bot.seen == [["reads", 1]]
