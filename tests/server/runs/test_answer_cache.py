"""What was answered is kept within bytes; what failed is tried again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kinetoscope.errors import InputError
from kinetoscope.server.runs import answer_cache
from kinetoscope.server.runs.answer_cache import Answers


def test_the_least_recently_asked_goes_first() -> None:
    kept, made = Answers(30), []

    def made_now(question: str) -> str:
        made.append(question)
        return question

    def ask(question: str) -> str:
        return kept.get(question, lambda: made_now(question), lambda _: 10)

    for question in "abcab":
        ask(question)
    assert made == list("abc")
    ask("d")  # c was asked longest ago
    ask("a")
    ask("b")
    assert made == list("abcd")
    ask("c")
    assert made == list("abcdc")


def test_one_that_is_too_large_is_kept_alone() -> None:
    kept, made = Answers(10), []
    for _ in range(3):
        kept.get("huge", lambda: made.append(1), lambda _: 10**9)
    assert len(made) == 1


def test_who_asks_what_is_being_answered_waits() -> None:
    kept, made, go_on = Answers(100), [], threading.Event()

    def slowly() -> int:
        go_on.wait(10)
        made.append(1)
        return 7

    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(kept.get, "x", slowly, lambda _: 1) for _ in range(5)]
        go_on.set()
        assert [each.result() for each in asked] == [7] * 5
    assert len(made) == 1


def test_an_error_is_the_answer_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, made = Answers(100), []

    def fails() -> int:
        made.append(1)
        raise InputError("no")

    for _ in range(3):
        with pytest.raises(InputError):
            kept.get("x", fails, lambda _: 1)
    assert len(made) == 1
    monkeypatch.setattr(answer_cache, "PATIENCE", 0.0)
    assert kept.get("x", lambda: 5, lambda _: 1) == 5


def test_a_mistake_of_ours_is_not_kept() -> None:
    kept = Answers(100)
    with pytest.raises(ZeroDivisionError):
        kept.get("x", lambda: 1 // 0, lambda _: 1)
    assert kept.get("x", lambda: 5, lambda _: 1) == 5
