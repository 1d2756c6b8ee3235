"""Each law of the verdict on a job of some ranks."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.hangs.records import GROUPS
from kinetoscope.model.hangs.verdict import verdicts
from tests.model.hangs.drawn import S, first, job, rank_calls

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


def test_who_left_no_records_is_the_end_only_if_nobody_else_is() -> None:
    texts = {0: "dp:all_reduce dp:barrier?", 2: "dp:all_reduce dp:barrier?"}
    verdict = first(*job(texts, DP))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("rank ended", "guess", (1,))
    texts = {0: "dp4:all_reduce dp4:barrier?", 2: "dp4:all_reduce"}
    verdict = first(*job(texts, {"dp4": (0, 1, 2)}))
    assert (verdict.cause, verdict.ranks) == ("missing rank", (2,))


def test_a_rank_of_which_a_log_says_that_it_was_killed_ended_surely() -> None:
    texts = {0: "dp:all_reduce dp:barrier?", 2: "dp:all_reduce dp:barrier?"}
    frames = job(texts, DP, hosts={1: {"written": None, "ended": "killed by signal 9"}})
    assert (first(*frames).cause, first(*frames).certainty, first(*frames).ranks) == ("rank ended", "sure", (1,))


@pytest.mark.parametrize(
    ("host", "cause"),
    [
        ({"activity": "data loading"}, "data loading"),
        ({"stack": "train.py(3): <module>;dataloader.py(700): __next__"}, "data loading"),
        ({"stack": "train.py(9): <module>;serialization.py(900): save"}, "checkpoint"),
        ({"stack": "train.py(9): <module>;threading.py(300): acquire"}, "host stalled"),
        ({"stack": "train.py(9): <module>;distributed_c10d.py(2500): send"}, "unmatched send"),
        ({"ended": "exit code 1"}, "rank ended"),
        ({"ended": "killed by signal 6"}, "missing rank"),
    ],
)
def test_what_a_host_does_says_why_its_rank_is_missing(host: dict[str, str], cause: str) -> None:
    texts = {0: "dp:all_reduce dp:barrier?", 1: "dp:all_reduce", 2: "dp:all_reduce dp:barrier?"}
    verdict = first(*job(texts, DP, hosts={1: {**host, "line": "train.py:9"}}))
    assert (verdict.cause, verdict.ranks, verdict.line) == (cause, (1,), "train.py:9")


def test_a_rank_that_goes_on_with_what_comes_next_has_skipped_a_call() -> None:
    step = "dp:all_reduce dp:all_gather dp:reduce_scatter dp:barrier "
    texts = {0: 2 * step + "dp:all_reduce dp:all_gather?", 1: 2 * step + "dp:all_reduce dp:reduce_scatter?"}
    verdict = first(*job(texts, {"dp": (0, 1)}))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("skipped call", "likely", (1,))
    assert (verdict.seq, verdict.name) == (10, "all_gather")


def test_a_call_that_its_past_does_not_know_is_no_skipped_call() -> None:
    step = "dp:all_reduce dp:all_gather dp:reduce_scatter dp:barrier "
    texts = {0: 2 * step + "dp:all_reduce dp:all_gather?", 1: 2 * step + "dp:all_reduce dp:broadcast?"}
    assert first(*job(texts, {"dp": (0, 1)})).cause == "different collective"


def test_a_send_without_its_receive_names_the_rank_that_did_not_call_it() -> None:
    texts = {0: "pp:send@1 pp:send@1?", 1: "pp:recv@0 w:barrier?"}
    verdict = first(*job(texts, {"pp": (0, 1), "w": (0, 1)}))
    assert (verdict.cause, verdict.certainty) == ("order of groups", "likely")
    texts = {0: "pp:send@1 pp:send@1?", 1: "pp:recv@0 tp:barrier"}
    verdict = first(*job(texts, {"pp": (0, 1), "tp": (1, 2)}))
    assert (verdict.cause, verdict.ranks, verdict.waiting) == ("missing rank", (1,), (0,))


def test_a_send_and_its_receive_differ_in_size() -> None:
    verdict = first(*job({0: "pp:send@1[16]?", 1: "pp:recv@0[17]?"}, {"pp": (0, 1)}))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("different sizes", "sure", (0, 1))
    assert verdict.differs == {"[16]": (0,), "[17]": (1,)}


def test_all_are_in_it_and_one_does_not_end() -> None:
    texts = {0: "dp:all_reduce dp:barrier?", 1: "dp:all_reduce!", 2: "dp:all_reduce dp:barrier?"}
    verdict = first(*job(texts, DP))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("device or network", "likely", (1,))


def test_nobody_says_the_root_of_a_broadcast() -> None:
    verdict = first(*job({0: "dp:broadcast!", 1: "dp:broadcast!", 2: "dp:broadcast!"}, DP))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("different root", "guess", ())


def test_two_take_themselves_for_the_root_of_a_gather() -> None:
    calls = {rank: rank_calls(rank, "dp:gather?") for rank in range(3)}
    calls[2][0] |= {"output_sizes": None, "output_elements": 0}
    verdict = first(*job(calls, DP))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("different root", "sure", (0, 1))


def test_ranks_do_not_agree_on_the_members_of_a_group() -> None:
    calls, groups, hosts = job({0: "g:barrier?", 1: "g:barrier?", 2: "g:barrier?"}, {"g": (0, 1, 2)})
    other = pl.when(pl.col("rank") == 0).then(pl.lit([0, 1])).otherwise(pl.col("ranks")).alias("ranks")
    verdict = first(calls, groups.with_columns(other), hosts)
    assert (verdict.cause, verdict.ranks) == ("different group", (0,))
    assert verdict.differs == {"0, 1": (0,), "0, 1, 2": (1, 2)}


def test_groups_of_one_name_and_other_members_are_several() -> None:
    texts = dict.fromkeys((0, 1), "tp:all_reduce tp:all_reduce?") | {2: "tp:all_reduce?", 3: ""}
    calls, groups, hosts = job(texts, {"tp": (0, 1, 2, 3)})
    members = pl.when(pl.col("rank") < 2).then(pl.lit([0, 1])).otherwise(pl.lit([2, 3])).alias("ranks")
    made = verdicts(calls, groups.with_columns(members), hosts)
    assert {(each.cause, each.ranks) for each in made} == {("missing rank", (3,)), ("device or network", (0, 1))}


def test_a_group_that_a_rank_has_never_used_has_no_backend_there() -> None:
    calls, groups, hosts = job({0: "dp:barrier?", 1: "", 2: "dp:barrier?"}, DP)
    key = pl.when(pl.col("rank") == 1).then(pl.lit(":dp")).otherwise(pl.col("group")).alias("group")
    assert first(calls, groups.with_columns(key), hosts).ranks == (1,)


def test_records_that_are_older_than_the_wait_prove_nothing() -> None:
    texts = {0: "dp:all_reduce dp:barrier?", 1: "dp:all_reduce", 2: "dp:all_reduce dp:barrier?"}
    verdict = first(*job(texts, DP, hosts={1: {"written": S // 20}}))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("missing rank", "guess", (1,))


def test_a_rank_that_others_have_met_later_was_only_asked_earlier() -> None:
    texts = {0: "dp:all_reduce dp:barrier", 1: "dp:all_reduce", 2: "dp:all_reduce dp:barrier"}
    assert first(*job(texts, DP)).cause == "no hang"


def test_a_rank_that_still_moves_is_slow() -> None:
    texts: dict[int, str | list[dict[str, object]]] = {
        0: "dp:all_reduce dp:barrier?",
        1: rank_calls(1, "dp:all_reduce " + "tp:barrier " * 9990),
        2: "dp:all_reduce dp:barrier?",
    }
    verdict = first(*job(texts, DP | {"tp": (1, 3)}))
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("slow rank", "likely", (1,))


def test_calls_of_gloo_have_no_members_and_no_times() -> None:
    calls, groups, hosts = job({0: "0:barrier 0:barrier?", 1: "0:barrier"}, {"0": None}, world=3)
    calls = calls.with_columns(started=None, completed=None)
    made = verdicts(calls, groups, hosts)
    assert [(each.cause, each.ranks) for each in made] == [("missing rank", (1,))]


@pytest.mark.parametrize(("written", "certainty"), [(None, "guess"), (9 * S, "likely"), (0, None)])
def test_what_gloo_left_and_others_never_called_may_have_failed(written: int | None, certainty: str | None) -> None:
    """In gloo's records a call that failed is done: only the times of writing tell it from an older dump."""
    texts = {0: "0:all_reduce 0:barrier", 1: "0:all_reduce", 2: "0:all_reduce 0:barrier"}
    calls, groups, hosts = job(texts, {"0": None})
    of_gloo = [each.with_columns(pl.col("group").str.replace("nccl", "gloo")) for each in (calls, groups)]
    hosts = hosts.with_columns(written=pl.when(rank=1).then(pl.lit(written, pl.Int64)).otherwise("written"))
    verdict = first(*of_gloo, hosts)
    if certainty is None:
        assert verdict.cause == "no hang"
    else:
        facts = (verdict.cause, verdict.certainty, verdict.ranks, verdict.waiting, verdict.name, verdict.seq)
        assert facts == ("missing rank", certainty, (1,), (0, 2), "barrier", 2)


