"""Values that are kept within a limit, and made once for all threads that ask."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from kinetoscope.caching import ABANDONED, BoundedCache, SharedCache, checkpoint, while_alive
from kinetoscope.errors import InputError, StoppedError


def ten(_: object) -> int:
    return 10


def test_the_least_recently_used_goes_first() -> None:
    cache: BoundedCache[str] = BoundedCache(30)
    for name in "abc":
        cache.put(name, name, 10)
    assert cache["a"] == "a"
    cache.put("d", "d", 10)
    assert [name for name in "abcd" if name in cache] == ["a", "c", "d"]
    assert cache.total == 30
    cache.put("c", "C", 5)
    assert (cache["c"], cache.total) == ("C", 25)
    cache.clear()
    assert (len(cache), cache.total) == (0, 0)


def test_the_last_value_stays_whatever_its_size() -> None:
    cache: BoundedCache[str] = BoundedCache(100)
    cache.put("small", "", 8)
    cache.put("large", "", 8000)
    assert ("small" in cache, "large" in cache, cache.total) == (False, True, 8000)


def test_room_is_made_before_what_grows_is_made() -> None:
    cache: SharedCache[int] = SharedCache(30, ten, grows=True)
    kept: list[int] = []

    def make() -> int:
        kept.append(len(cache))
        return 0

    for key in (1, 2, 1, 3, 4, 1):
        cache.get(key, make)
    assert kept == [0, 1, 2, 2]  # 1 was never made again, 4 was made when 2 had gone
    assert len(cache) == 3


def test_what_grew_makes_room() -> None:
    sizes = {"all": 10}
    cache: SharedCache[int] = SharedCache(30, lambda _: sizes["all"], grows=True)
    for key in (1, 2, 3):
        cache.get(key, int)
    sizes["all"] = 30
    cache.get(4, int)
    assert len(cache) == 1
    sizes["all"] = 31
    cache.get(5, int)
    assert len(cache) == 0


def test_different_values_are_made_side_by_side_and_one_only_once() -> None:
    cache: SharedCache[int] = SharedCache(40, ten)
    both, made = threading.Barrier(2), list[int]()

    def make(key: int) -> int:
        made.append(key)
        both.wait(30)  # passes only if the other one is being made, too
        return key

    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(lambda place: cache.get(place % 2, lambda: make(place % 2)), range(4)))
    assert values == [0, 1, 0, 1]
    assert sorted(made) == [0, 1]


def test_an_error_is_the_answer_for_a_while() -> None:
    cache: SharedCache[int] = SharedCache(100, ten, retry_after=60)
    made: list[int] = []

    def fail() -> int:
        made.append(1)
        raise InputError("no")

    for _ in range(3):
        with pytest.raises(InputError):
            cache.get("x", fail)
    assert len(made) == 1
    cache.retry_after = 0
    assert cache.get("x", lambda: 5) == 5


@pytest.mark.parametrize("error", [ZeroDivisionError, OSError])
def test_other_errors_are_not_kept(error: type[Exception]) -> None:
    cache: SharedCache[int] = SharedCache(100, ten, retry_after=60)

    def fail() -> int:
        raise error

    for _ in range(2):
        with pytest.raises(error):
            cache.get("x", fail)
    assert cache.get("x", lambda: 5) == 5


def test_who_waits_makes_what_another_gave_up() -> None:
    """The first to ask leaves while the value is made; the second, who waits for it, gets it."""
    cache: SharedCache[str] = SharedCache(100, ten)
    began, left = threading.Event(), threading.Event()

    def slowly() -> str:
        began.set()
        left.wait(10)
        checkpoint()
        return "made"

    def leaving() -> str:
        ABANDONED.set(left)
        return cache.get("key", slowly)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(leaving)
        began.wait(10)
        second = pool.submit(cache.get, "key", slowly)
        left.set()
        assert second.result(10) == "made"
        with pytest.raises(StoppedError):
            first.result(10)


class Frame:
    """Something that is compared by identity."""


def test_an_answer_about_objects_lives_as_long_as_they_do() -> None:
    asked = []

    @while_alive
    def answer(one: Frame, other: Frame) -> int:
        asked.append((id(one), id(other)))
        return len(asked)

    one, other = Frame(), Frame()
    assert [answer(one, other), answer(one, other), answer(other, one)] == [1, 1, 2]
    alive = weakref.ref(one)
    del one
    assert alive() is None
    assert answer(Frame(), other) == 3
