"""One loop per process: many threads share it, a fork gets its own, and it ends without a trace."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lumia.errors import ModelError
from lumia.models import Models, bridge
from tests.peers.openai_server import Fault, OpenAIServer
from tests.support.wait import until

HELLO = [{"role": "user", "content": "hello"}]


def test_many_threads_share_one_loop(server: OpenAIServer) -> None:
    server.delay = 0.05
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {})
    with ThreadPoolExecutor(32) as pool:
        texts = list(pool.map(lambda n: bot.chat("main", [{"role": "user", "content": str(n)}]).text, range(64)))
    assert texts == [str(n) for n in range(64)]
    assert sum(thread.name == "lumia-models" for thread in threading.enumerate()) == 1


def test_waiting_on_the_loop_for_itself_is_refused() -> None:
    async def nothing() -> None:
        raise AssertionError("never run")

    async def on_the_loop() -> None:
        with pytest.raises(ModelError, match="achat"):
            bridge.current().run(nothing())

    bridge.current().run(on_the_loop())


def test_a_closed_bridge_is_replaced_at_the_next_call(server: OpenAIServer) -> None:
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {})
    assert bot.chat("main", HELLO).text == "hello"
    before = bridge.current()
    bridge.close()
    bridge.close()
    assert before.loop.is_closed()
    assert bot.chat("main", HELLO).text == "hello"
    assert bridge.current() is not before


def test_closing_cancels_what_is_still_waiting(server: OpenAIServer) -> None:
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {})
    bot.chat("main", HELLO)
    server.script(Fault.hang())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bot.chat, "main", HELLO)
        until(lambda: len(server.requests) == 2)
        bridge.close()
        with pytest.raises(ModelError, match="process is ending"):
            waiting.result(10)


FORK = """
import os, sys, warnings
warnings.filterwarnings("ignore", message=".*multi-threaded.*", category=DeprecationWarning)
from lumia.models import Models
bot = Models({"main": {"model": "m", "base_url": sys.argv[1]}}, {})
say = lambda text: bot.chat("main", [{"role": "user", "content": text}]).text
assert say("parent") == "parent"
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if (say(f"child {number}"), say("again")) == (f"child {number}", "again") else 2
        finally:
            os._exit(code)
    children.append(child)
    assert say("meanwhile") == "meanwhile"
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [0, 0, 0], codes
assert say("parent again") == "parent again"
child = os.fork()
if child == 0:
    assert say("leaving the usual way") == "leaving the usual way"
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert say("and again") == "and again"
print("fine")
"""


def test_parent_and_forked_children_all_keep_working(server: OpenAIServer) -> None:
    # Not measured: on CPython 3.11 a tracer that skips anyio's files breaks the handling of its exceptions.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, "-W", "error", "-c", FORK, server.url]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert {"parent", "child 0", "child 1", "child 2"} <= {r.body["messages"][-1]["content"] for r in server.requests}


def test_a_forked_process_forgets_the_parents_loop_without_touching_it(server: OpenAIServer) -> None:
    bot = Models({"main": {"model": "m", "base_url": server.url}}, {})
    of_parent = bridge.current()
    bridge._after_fork()  # what the child runs first; here both sides stay in sight
    assert bot.chat("main", HELLO).text == "hello"
    assert bridge.current() is not of_parent
    assert not of_parent.loop.is_closed()
    of_parent.close()


def test_importing_models_loads_neither_providers_nor_asyncio() -> None:
    script = (
        "import sys, types; package = types.ModuleType('lumia'); package.__path__ = ['lumia']; "
        "sys.modules['lumia'] = package; import lumia.models; "
        "print([name for name in ('pydantic', 'pydantic_ai', 'openai', 'asyncio', 'lumia.models.offline') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_loop_is_a_plain_selector_loop() -> None:
    assert isinstance(bridge.current().loop, asyncio.SelectorEventLoop)