def test_a_rank_that_was_killed_is_named_though_nobody_is_seen_to_wait() -> None:
    frames = job({0: "dp:all_reduce dp:barrier", 2: "dp:all_reduce dp:barrier"}, DP, hosts={
        1: {"written": None, "ended": "killed by signal 9"}, 2: {"ended": "exit code 0"}
    })  # fmt: skip
    assert (first(*frames).cause, first(*frames).certainty, first(*frames).ranks) == ("rank ended", "likely", (1,))


def test_a_rank_that_was_killed_is_why_a_call_of_gloo_looks_done_on_another() -> None:
    group: dict[str, Any] = {"group": "gloo:0", "timeout": None, "started": None, "completed": None}
    texts = {0: "0:all_reduce?", 2: "0:all_reduce?", 3: "0:all_reduce"}
    calls, _, hosts = job(
        {rank: rank_calls(rank, text, **group) for rank, text in texts.items()},
        {},
        hosts={1: {"written": None, "ended": "killed by signal 9"}},
        world=4,
    )
    members = [{"rank": rank, "group": "gloo:0", "backend": "gloo", "ranks": [0, 1, 2, 3]} for rank in texts]
    verdict = first(calls, pl.DataFrame(members, schema=GROUPS.types), hosts)
    assert (verdict.cause, verdict.certainty, verdict.ranks) == ("rank ended", "sure", (1,))


