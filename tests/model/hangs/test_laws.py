"""Each law of the verdict on a job of some ranks."""

from __future__ import annotations

from kinetoscope.model.hangs.verdict import verdicts
from tests.model.hangs.drawn import S, first, job

DP = {"dp": (0, 1, 2)}


def test_a_rank_that_does_not_come_is_missing() -> None:
    verdict = first(*job({0: "dp:all_reduce dp:barrier?", 1: "dp:all_reduce", 2: "dp:all_reduce dp:barrier?"}, DP))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("missing rank", "sure", (1,))
    assert (verdict.group, verdict.seq, verdict.name, verdict.waiting) == ("nccl:dp", 2, "barrier", (0, 2))
    assert (verdict.line, verdict.waiting_line) == ("train.py:all_reduce", "train.py:barrier")
    assert (verdict.waited, verdict.timeout) == (1000 * S - S // 10, 600 * S)
    assert verdict.shows is not None
    assert verdict.shows.select("rank", "seq").rows() == [(0, 2), (1, 1), (2, 2)]


def test_the_first_cause_is_where_the_waits_end() -> None:
    texts = {0: "tp:all_reduce dp:all_reduce?", 1: "tp:all_reduce", 2: "pp:barrier tp2:all_reduce?", 3: "pp:barrier"}
    members = {"tp": (0, 1), "tp2": (2, 3), "dp": (0, 2), "dp2": (1, 3), "pp": (2, 3)}
    (verdict,) = verdicts(*job(texts, members))
    assert (verdict.cause, verdict.ranks, verdict.waiting) == ("missing rank", (3,), (0, 2))
    assert (verdict.group, verdict.seq) == ("nccl:tp2", 1)


def test_the_few_of_many_call_something_else() -> None:
    texts = {0: "dp:all_reduce dp:all_gather?", 1: "dp:all_reduce dp:barrier?", 2: "dp:all_reduce dp:all_gather?"}
    verdict = first(*job(texts, DP))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("different collective", "sure", (1,))
    assert verdict.differs == {"all_gather": (0, 2), "barrier": (1,)}


def test_of_two_that_differ_neither_is_the_one() -> None:
    verdict = first(*job({0: "dp:all_reduce[16]?", 1: "dp:all_reduce[17]?"}, {"dp": (0, 1)}))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("different sizes", "sure", (0, 1))
    assert verdict.differs == {"[16]": (0,), "[17]": (1,)}


def test_two_groups_in_other_order_are_a_cycle() -> None:
    members = {"a": (0, 1), "b": (0, 1)}
    verdict = first(*job({0: "a:all_reduce! b:all_reduce?", 1: "b:all_reduce! a:all_reduce?"}, members))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("order of groups", "sure", (0, 1))
    assert verdict.cycle == ((0, "nccl:a", 1, 1), (1, "nccl:b", 1, 0))


def test_what_is_done_is_no_hang() -> None:
    texts = dict.fromkeys((0, 1, 2), "dp:all_reduce dp:barrier")
    assert first(*job(texts, DP)).cause == "no hang"


def test_ranks_that_moved_when_records_were_written_do_not_hang() -> None:
    texts = {0: "dp:all_reduce dp:barrier?", 1: "dp:all_reduce", 2: "dp:all_reduce dp:barrier?"}
    assert first(*job(texts, DP, written=S // 2)).cause == "no hang"
