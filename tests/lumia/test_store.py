"""`lumia.store`: what is kept, what a step reads back, and what a key refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.errors import NotRunningError, StoreError
from lumia.store import MAX_COUNT, Store
from lumia.testing import Bot, ManualClock

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
NAMES = st.sampled_from("ab")
SMALL = st.none() | st.integers(-5, 5) | st.sampled_from(["x", "7", [], {"a": 1}, 1.5, True])
WRITES = st.one_of(
    st.tuples(st.just("set"), NAMES, SMALL),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("incr"), NAMES, st.integers(-3, 3)),
    st.tuples(st.just("append"), NAMES, SMALL, st.integers(1, 3)),
    st.tuples(st.just("put"), NAMES, NAMES, SMALL),
    st.tuples(st.just("add"), NAMES, NAMES, st.integers(-3, 3)),
)


def write(scope: str, op: str, *given: Any) -> Any:
    """Make one write; returns what it returned, or that it was refused."""
    store = lumia.store.of("test")
    try:
        if op == "append":
            return store.append(given[0], given[1], scope=scope, keep=given[2])
        if op == "add":
            return store.incr(given[0], given[2], field=given[1], scope=scope)
        return getattr(store, op)(*given, scope=scope)
    except StoreError:
        return "refused"


def seen(scope: str) -> list[Any]:
    store = lumia.store.of("test")
    found: list[Any] = []
    for key in "ab":
        for read in (store.get, store.items, store.fields):
            try:
                found.append(read(key, scope=scope))
            except StoreError:
                found.append("refused")
    return found


@lumia.pipe.on("writing")
def writes_and_reads(content: lumia.Box[Any]) -> None:
    value = content.into()
    answers = [write(value["scope"], *op) for op in value["ops"]]
    SEEN[value["scope"]] = (answers, seen(value["scope"]))


SEEN: dict[str, Any] = {}


@pytest.fixture(scope="module")
def bot() -> Iterator[Bot]:
    with Bot(writes_and_reads) as bot:
        yield bot


@pytest.fixture
def store(bot: Bot) -> Iterator[Store]:
    with bot.runtime.activated():
        yield lumia.store.of(lumia.system.new_id())


@given(before=st.lists(WRITES, max_size=4), ops=st.lists(WRITES, max_size=8))
def test_a_step_sees_what_it_will_have_committed(bot: Bot, before: list[Any], ops: list[Any]) -> None:
    with bot.runtime.activated():
        inside, outside = lumia.system.new_id(), lumia.system.new_id()
        for scope in (inside, outside):
            for op in before:
                write(scope, *op)
        result = bot.start("writing", {"scope": inside, "ops": [list(op) for op in ops]})
        answers, within = SEEN.pop(inside)
        assert result.outcome == "done"
        assert within == seen(inside)
        assert answers == [write(outside, *op) for op in ops]
        assert within == seen(outside)


@given(value=JSON_VALUES)
def test_json_values_come_back_as_they_were(bot: Bot, value: Any) -> None:
    with bot.runtime.activated():
        store = lumia.store.of("values")
        store.set("k", value)
        assert json.dumps(store.get("k", "absent")) == json.dumps(value)


@given(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=5)] * 3))
def test_plugin_scope_and_key_never_run_into_each_other(names: tuple[str, str, str]) -> None:
    plugin, scope, key = names
    made = Store(plugin)._name(key, scope)
    assert made.count("/") == 2
    assert [part.replace("%2F", "/").replace("%25", "%") for part in made.split("/")] == [plugin, scope, key]


def test_plugins_and_scopes_have_keys_of_their_own(store: Store) -> None:
    store.set("k", 1)
    store.set("k", 2, scope="group")
    assert (store.get("k"), store.get("k", scope="group")) == (1, 2)
    assert lumia.store.of("another").get("k") is None
    assert lumia.store.of("my-plugin")._name("k", "") == lumia.store.of("my_plugin")._name("k", "")


def test_an_absent_key_has_the_default_and_a_stored_null_has_not(store: Store) -> None:
    assert store.get("k", "absent") == "absent"
    store.set("k", None)
    assert store.get("k", "absent") is None
    store.delete("k")
    assert (store.get("k", 5), store.items("k"), store.fields("k")) == (5, [], {})


def test_counters_count(store: Store) -> None:
    assert [store.incr("n"), store.incr("n", 5), store.incr("n", -7)] == [1, 6, -1]
    store.set("n", 40)
    assert store.incr("n", 2) == store.get("n") == 42


@pytest.mark.parametrize("held", ["7", 1.5, True, None, {"n": 1}])
def test_what_is_no_counter_does_not_count(store: Store, held: Any) -> None:
    store.set("n", held)
    with pytest.raises(StoreError, match="no counter"):
        store.incr("n")
    assert store.get("n") == held


@pytest.mark.parametrize("by", [1.5, True, "1", None, MAX_COUNT + 1, 10**4000])
def test_a_counter_adds_whole_numbers_that_the_server_can_hold(store: Store, by: Any) -> None:
    with pytest.raises(StoreError, match="adds whole numbers"):
        store.incr("n", by)


def test_a_counter_stays_within_what_the_server_can_hold(store: Store) -> None:
    store.incr("n", MAX_COUNT)
    with pytest.raises(StoreError, match="stays within"):
        store.incr("n")
    assert store.incr("n", -1) == MAX_COUNT - 1


def test_lists_keep_their_newest_items(store: Store) -> None:
    for n in range(5):
        store.append("l", n, keep=3)
    assert store.items("l") == [2, 3, 4]
    assert [store.items("l", last=n) for n in (0, 1, 2, 9)] == [[], [4], [3, 4], [2, 3, 4]]


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "2"])
def test_how_many_items_is_a_number_of_items(store: Store, wrong: Any) -> None:
    with pytest.raises(StoreError, match="last is a whole number"):
        store.items("l", last=wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None])
def test_keep_is_a_number_of_items(store: Store, wrong: Any) -> None:
    with pytest.raises(StoreError, match="keep is a whole number"):
        store.append("l", 1, keep=wrong)


def test_fields_are_set_one_by_one(store: Store) -> None:
    store.put("f", "a", 1)
    store.put("f", "b", [2])
    store.put("f", "a", 3)
    assert store.fields("f") == {"a": 3, "b": [2]}


@pytest.mark.parametrize("wrong", [5, None, "a\x00", "\ud800"])
def test_a_field_is_text_that_can_be_stored(store: Store, wrong: Any) -> None:
    with pytest.raises(StoreError, match="a field is text"):
        store.put("f", wrong, 1)
    if wrong is not None:
        with pytest.raises(StoreError, match="a field is text"):
            store.incr("f", field=wrong)


def test_the_fields_of_a_mapping_count_each_for_itself(store: Store) -> None:
    store.put("f", "name", "Ann")
    assert [store.incr("f", 2, field="a"), store.incr("f", field="b"), store.incr("f", 3, field="a")] == [2, 1, 5]
    assert store.fields("f") == {"name": "Ann", "a": 5, "b": 1}
    with pytest.raises(StoreError, match="field 'name' holds 'Ann', which is no counter"):
        store.incr("f", field="name")
    with pytest.raises(StoreError, match="a counter stays within"):
        store.incr("f", MAX_COUNT, field="a")


def test_a_mapping_lives_as_long_as_its_first_count_or_its_last_put_says() -> None:
    clock = ManualClock()
    with Bot(writes_and_reads, clock=clock):
        store = lumia.store.of("test")
        for _ in range(2):
            store.incr("counted", field="a", ttl=10)
            store.put("put", "a", 1, ttl=10)
            clock.move(6)
        assert (store.fields("counted"), store.fields("put")) == ({}, {"a": 1})
        clock.move(6)
        assert store.fields("put") == {}


def test_a_key_keeps_its_type_until_it_is_deleted(store: Store) -> None:
    store.append("k", 1)
    for use in (store.get, store.incr, store.fields, lambda key: store.put(key, "f", 1)):
        with pytest.raises(StoreError, match="holds a list, not"):
            use("k")
    store.delete("k")
    store.put("k", "f", 1)
    with pytest.raises(StoreError, match="holds fields, not a list"):
        store.append("k", 1)
    store.set("k", 1)
    assert store.get("k") == 1


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("make", [object, lambda: float("nan"), lambda: {1, 2}, lambda: deep(100_000)])
def test_only_json_values_are_kept(store: Store, make: Any) -> None:
    uses: list[Callable[[Any], None]] = [
        lambda value: store.set("k", value), lambda value: store.append("k", value),
        lambda value: store.put("k", "f", value),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(StoreError, match="keeps JSON values"):
            use(make())
    assert store.get("k") is None


@pytest.mark.parametrize("key, scope", [("", ""), (5, ""), ("a\x00", ""), ("\ud800", ""), ("k", "\x00"), ("k", 5)])
def test_names_are_text_that_can_be_stored(store: Store, key: Any, scope: Any) -> None:
    with pytest.raises(StoreError, match="each is text"):
        store.get(key, scope=scope)


@pytest.mark.parametrize("plugin", ["", None, 5, "\x00"])
def test_a_store_belongs_to_a_plugin(plugin: Any) -> None:
    with pytest.raises(StoreError, match="takes a plugin's name"):
        lumia.store.of(plugin)


@pytest.mark.parametrize("ttl", [0, -1, 0.0001, float("nan"), float("inf"), 10**9, True, "5"])
def test_a_lifetime_is_seconds_that_the_server_can_count(store: Store, ttl: Any) -> None:
    for use in (store.set, store.append):
        with pytest.raises(StoreError, match="ttl is seconds"):
            use("k", 1, ttl=ttl)
    with pytest.raises(StoreError, match="ttl is seconds"):
        store.incr("k", ttl=ttl)


def test_outside_of_handlers_a_store_needs_a_plugin() -> None:
    with pytest.raises(NotRunningError, match=r"lumia\.store\.of"):
        lumia.store.get("k")


def test_in_a_handler_the_store_is_that_of_its_plugin() -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        lumia.store.set("k", "mine")
        lumia.store.of("other").set("k", "theirs")

    with Bot(handler) as bot:
        bot.start("msg", 1)
        assert (lumia.store.of("test").get("k"), lumia.store.of("other").get("k")) == ("mine", "theirs")


def test_a_step_that_fails_leaves_nothing_in_the_store() -> None:
    @lumia.pipe.on("msg", retry=1)
    def handler(content: lumia.Box[Any]) -> None:
        lumia.store.set("k", 1)
        raise RuntimeError("after all")

    with Bot(handler) as bot:
        bot.start("msg", 1)
        assert lumia.store.of("test").get("k") is None


def test_another_plugins_write_in_between_refuses_the_whole_commit() -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        lumia.store.set("first", 1)
        lumia.store.append("k", 1)
        bot.transport.write([StoreOp("set", "test//k", '"in between"')])

    from lumia.ports import StoreOp

    with Bot(handler) as bot:
        run = bot.start("msg", 1)
        assert run.outcome == "failed" and "append on a value" in run.reason
        assert lumia.store.of("test").get("first") is None


def test_values_are_forgotten_after_their_lifetime() -> None:
    clock = ManualClock()
    with Bot(writes_and_reads, clock=clock):
        store = lumia.store.of("test")
        store.set("v", 1, ttl=10)
        store.incr("n", ttl=10)
        store.append("l", 1, ttl=10)
        clock.move(6)
        store.incr("n", ttl=10)
        store.append("l", 2, ttl=10)
        clock.move(6)
        assert (store.get("v"), store.get("n"), store.items("l")) == (None, None, [1, 2])
        store.append("l", 3)
        clock.move(6)
        assert store.items("l") == []


def test_setting_a_value_anew_without_a_lifetime_keeps_it_for_good() -> None:
    clock = ManualClock()
    with Bot(writes_and_reads, clock=clock):
        store = lumia.store.of("test")
        store.set("v", 1, ttl=10)
        store.set("v", 2)
        clock.move(1e6)
        assert store.get("v") == 2


def test_a_clock_that_is_set_back_does_not_prolong_a_lifetime() -> None:
    clock = ManualClock()
    with Bot(writes_and_reads, clock=clock):
        store = lumia.store.of("test")
        store.set("v", 1, ttl=10)
        clock.move(-3600)
        clock.move(11)
        assert store.get("v") is None


# --- lists are read no further than asked for


@given(
    before=st.lists(st.integers(), max_size=6),
    added=st.lists(st.tuples(st.integers(), st.integers(1, 5)), max_size=6),
    last=st.none() | st.integers(0, 8),
)
def test_a_step_sees_what_it_appended_behind_what_was_there(
    before: list[int], added: list[tuple[int, int]], last: int | None
) -> None:
    seen: list[list[int]] = []

    @lumia.pipe.on("append")
    def append(content: lumia.Box[Any]) -> None:
        for value, keep in added:
            lumia.store.append("k", value, keep=keep)
        seen.append(lumia.store.items("k", last=last))

    with Bot(append) as bot:
        store = lumia.store.of("test")
        for value in before:
            store.append("k", value, keep=9)
        bot.start("append", None)
        expected = before
        for value, keep in added:
            expected = [*expected, value][-keep:]
        assert store.items("k") == expected
        assert seen == [expected if last is None else expected[max(0, len(expected) - last) :]]


def test_the_record_of_a_step_holds_the_newest_items_it_asked_for_and_no_others() -> None:
    @lumia.pipe.on("look")
    def look(content: lumia.Box[Any]) -> None:
        lumia.store.append("k", "newest")
        lumia.store.items("k", last=2)

    with Bot(look) as bot:
        for number in range(50):
            lumia.store.of("test").append("k", f"item {number}")
        result = bot.start("look", None)
        (entry,) = (one for one in bot.transport.history().entries(result.run_id) if one.kind == "step")
    assert [read[1:3] for read in entry.detail["reads"] if read[0] == "store"] == [
        ["test//k[-0:]", ["list", []]], ["test//k[-1:]", ["list", ['"item 49"']]],
    ]  # fmt: skip