def test_members_of_a_coalesced_group_are_done_with_the_whole() -> None:
    calls = {rank: rank_calls(rank, "dp:all_gather? dp:coalesced") for rank in range(3)}
    for rows in calls.values():
        rows[1]["seq"] = 1
    assert first(*job(calls, DP)).cause == "no hang"


@given(
    order=st.lists(
        st.sampled_from(["dp:all_reduce", "dp:barrier", "ab:all_reduce", "ab:all_gather[4]"]), min_size=1, max_size=30
    ),
    states=st.data(),
)
def test_a_job_that_moves_never_has_another_cause(order: list[str], states: st.DataObject) -> None:
    """Ranks of one order of calls, each asked somewhere: what is not done there is not called, or on its way."""
    calls = {}
    for rank in range(3):
        mine = [each for each in order if rank < 2 or each.startswith("dp")]
        done = states.draw(st.integers(0, len(mine)))
        ahead = states.draw(st.integers(0, len(mine) - done))
        calls[rank] = rank_calls(
            rank, " ".join(mine[:done] + [each + "?" for each in mine[done : done + ahead]]), step=S // 100
        )
        calls[rank] = [
            row | {"output_elements": row["input_elements"]} for row in calls[rank] if "gather" not in row["name"]
        ]
    last = max((row["created"] for rows in calls.values() for row in rows), default=0)
    made = verdicts(*job(calls, DP | {"ab": (0, 1)}, written=last + S // 10))
    assert {each.cause for each in made} <= {"no hang", "slow rank"}
