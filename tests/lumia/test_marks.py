"""What decorators leave on functions, and what the loader's check refuses."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.errors import RegistrationError
from lumia.marks import Mark, is_name, is_seconds, marks_in, marks_of, marks_on, retry_of, verify

SECONDS = st.floats(min_value=0, max_value=1e6, allow_nan=False)


def module(name: str, code: str, monkeypatch: pytest.MonkeyPatch, **names: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update({"lumia": lumia, "functools": functools, **names})
    monkeypatch.setitem(sys.modules, name, made)
    exec(code, made.__dict__)
    return made


def marked(*decorators: Callable[[Any], Any]) -> tuple[Mark, Callable[..., Any]]:
    def handler(content: lumia.Box[Any]) -> None:
        """Do nothing."""

    for decorator in decorators:
        handler = decorator(handler)
    return marks_on(handler)[-1], handler


@given(backoff=SECONDS, most=SECONDS, attempt=st.integers(min_value=1, max_value=10_000))
def test_retries_wait_longer_each_time_up_to_the_limit(backoff: float, most: float, attempt: int) -> None:
    retry = lumia.Retry(attempts=10_000, backoff=backoff, max_delay=most)
    assert retry.delay(1) == min(backoff, most)
    assert 0 <= retry.delay(attempt) <= retry.delay(attempt + 1) <= most


def test_the_second_wait_is_twice_the_first() -> None:
    assert [lumia.Retry(backoff=1.5).delay(attempt) for attempt in (1, 2, 3)] == [1.5, 3.0, 6.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": 2.5},
        {"attempts": "3"},
        {"attempts": True},
        {"backoff": -1},
        {"backoff": float("nan")},
        {"backoff": None},
        {"max_delay": float("inf")},
        {"max_delay": "60"},
    ],
)
def test_a_retry_with_figures_that_are_none_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError, match=r"lumia\.Retry"):
        lumia.Retry(**wrong)


def test_a_decorator_only_marks_and_returns_the_function_itself() -> None:
    def handler(content: lumia.Box[Any]) -> str:
        return "called"

    assert lumia.pipe.on("msg", priv=5, queue="slow")(handler) is handler
    (mark,) = marks_on(handler)
    assert (mark.kind, mark.id, mark.priv, mark.glob, dict(mark.options)) == (
        "pipe",
        "msg",
        5,
        False,
        {"queue": "slow"},
    )


@pytest.mark.parametrize(
    "decorator, kind, glob",
    [
        (lumia.pipe.on, "pipe", False),
        (lumia.pipe.on_re, "pipe", True),
        (lumia.event.consumer, "consumer", False),
        (lumia.event.consumer_re, "consumer", True),
        (lumia.event.chain, "chain", False),
        (lumia.event.chain_re, "chain", True),
        (lumia.event.interceptor, "interceptor", False),
        (lumia.event.interceptor_re, "interceptor", True),
    ],
)
def test_every_mark_takes_the_same_options(decorator: Any, kind: str, glob: bool) -> None:
    options = {"queue": "slow", "retry": 5, "timeout": 2.0, "hard": True}
    mark, _ = marked(decorator("some.*", 7, **options))
    assert (mark.kind, mark.id, mark.glob, mark.priv, dict(mark.options)) == (kind, "some.*", glob, 7, options)


def test_a_function_may_carry_several_marks_in_the_order_they_were_left() -> None:
    _, handler = marked(lumia.pipe.on("inner"), lumia.pipe.on("outer"))
    assert [mark.id for mark in marks_on(handler)] == ["inner", "outer"]


@pytest.mark.parametrize("target", [print, type("Handler", (), {}), functools.partial(print), 5])
def test_only_functions_can_be_marked(target: Any) -> None:
    with pytest.raises(RegistrationError, match="decorate a `def`"):
        lumia.pipe.on("msg")(target)


@pytest.mark.parametrize("wrong", ["", None, 5, print])
def test_a_mark_needs_an_id(wrong: Any) -> None:
    with pytest.raises(RegistrationError, match="needs an id"):
        lumia.pipe.on(wrong)


@pytest.mark.parametrize("wrong", ["high", 1.5, True, None])
def test_priv_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(RegistrationError, match="priv is a whole number"):
        lumia.event.consumer("news", priv=wrong)


def test_marks_of_a_plugin_come_from_all_its_loaded_modules_in_registration_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = "@lumia.pipe.on('{0}')\ndef {0}(content): pass\n"
    main = module("bots.echo.plugin", mark.format("first"), monkeypatch)
    module("bots.echo.parts.more", mark.format("second"), monkeypatch)
    module("bots.echoes.plugin", mark.format("stranger"), monkeypatch)
    exec(mark.format("third"), main.__dict__)
    assert [mark.id for mark, _ in marks_of(main)] == ["first", "second", "third"]


def test_a_module_outside_of_any_package_has_its_own_marks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = module("alone", "@lumia.pipe.on('a')\ndef a(content): pass\n", monkeypatch)
    module("alone_too", "@lumia.pipe.on('b')\ndef b(content): pass\n", monkeypatch)
    assert [mark.id for mark, _ in marks_of(alone)] == ["a"]


def test_a_package_stands_for_the_modules_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    package = module("bots.packed", "__path__ = []", monkeypatch)
    module("bots.packed.inner", "@lumia.pipe.on('inner')\ndef inner(content): pass\n", monkeypatch)
    module("bots.other", "@lumia.pipe.on('other')\ndef other(content): pass\n", monkeypatch)
    assert [mark.id for mark, _ in marks_of(package)] == ["inner"]


def test_one_module_can_be_asked_for_its_own_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = "@lumia.pipe.on('{0}')\ndef {0}(content): pass\n"
    package = module("bots.parted", "__path__ = []", monkeypatch)
    one = module("bots.parted.one", mark.format("one"), monkeypatch)
    module("bots.parted.two", mark.format("two"), monkeypatch)
    assert [mark.id for mark, _ in marks_in(one)] == ["one"]
    assert [mark.id for mark, _ in marks_in(package)] == ["one", "two"]
    assert [mark.id for mark, _ in marks_of(one)] == ["one", "two"]


WRAPPERS = """
def timed(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return "timed", fn(*args)
    return wrapper
"""


def test_a_handler_under_a_decorator_of_another_library_belongs_to_its_own_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = module("some_library", WRAPPERS, monkeypatch)
    code = "@lumia.pipe.on('msg')\n@timed\ndef handler(content): return content\n"
    plugin = module("bots.timed.plugin", code, monkeypatch, timed=library.timed)
    assert [(mark.id, fn(1)) for mark, fn in marks_of(plugin)] == [("msg", ("timed", 1))]
    assert marks_of(library) == []


def test_a_mark_below_a_decorator_names_the_inner_function_and_one_above_it_the_outer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = WRAPPERS + "@lumia.pipe.on('outer')\n@timed\n@lumia.pipe.on('inner')\ndef handler(content): return content\n"
    plugin = module("bots.both.plugin", code, monkeypatch)
    assert [(mark.id, fn(1)) for mark, fn in marks_of(plugin)] == [("inner", 1), ("outer", ("timed", 1))]


def test_a_wrapper_around_something_written_in_c_is_listed_where_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "@lumia.pipe.on('msg')\n@functools.wraps(len)\ndef handler(content): pass\n"
    assert [mark.id for mark, _ in marks_of(module("bots.c.plugin", code, monkeypatch))] == ["msg"]


def refused(decorator: Any, fn: Any, match: str) -> None:
    decorator(fn)
    with pytest.raises(RegistrationError, match=match) as caught:
        verify(marks_on(fn)[-1], fn, "my-plugin")
    assert f"my-plugin.{fn.__name__}" in str(caught.value)


def test_a_glob_handler_without_src_is_told_what_to_write() -> None:
    def handler(content, more):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Not the shape of a glob handler."""

    refused(lumia.pipe.on_re("a.*"), handler, r"def handler\(src: str, content: lumia\.Box\)")


@pytest.mark.parametrize(
    "decorator, source, match",
    [
        (lumia.pipe.on("a"), "def f(): pass", r"takes 0 parameters; write `def f\(content: lumia\.Box\)`"),
        (lumia.pipe.on("a"), "def f(src, content): pass", "takes 2 parameters"),
        (lumia.pipe.on("a"), "def f(*args): pass", "takes 0 parameters"),
        (lumia.pipe.on_re("a*"), "def f(): pass", "first parameter must be `src: str`"),
        (lumia.pipe.on_re("a*"), "def f(src): pass", "takes 1 parameters"),
        (lumia.pipe.on("a"), "def f(content, *, key): pass", "keyword-only parameter 'key'"),
        (lumia.pipe.on("a"), "def f(content): yield", "generator"),
        (lumia.pipe.on("a"), "async def f(content): yield", "generator"),
        (lumia.pipe.on("a\x00b"), "def f(content): pass", "no run can have this id"),
        (lumia.pipe.on("\ud800"), "def f(content): pass", "no run can have this id"),
        (lumia.event.consumer_re("x" * 600 + "*"), "def f(src, content): pass", "no run can have this id"),
        (lumia.pipe.on("a", timeout=0), "def f(content): pass", "timeout is seconds"),
        (lumia.pipe.on("a", timeout=float("inf")), "def f(content): pass", "timeout is seconds"),
        (lumia.pipe.on("a", timeout=True), "def f(content): pass", "timeout is seconds"),
        (lumia.pipe.on("a", timeout="5"), "def f(content): pass", "timeout is seconds"),  # type: ignore[arg-type]
        (lumia.pipe.on("a", retry=0), "def f(content): pass", "retry is a number of tries"),
        (lumia.pipe.on("a", retry=True), "def f(content): pass", "retry is a number of tries"),
        (lumia.pipe.on("a", retry="3"), "def f(content): pass", "retry is a number of tries"),  # type: ignore[arg-type]
        (lumia.pipe.on("a", queue=""), "def f(content): pass", "queue is a printable name"),
        (lumia.pipe.on("a", queue="a:b"), "def f(content): pass", "queue is a printable name"),
        (lumia.pipe.on("a", queue="a\nb"), "def f(content): pass", "queue is a printable name"),
        (lumia.pipe.on("a", queue=5), "def f(content): pass", "queue is a printable name"),  # type: ignore[arg-type]
        (lumia.cron("every day"), "def f(content): pass", "no cron expression"),
        (lumia.cron("61 * * * *"), "def f(content): pass", "no cron expression"),
        (lumia.cron("* * * * *", tz="Mars/Olympus"), "def f(content): pass", "IANA time zone"),
        (lumia.cron("* * * * *", tz=""), "def f(content): pass", "IANA time zone"),
        (lumia.cron("* * * * *", missed="never"), "def f(content): pass", "missed is one of skip, once, all"),
    ],
)
def test_what_could_not_be_called_is_refused_and_the_function_named(decorator: Any, source: str, match: str) -> None:
    names: dict[str, Any] = {}
    exec(source, names)
    refused(decorator, names["f"], match)


@pytest.mark.parametrize(
    "decorator, source",
    [
        (lumia.pipe.on("a"), "def f(content): pass"),
        (lumia.pipe.on("a"), "async def f(content): pass"),
        (lumia.pipe.on("a"), "def f(content, /, more=1, *args, key=2, **kwargs): pass"),
        (lumia.pipe.on_re("a*"), "def f(src, content): pass"),
        (lumia.pipe.on("a", timeout=0.5, retry=lumia.Retry(), queue="heavy"), "def f(content): pass"),
        (lumia.cron("*/10 8-22 * * *", tz="Europe/Berlin", missed="all"), "def f(content): pass"),
        (lumia.cron("0 0 * * * 30"), "def f(content): pass"),
        (lumia.command("say hello", help="Say hello"), "def f(name, *, loud): pass"),
    ],
)
def test_what_can_be_called_is_accepted(decorator: Any, source: str) -> None:
    names: dict[str, Any] = {}
    exec(source, names)
    fn = decorator(names["f"])
    verify(marks_on(fn)[-1], fn, "my-plugin")


def test_retry_takes_a_number_of_tries_or_the_whole_policy() -> None:
    policy = lumia.Retry(attempts=7, backoff=0.5)
    assert retry_of(policy) is policy
    assert retry_of(4) == lumia.Retry(attempts=4)
    assert retry_of(None) is None


@given(st.text())
def test_a_name_is_printable_and_can_be_encoded(text: str) -> None:
    if is_name(text):
        assert len(text.encode()) > 0 and "\x00" not in text and "\n" not in text


@pytest.mark.parametrize("wrong", ["", "x" * 513, "a\tb", "\ud800", "\x00", "\u2028", None, 5, b"a"])
def test_what_is_no_name(wrong: object) -> None:
    assert not is_name(wrong)
    assert is_name("x" * 512)


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf"), 10**9, 10**400, True, "1", None])
def test_what_is_no_duration(wrong: object) -> None:
    assert not is_seconds(wrong)
    assert is_seconds(0)
    assert is_seconds(1.5)
