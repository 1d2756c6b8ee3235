"""Calls that a rank has left out, where only the other ranks show it: the ring buffer has less than two steps."""

from __future__ import annotations

import pytest

from kinetoscope.model.hangs.evidence import evidence
from kinetoscope.model.hangs.omissions import left_out
from tests.model.hangs.drawn import first, job

GROUPS = {"w": (0, 1, 2), "d": (0, 1, 2)}
BEFORE = "w:all_reduce d:all_gather[1] d:all_gather[2] d:all_gather[3] d:all_gather[4] "
AFTER = "d:reduce_scatter[1]? d:reduce_scatter[2]? d:reduce_scatter[3]? d:reduce_scatter[4]? w:all_reduce?"
STEP = BEFORE + "w:all_reduce? " + AFTER
SWAPPED = STEP.replace("w:all_reduce? d:reduce_scatter[1]?", "d:reduce_scatter[1]? w:all_reduce?")
SHORT = "w:all_reduce d:all_gather[1] "
ALL = dict.fromkeys(range(3), STEP)


def test_of_ranks_that_do_the_same_one_has_a_call_less() -> None:
    """The numbers of the group are as many as before once the next step calls the same."""
    texts = ALL | {1: BEFORE + AFTER}
    frames = job(texts, GROUPS)
    gone = left_out(evidence(*frames), 1)
    assert gone is not None
    assert (gone["group"], gone["name"], gone["before"]) == ("nccl:w", "all_reduce", 5)
    verdict = first(*frames)
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("skipped call", "likely", (1,))
    assert (verdict.group, verdict.seq) == ("nccl:w", 2)


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("all do the same", ALL),
        ("of two alone nobody knows", {0: STEP, 1: BEFORE + AFTER}),
        ("another order", ALL | {1: SWAPPED}),
        ("another one does so too", ALL | {1: BEFORE + AFTER, 0: BEFORE + AFTER}),
        ("too little before", dict.fromkeys(range(3), SHORT + "w:all_reduce? " + AFTER) | {1: SHORT + AFTER}),
        ("too little after", ALL | {1: BEFORE + "d:reduce_scatter[1]?"}),
    ],
)
def test_what_does_not_show_that_a_call_was_left_out(what: str, texts: dict[int, str]) -> None:
    frames = job(texts, GROUPS)
    assert left_out(evidence(*frames), 1) is None, what


def test_a_call_that_others_make_one_number_later_is_no_other_order() -> None:
    members = {"w": (0, 1, 2), "a": (0, 1)}
    texts = {
        0: "w:all_reduce w:all_reduce[4]? a:all_gather? w:barrier?",
        1: "w:all_reduce a:all_gather? w:barrier?",
        2: "w:all_reduce w:all_reduce[4]? w:barrier?",
    }
    verdict = first(*job(texts, members))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("skipped call", "likely", (1,))
    texts[1] = "w:all_reduce a:all_gather? w:all_reduce[4]? w:barrier?"
    assert first(*job(texts, members)).cause == "order of groups"


def test_a_rank_that_others_have_passed_was_asked_earlier() -> None:
    """Rank 2 had not done the second call, and others have done the third: it is no broken link of that rank."""
    done = "w:all_reduce w:all_reduce w:all_reduce "
    texts = {0: done + "w:barrier?", 1: done, 2: "w:all_reduce w:all_reduce? w:all_reduce? w:barrier?"}
    verdict = first(*job(texts, {"w": (0, 1, 2)}, hosts={2: {"written": None}}))
    assert (verdict.cause, verdict.ranks) == ("missing rank", (1,))


def test_a_rank_that_was_asked_earlier_is_not_where_a_link_is_broken() -> None:
    texts = {0: "w:all_reduce w:barrier?", 1: "w:all_reduce! w:barrier?", 2: "w:all_reduce? w:barrier?"}
    verdict = first(*job(texts, {"w": (0, 1, 2)}, hosts={2: {"written": 1}}))
    assert (verdict.cause, verdict.ranks) == ("device or network", (1,))


def test_who_waits_for_a_rank_without_records_has_left_a_call_out() -> None:
    """Rank 1 waits for rank 0, and that for rank 9: whether it would come is unknown, but rank 0 is one call short."""
    past = 3 * "w:barrier a:all_to_all w:all_reduce a:all_to_all w:all_gather "
    texts = {
        0: past + "w:barrier w:all_reduce a:all_to_all u:barrier?",
        1: past + "w:barrier a:all_to_all w:all_reduce a:all_to_all?",
    }
    verdict = first(*job(texts, {"w": (0, 1), "a": (0, 1), "u": (0, 9)}))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("skipped call", "guess", (0,))
    assert (verdict.group, verdict.seq, verdict.waiting) == ("nccl:a", 8, (1,))
