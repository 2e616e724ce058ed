"""Lumia under test: a bot root, its processes, how messages get in, and what came out."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from bench.chaos import trace
from bench.chaos.broker import Broker
from bench.chaos.crew import Crew, Member
from bench.chaos.load import NotAcceptedError
from bench.chaos.verdict import Accepted, Evidence
from lumia.box import Box
from lumia.bus import pipe
from lumia.dead import DeadFilter
from lumia.errors import LumiaError
from lumia.paths import base
from lumia.runtime import Runtime, open_bot
from tasks.supervise.ports import free_port
from tests.support.workers import first_party, write_plugin

PLUGIN = "chaotic"
TOKEN = "chaos"
FSYNC_SECONDS = 2.0
SETTINGS = """
[worker]
concurrency = {threads}
step_timeout = 20.0
max_losses = 3
drain = 10.0
[dedup]
window = 7200
[runs]
keep = 7200
[gateway]
port = {port}
keep_from = 2
[plugins]
disabled = {disabled}
"""
SOURCE = '[sources.hook]\ntoken = "{token}"\ncallback_hosts = ["127.0.0.1"]\n'
PADDING = "x" * 150


class Lumia:
    """A whole bot: thread workers, a prefork worker with a queue of its own, a gateway and two beats."""

    name = "lumia"

    def __init__(self, folder: Path, *, workers: int, threads: int, fsync: str) -> None:
        self.folder = folder
        self.workers, self.threads = workers, threads
        self.broker = Broker(folder / "valkey", fsync)
        self.strict = fsync == "always"
        self.port = free_port()
        self.root = self._made()
        self.env = {
            **os.environ, "LUMIA_ROOT": str(self.root), "LUMIA_REDIS_URL": self.broker.url,
            "LUMIA_CHAOS_FOLDER": str(folder), "MALLOC_ARENA_MAX": "2", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self.crew = Crew(folder / "logs", self.env)
        os.environ["LUMIA_REDIS_URL"] = self.broker.url
        self.bot: Runtime = open_bot(self.root).deactivate()
        self.receiver = Receiver()
        self._http = threading.local()
        self.expected_dead: set[str] = set()
        self.revoked: dict[str, str] = {}

    def _made(self) -> Path:
        root = self.folder / "bot"
        disabled = [name for name in first_party() if name != "webhook"]
        (root / "config").mkdir(parents=True)
        text = SETTINGS.format(threads=self.threads, port=self.port, disabled=str(disabled).replace("'", '"'))
        (root / "config" / "lumia.toml").write_text(text)
        (root / "config" / "webhook.toml").write_text(SOURCE.format(token=TOKEN))
        write_plugin(root, PLUGIN, (Path(__file__).parent / "bot_plugin.py").read_text())
        return root

    # --- processes

    def start(self) -> None:
        """Start everything and wait until it serves."""
        for number in range(self.workers):
            self.start_worker(f"w{number}")
        self.start_worker("heavy", "prefork", "-P", "processes", "-c", "2", "-Q", "heavy")
        for name in ("beat1", "beat2"):
            self.start_beat(name)
        self.start_gateway()
        self.until(self._serving, 60.0, "workers, gateway and route table")

    def start_worker(self, name: str, role: str = "worker", *options: str, again: bool = True, **env: str) -> Member:
        """Start one worker; without options it serves the default queue with threads."""
        quiet = ["--loglevel", "WARNING", "-E", "--without-mingle", "--without-gossip", "-n", f"{name}@%h"]
        given = options or ("-c", str(self.threads), "-Q", "default")
        return self.crew.start(name, role, self._celery("worker", *quiet, *given), again=again, **env)

    def start_beat(self, name: str, *, again: bool = True, **env: str) -> Member:
        """Start one beat."""
        return self.crew.start(name, "beat", self._celery("beat", "--loglevel", "WARNING"), again=again, **env)

    def start_gateway(self, **env: str) -> Member:
        """Start the gateway."""
        return self.crew.start("gateway", "gateway", [sys.executable, "-m", "lumia.gateway"], again=True, **env)

    def _celery(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "celery", "--workdir", str(base()), "-A", "tasks", *words]

    def _serving(self) -> bool:
        return len(self.bot.transport.health().workers) > self.workers and self.gateway_answers()

    def gateway_answers(self) -> bool:
        """Tell whether the gateway serves."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def serves(self, member: Member) -> bool:
        """Tell whether a worker has given a sign of life."""
        return any(f":{member.pid}:" in name for name in self.bot.transport.health().workers)

    def until(self, reached: Callable[[], Any], seconds: float, what: str = "") -> bool:
        """Wait for a condition; see `Crew.until`."""
        return self.crew.until(reached, seconds, what)

    def close(self) -> None:
        """End everything this has started."""
        self.crew.close()
        self.bot.close()
        self.receiver.close()
        self.broker.close()

    # --- messages

    def send(self, group: str, n: int) -> str:
        """Accept one message: by HTTP for the hook groups, by start() for the others."""
        return self._post(group, n) if kind_of(group) == "hook" else self._start(group, n)

    def apart(self, group: str) -> bool:
        """Tell whether a group's messages depend on the gateway."""
        return kind_of(group) == "hook"

    def _start(self, group: str, n: int) -> str:
        id_ = "chaos.heavy" if n % 4 == 3 else "chaos"
        value = {"group": group, "n": n, "effect": effect_of(group, n), "text": PADDING}
        return self.begin(id_, value, key=group, dedup=f"{group}/{n}")

    def begin(self, id: str, value: dict[str, Any], **options: Any) -> str:
        """Start a run, or raise `NotAcceptedError`."""
        try:
            with self.bot.activated():
                return pipe.start(id, Box.any(value), **options)
        except LumiaError as error:
            raise NotAcceptedError(str(error)) from error

    def long_runs(self, count: int, seconds: float, salt: int) -> list[str]:
        """Start runs with a step of `seconds`, in lanes of their own, and wait until they are being executed."""
        runs = [self.begin("chaos.long", {"seconds": seconds}, key=f"long {salt} {n}") for n in range(count)]
        self.until(lambda: all(self._executed(run) for run in runs), 5.0)
        return runs

    def _executed(self, run_id: str) -> bool:
        record = self.bot.transport.run(run_id)
        return record is not None and record.state == "claimed"

    def ended(self, runs: list[str]) -> bool:
        """Tell whether all these runs have an outcome; an absent broker says no."""
        try:
            return all(self._outcome(run) for run in runs)
        except LumiaError:
            return False

    def _post(self, group: str, n: int) -> str:
        body = {"text": f"{group}/{n}", "sender_id": "chaos", "group_id": group, "message_id": f"{group}-{n}",
                "callback_url": self.receiver.url}  # fmt: skip
        try:
            answer = self._client().post("/webhook/hook", json=body)
        except httpx.HTTPError as error:
            raise NotAcceptedError(str(error)) from error
        if not answer.is_success:
            raise NotAcceptedError(answer.text)
        return str(answer.json()["run_id"])

    def _client(self) -> httpx.Client:
        if not hasattr(self._http, "client"):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            url = f"http://127.0.0.1:{self.port}"
            self._http.client = httpx.Client(base_url=url, headers=headers, timeout=12, trust_env=False)
        client: httpx.Client = self._http.client
        return client

    # --- what came out

    def done(self) -> int:
        """Return how many messages were committed, dead ones included."""
        kind, text = self.bot.transport.read(f"{PLUGIN}//count")
        return (0 if kind == "none" else int(text)) + self.bot.transport.health().counters.get("dead", 0)

    def dead(self) -> dict[str, str]:
        """Return run → reason of the dead letters."""
        return {letter.run_id: letter.error for letter in self.bot.transport.dead(DeadFilter(limit=10_000))}

    def numbers(self, key: str, group: str = "") -> list[Any]:
        """Return a list of the plugin's store."""
        import json

        kind, texts = self.bot.transport.read(f"{PLUGIN}/{group}/{key}")
        return [] if kind == "none" else [json.loads(text) for text in texts]

    def evidence(self, accepted: list[Accepted], unsure: set[str], groups: list[str]) -> Evidence:
        """Return everything the verdict is made of."""
        lines = trace.read(self.folder / "trace")
        crew, outside = self.crew, self._outside()
        return Evidence(
            accepted, frozenset(unsure),
            done={group: self.numbers("done", group) for group in groups},
            children={group: self.numbers("children", group) for group in groups},
            dead=self.dead(), expected_dead=frozenset(self.expected_dead), ticks=self.numbers("due"),
            revoked={run: self._outcome(run) for run in self.revoked},
            recoveries=trace.recoveries(
                lines, crew.deaths, trace.holders(self.folder / "logs"), self.broker.outages
            ),
            rerun=len(trace.rerun(lines, crew.deaths, crew.freezes)),
            stale=self.bot.transport.health().counters.get("stale", 0),
            exposed=frozenset() if self.strict else self._exposed(accepted),
            marked=marked(accepted), retried=outside["retry"], held=outside["hold"],
            replies=Counter(self.receiver.taken),
        )  # fmt: skip

    def unfinished(self, names: Sequence[str], accepted: list[Accepted]) -> frozenset[str]:
        """Return those of the missing messages whose run is known and has no outcome yet."""
        missing = set(names)
        found = (one for one in accepted if str(one) in missing)
        return frozenset(str(one) for one in found if self._goes_on(one.run_id))

    def _goes_on(self, run_id: str) -> bool:
        record = self.bot.transport.run(run_id)
        return record is not None and not record.outcome

    def _outcome(self, run_id: str) -> str:
        record = self.bot.transport.run(run_id)
        return record.outcome if record is not None else ""

    def _exposed(self, accepted: list[Accepted]) -> frozenset[str]:
        """Return what was accepted so shortly before a kill of the broker that `everysec` may lose it."""
        kills = self.broker.kills
        return frozenset(str(one) for one in accepted if any(0 <= kill - one.at <= FSYNC_SECONDS for kill in kills))

    def before_kills(self, accepted: list[Accepted]) -> int:
        """Return how many messages had been accepted within the fsync window before a kill of the broker."""
        return len(self._exposed(accepted))

    def _outside(self) -> dict[str, Counter[str]]:
        """Return how often each message's effect was made, by policy."""
        file = self.folder / "effects"
        lines = file.read_text().splitlines() if file.exists() else []
        found: dict[str, Counter[str]] = {"retry": Counter(), "hold": Counter()}
        for line in lines:
            policy, _, name = line.partition(" ")
            found[policy][name] += 1
        return found


def kind_of(group: str) -> str:
    """Return how a group's messages go: `hook` by HTTP, `hold` with an effect that must not be made twice, `plain`."""
    return {9: "hook", 8: "hold"}.get(int(group.removeprefix("g")) % 10, "plain")


def effect_of(group: str, n: int) -> str:
    """Return the policy of the effect a message makes, "" for none."""
    return {"hold": "hold", "plain": "retry" if n % 5 == 0 else ""}.get(kind_of(group), "")


def marked(accepted: list[Accepted]) -> dict[str, frozenset[str]]:
    """Return which messages make which effect."""
    found: dict[str, set[str]] = {"retry": set(), "hold": set(), "reply": set()}
    for one in accepted:
        effect = "reply" if kind_of(one.group) == "hook" else effect_of(one.group, one.n)
        if effect:
            found[effect].add(str(one))
    return {kind: frozenset(names) for kind, names in found.items()}


class Receiver:
    """The other side of the webhook's callbacks: notes every answer it is given."""

    def __init__(self) -> None:
        taken: list[str] = []
        self.taken = taken

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                import json

                data = self.rfile.read(int(self.headers["Content-Length"]))
                taken.append(json.loads(data)["reply"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/reply"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
