"""Group commit in the gateway: who shares a trip, who is told what, and what happens while the broker is away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import httpx
import pytest

import lumia
from lumia import gateway
from lumia.bus import Asked
from lumia.errors import BackendUnavailableError, LaneFullError, PayloadError, RateLimitedError, StaleRoutesError
from lumia.gateway import intake as module
from lumia.gateway.app import Gateway
from lumia.gateway.intake import Intake
from lumia.gateway.scope import serving
from lumia.ports import RunRequest, Started
from lumia.routes import RouteTable
from lumia.testing import Bot
from tests.support.gateway import Served, served
from tests.support.wait import until


@lumia.pipe.on("greet")
def greet(content: lumia.Box[Any]) -> None:
    lumia.utils.next()


class Trips:
    """Sees every trip of a bot's transport; while `gate` is closed they don't come back."""

    def __init__(self, bot: Bot) -> None:
        self.seen: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.faults: list[Callable[[], None]] = []
        self._real = bot.transport.start_each
        bot.transport.start_each = self.start_each  # type: ignore[method-assign]

    def start_each(
        self, starts: Sequence[Sequence[RunRequest]], *, routes: int | None = None
    ) -> list[list[Started] | Exception]:
        self.seen.append([requests[0].key for requests in starts])
        assert self.gate.wait(10)
        if self.faults:
            self.faults.pop(0)()
        return self._real(starts, routes=routes)


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot(greet) as bot:
        yield bot


@pytest.fixture
def trips(bot: Bot) -> Trips:
    return Trips(bot)


def asked(key: str, **options: Any) -> Asked:
    return lumia.pipe.ask("greet", lumia.Box.any("ann"), key=key, **options)


def scene(bot: Bot, play: Callable[[Intake], Coroutine[Any, Any, Any]], waiting: int = 512) -> Any:
    async def run() -> Any:
        intake = Intake(bot.runtime, waiting)
        try:
            async with asyncio.timeout(20):
                return await play(intake)
        finally:
            intake.close()

    return asyncio.run(run())


async def together(intake: Intake, starts: Sequence[Asked]) -> list[Any]:
    return await asyncio.gather(*(intake.start(one) for one in starts), return_exceptions=True)


def names(found: Sequence[Any]) -> list[str]:
    return [type(one).__name__ if isinstance(one, Exception) else "run" for one in found]


class TestTrips:
    def test_starts_of_the_same_moment_share_a_trip(self, bot: Bot, trips: Trips) -> None:
        found = scene(bot, lambda intake: together(intake, [asked(f"k{n}") for n in range(5)]))
        assert trips.seen == [["k0", "k1", "k2", "k3", "k4"]]
        assert len(set(found)) == 5 and all(bot.transport.run(run) for run in found)

    def test_what_comes_during_a_trip_goes_along_with_the_next(self, bot: Bot, trips: Trips) -> None:
        async def play(intake: Intake) -> None:
            trips.gate.clear()
            first = asyncio.ensure_future(intake.start(asked("first")))
            while not trips.seen:
                await asyncio.sleep(0)
            others = [asyncio.ensure_future(intake.start(asked(f"k{n}"))) for n in range(3)]
            await asyncio.sleep(0)
            trips.gate.set()
            await asyncio.gather(first, *others)

        scene(bot, play)
        assert trips.seen == [["first"], ["k0", "k1", "k2"]]

    def test_a_trip_is_bounded_in_number_and_in_size(
        self, bot: Bot, trips: Trips, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MOST", 4)
        monkeypatch.setattr(module, "MOST_TEXT", 3 * len('{"j":"ann"}'))
        scene(bot, lambda intake: together(intake, [asked(f"k{n}") for n in range(7)]))
        assert [len(trip) for trip in trips.seen] == [3, 3, 1]

    def test_a_lane_keeps_the_order_of_asking(self, bot: Bot, trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST", 3)
        found = scene(bot, lambda intake: together(intake, [asked("k") for _ in range(8)]))
        assert bot.transport.lane_holder("k") == found[0]
        assert [run for run, *_ in bot.transport.waiting("k", 10, 10_000, newest=False)] == found[1:]

    def test_the_same_message_twice_in_a_trip_is_one_run(self, bot: Bot, trips: Trips) -> None:
        found = scene(bot, lambda intake: together(intake, [asked("k", dedup="one") for _ in range(3)]))
        assert len(set(found)) == 1 and len(trips.seen) == 1

    def test_whoever_left_before_the_trip_is_left_out(self, bot: Bot, trips: Trips) -> None:
        async def play(intake: Intake) -> None:
            gone = asyncio.ensure_future(intake.start(asked("gone")))
            stays = asyncio.ensure_future(intake.start(asked("stays")))
            await asyncio.sleep(0)
            gone.cancel()
            await stays
            assert intake.pending == 0

        scene(bot, play)
        assert trips.seen == [["stays"]]

    def test_whoever_leaves_during_the_trip_disturbs_nobody(self, bot: Bot, trips: Trips) -> None:
        async def play(intake: Intake) -> str:
            trips.gate.clear()
            gone, stays = (asyncio.ensure_future(intake.start(asked(key))) for key in ("gone", "stays"))
            while not trips.seen:
                await asyncio.sleep(0)
            gone.cancel()
            trips.gate.set()
            return await stays

        assert bot.transport.run(scene(bot, play)) is not None


class TestErrors:
    def test_one_bad_start_fails_alone(self, bot: Bot, trips: Trips) -> None:
        rate = lumia.Rate(1, per=60, over="reject")

        async def play(intake: Intake) -> list[Any]:
            return await together(
                intake,
                [asked("k"), asked("k", cap=0), asked("a", rate=rate), asked("b", rate=rate), asked("c")],
            )

        found = scene(bot, play)
        assert names(found) == ["run", LaneFullError.__name__, "run", "run", "run"]
        assert len(trips.seen) == 1

    def test_a_rate_that_is_used_up_refuses_one(self, bot: Bot, trips: Trips) -> None:
        rate = lumia.Rate(1, per=60, name="all", over="reject")
        found = scene(bot, lambda intake: together(intake, [asked("a", rate=rate), asked("b", rate=rate), asked("c")]))
        assert names(found) == ["run", RateLimitedError.__name__, "run"]

    def test_a_malformed_key_never_gets_as_far_as_a_trip(self, bot: Bot, trips: Trips) -> None:
        with pytest.raises(PayloadError, match="key"):
            asked("k\n")
        assert trips.seen == []

    def test_a_broker_that_went_away_in_the_middle_is_told_to_each_and_the_next_trip_works(
        self, bot: Bot, trips: Trips
    ) -> None:
        def gone() -> None:
            raise BackendUnavailableError("gone")

        async def play(intake: Intake) -> list[Any]:
            trips.faults = [gone]
            first = await together(intake, [asked(f"k{n}") for n in range(3)])
            return [*first, await intake.start(asked("later"))]

        assert names(scene(bot, play)) == [BackendUnavailableError.__name__] * 3 + ["run"]

    def test_more_than_may_wait_are_told_to_come_back(
        self, bot: Bot, trips: Trips, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MOST", 1)

        async def play(intake: Intake) -> list[Any]:
            trips.gate.clear()
            tasks = [asyncio.ensure_future(intake.start(asked(f"k{n}"))) for n in range(5)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            trips.gate.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

        found = scene(bot, play, waiting=2)
        assert names(found) == ["run"] * 3 + ["BusyError"] * 2
        assert found[-1].status_code == 429 and found[-1].headers["Retry-After"]


class TestRouteTables:
    def table(self, bot: Bot) -> RouteTable:
        found = bot.transport.routes()
        assert found is not None
        return found

    def test_starts_planned_with_an_old_table_are_planned_anew(self, bot: Bot, trips: Trips) -> None:
        def newer() -> None:
            table = self.table(bot)
            bot.transport.publish(RouteTable(0, table.routes, table.schedules, {"test": "another generation"}))

        async def play(intake: Intake) -> list[Any]:
            trips.faults = [newer]
            return await together(intake, [asked("a"), asked("b")])

        found = scene(bot, play)
        assert trips.seen == [["a", "b"], ["a", "b"]]
        assert all(bot.transport.run(run) for run in found)
        assert bot.runtime.table.number == self.table(bot).number

    def test_what_was_planned_later_does_not_overtake_where_the_connection_breaks_as_well(
        self, bot: Bot, trips: Trips
    ) -> None:
        real = bot.transport.start_each

        def breaking(starts: Sequence[Sequence[RunRequest]], *, routes: int | None = None) -> list[Any]:
            answers: list[Any] = list(real(starts, routes=routes))
            if len(trips.seen) == 3:
                answers[-1] = BackendUnavailableError("cut")
            return answers

        def newer() -> None:
            table = self.table(bot)
            bot.transport.publish(RouteTable(0, table.routes, table.schedules, {"test": "another generation"}))

        async def play(intake: Intake) -> list[Any]:
            trips.gate.clear()
            first = asyncio.ensure_future(intake.start(asked("first")))
            while not trips.seen:
                await asyncio.sleep(0)
            old = [asyncio.ensure_future(intake.start(asked(key))) for key in ("a", "b")]
            await asyncio.sleep(0)
            newer()
            bot.runtime.refresh_routes()
            new = asyncio.ensure_future(intake.start(asked("a")))
            await asyncio.sleep(0)
            trips.gate.set()
            return await asyncio.gather(first, *old, new, return_exceptions=True)

        bot.transport.start_each = breaking  # type: ignore[method-assign]
        found = scene(bot, play)
        assert names(found)[1:] == ["run", "BackendUnavailableError", "run"]
        assert trips.seen[2:] == [["a", "b"], ["a", "a"]], "the newer one waits for the older one's second try"

    def test_a_table_that_never_stands_still_is_an_error(self, bot: Bot, trips: Trips) -> None:
        def newer() -> None:
            table = self.table(bot)
            bot.transport.publish(RouteTable(0, table.routes, table.schedules, {"test": f"number {table.number}"}))

        trips.faults = [newer] * 8
        assert names(scene(bot, lambda intake: together(intake, [asked("a")]))) == [StaleRoutesError.__name__]

    def test_before_a_worker_has_published_its_handlers_nothing_is_accepted(
        self, bot: Bot, trips: Trips, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bot.runtime, "_table", None)
        monkeypatch.setattr(bot.transport, "routes", lambda: None)
        assert names(scene(bot, lambda intake: together(intake, [asked("a")]))) == [BackendUnavailableError.__name__]
        monkeypatch.undo()
        assert names(scene(bot, lambda intake: together(intake, [asked("a")]))) == ["run"]

    def test_the_first_start_reads_the_table(self, bot: Bot, trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bot.runtime, "_table", None)
        assert names(scene(bot, lambda intake: together(intake, [asked("a"), asked("b")]))) == ["run", "run"]


class Resource:
    closed = False

    def close(self) -> None:
        self.closed = True


class TestStart:
    def play(self, bot: Bot, coroutine: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            token = serving.set(Gateway(bot.runtime))
            try:
                return await coroutine()
            finally:
                serving.reset(token)

        return asyncio.run(run())

    def test_it_starts_a_pipeline_with_events_beside_it(self, bot: Bot) -> None:
        also = [("greet.raw", lumia.Box.any({"raw": True}))]
        run = self.play(bot, lambda: gateway.start("greet", lumia.Box.any("ann"), key="k", also=also))
        bot.settle()
        assert {entry.id for entry in lumia.runs.tail("0", 0, limit=100)} == {"greet", "greet.raw"}
        assert lumia.runs.wait(run, 5).outcome == "done"

    def test_it_starts_an_event(self, bot: Bot) -> None:
        run = self.play(bot, lambda: gateway.start("tick", lumia.Box.any("ann"), flow="event"))
        record = bot.transport.run(run)
        assert record is not None and record.flow == "event"

    def test_a_live_resource_is_executed_at_once(self, bot: Bot) -> None:
        resource = Resource()

        async def hand_over() -> str:
            return await gateway.start("greet", lumia.Box.any(resource, destructor=Resource.close))

        run = self.play(bot, hand_over)
        assert lumia.runs.wait(run, 5).outcome == "done"
        until(lambda: resource.closed)


@lumia.web.route("/greet/{key}", methods=["POST"])
async def accept(request: gateway.Request) -> gateway.Response:
    run = await gateway.start("greet", lumia.Box.any("ann"), key=request.path_params["key"], cap=2)
    return gateway.JSONResponse({"run_id": run}, 202)


class TestOverHttp:
    @pytest.fixture
    def site(self) -> Iterator[Served]:
        with served(greet, accept, workers=0) as running:
            yield running

    def test_posts_of_many_clients_share_trips_and_each_gets_its_own_answer(self, site: Served) -> None:
        trips = Trips(site.bot)
        trips.gate.clear()

        async def crowd() -> list[httpx.Response]:
            async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=20) as client:
                posts = [asyncio.ensure_future(client.post(f"/greet/{n % 4}")) for n in range(24)]
                while site.gateway.intake.pending < 24:
                    await asyncio.sleep(0.005)
                trips.gate.set()
                return list(await asyncio.gather(*posts))

        answers = asyncio.run(crowd())
        assert sorted(one.status_code for one in answers) == [202] * 12 + [503] * 12  # a lane holds one, two may wait
        runs = [one.json()["run_id"] for one in answers if one.status_code == 202]
        assert len(set(runs)) == 12 and all(site.bot.transport.run(run) for run in runs)
        assert all(one.headers["retry-after"] for one in answers if one.status_code == 503)
        assert len(trips.seen) <= 3
