"""Which rank and cycle each file of a job holds, whatever the order that the files come in."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers.job.capture_traces import FILES
from kinetoscope.readers.job.find_companions import without_companions
from kinetoscope.readers.job.ranks import assigned, natural
from kinetoscope.readers.json.probe import distributed, in_collectives
from kinetoscope.readers.reader import CandidateFile

CANDIDATES = st.lists(
    st.builds(
        CandidateFile,
        url=st.sampled_from([f"{folder}/{name}" for folder in ("a", "b") for name in (
            "rank0.json", "rank2.json", "host_1.1600000000000.pt.trace.json", "host_1.1600000000001.pt.trace.json",
            "host_2.1600000000000.pt.trace.json.gz", "x.json", "x.json.gz", "10.json", "9.json",
        )]),
        rank=st.none() | st.integers(0, 4),
        world=st.sampled_from([0, 4, 8]),
        basis=st.just("text"),
        digest=st.sampled_from(["", "m", "n"]),
        size=st.sampled_from([None, 1, 2]),
    ),
    min_size=1, max_size=9, unique_by=lambda candidate: candidate.url,
)  # fmt: skip


def ranks(*candidates: CandidateFile) -> list[tuple[str, int, int]]:
    return [(place.url, place.rank, place.cycle) for place in assigned(candidates)[0]]


def notes(*candidates: CandidateFile) -> list[Note]:
    return assigned(candidates)[1]


@given(CANDIDATES, st.randoms())
def test_the_order_of_files_changes_nothing(candidates: list[CandidateFile], random: object) -> None:
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assigned(shuffled) == assigned(candidates)


@given(CANDIDATES)
def test_each_rank_and_cycle_is_there_once_and_cycles_count_from_zero(candidates: list[CandidateFile]) -> None:
    places, _ = assigned(candidates)
    assert len({(place.rank, place.cycle) for place in places}) == len(places)
    assert all(place.cycle == 0 or before(places, place) for place in places)
    told = {candidate.url: candidate.rank for candidate in candidates if candidate.rank is not None}
    assert all(told.get(place.url, place.rank) == place.rank for place in places)


def before(places: Sequence[Source], place: Source) -> bool:
    return any((other.rank, other.cycle) == (place.rank, place.cycle - 1) for other in places)


def test_files_of_one_process_are_cycles_of_one_rank() -> None:
    """Names as tensorboard_trace_handler gives them; the times are as long as those of either era."""
    files = [f"run/node{node}_{pid}.{time}.pt.trace.json.gz" for node, pid in ((10, 7), (9, 77), (9, 8)) for time in
             (1600000000000, 1900000000000000000)]  # fmt: skip
    candidates = [CandidateFile(file) for file in files]
    assert [(file[4:].partition(".")[0], rank, cycle) for file, rank, cycle in ranks(*candidates)] == [
        ("node9_8", 0, 0), ("node9_8", 0, 1), ("node9_77", 1, 0), ("node9_77", 1, 1), ("node10_7", 2, 0),
        ("node10_7", 2, 1),
    ]  # fmt: skip
    assert notes(*candidates) == [
        "No rank was found in 6 of 6 files; they are numbered by process, in order of name.",
        "Several files have the same rank (0-2): they are read as cycles of the profiler, in order of name.",
    ]


def test_one_file_tells_the_rank_of_its_process() -> None:
    first, second = "host_7.1600000000000.pt.trace.json", "host_7.1600000000001.pt.trace.json"
    assert ranks(CandidateFile(first), CandidateFile(second, rank=5, basis="text")) == [(first, 5, 0), (second, 5, 1)]


def test_files_of_different_processes_may_be_different_runs() -> None:
    files = [CandidateFile(f"host_{pid}.1600000000000.pt.trace.json", rank=0, basis="text") for pid in (7, 8)]
    assert "Files of the same rank come from different processes (0): this may be more than one run." in notes(*files)


def test_cycles_are_counted_as_people_count() -> None:
    candidates = [CandidateFile(f"step{step}/rank3.json") for step in (100, 20)]
    assert ranks(*candidates) == [("step20/rank3.json", 3, 0), ("step100/rank3.json", 3, 1)]
    assert natural("a10b") > natural("a9b")


def test_copies_are_one_trace_and_cycles_are_not() -> None:
    one = CandidateFile("a/rank0.json", rank=0, basis="text", digest="m", size=5)
    packed = CandidateFile("a/rank0.json.gz", rank=0, basis="text", digest="m", size=2)
    copy = CandidateFile("b/x.json", rank=0, basis="text", digest="m", size=5)
    cycle = CandidateFile("a/rank0_2.json", rank=0, basis="text", digest="n", size=5)
    twin = CandidateFile("a/rank1.json", rank=1, basis="text", digest="m", size=5)
    assert ranks(one, packed, copy, cycle, twin) == [(one.url, 0, 0), (cycle.url, 0, 1), (twin.url, 1, 0)]
    assert notes(one, packed, copy, cycle, twin)[0] == "Left out as copies of other files: rank0.json.gz, x.json."


@pytest.mark.parametrize(
    ("ranks_and_worlds", "note"),
    [
        ([(0, 8), (1, 16)], "The traces disagree about how many ranks the job had: 8 (rank 0); 16 (rank 1)."),
        ([(0, 4), (2, 4)], "The job had 4 ranks; missing: 1, 3."),
        ([(1, 0), (4, 0), (6, 0)], "Ranks missing in between: 2-3, 5."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_one_note(ranks_and_worlds: list[tuple[int, int]], note: str) -> None:
    said = notes(
        *(CandidateFile(f"{rank}.json", rank=rank, world=world, basis="text") for rank, world in ranks_and_worlds)
    )
    assert sum(each.startswith(note) for each in said) == 1


# --- what texts say


def test_the_last_of_several_infos_counts() -> None:
    text = b'{"distributedInfo": {"rank": 1, "world_size": 4}, "x": {"distributedInfo" : {"rank": 2}}'
    assert distributed(text) == (2, 0)


@pytest.mark.parametrize("rank", ["-1", "1e3", '"3"', "true", "null", "99999999999999999999", "[3]"])
def test_a_rank_that_can_be_none_is_none(rank: str) -> None:
    text = f'"distributedInfo": {{"rank": {rank}, "world_size": {rank}}}'.encode()
    assert distributed(text) == (None, 0)


def arguments(name: str, group: str, **more: int) -> str:
    said = {"Collective name": name, "Process Group Ranks": group, **{key.replace("_", " "): more[key] for key in more}}
    return json.dumps({"name": "record_param_comms", "args": said})


@pytest.mark.parametrize(
    ("events", "rank"),
    [
        ([("allreduce", "[4, 5, 6]", {"Rank": 1, "Group_size": 3})], 5),
        ([("_allgather_base", "[4, 5, 6]", {"Rank": 2})], 6),
        ([("broadcast", "[4, 5, 6]", {"Rank": 1})], None),  # its root
        ([("send", "[4, 5, 6]", {"Rank": 1})], None),  # its peer
        ([("wait", "[4, 5]", {}), ("wait", "[5, 9]", {})], 5),  # in both groups is only one
        ([("wait", "[4, 5]", {}), ("wait", "[5, 4]", {})], None),
        ([("wait", "[4, 5]", {}), ("wait", "[6, 7]", {})], None),
        ([("wait", "[4]", {"Group_size": 40})], None),  # cut short
        ([("allreduce", "[0, 1, ..., 31]", {"Rank": 1})], None),
        ([("allreduce", "[0, 1]", {"Rank": 0}), ("allreduce", "[4, 5]", {"Rank": 0})], None),  # they contradict
        ([("allreduce", "[4, 5]", {"Rank": 7})], None),
        ([("wait", "[]", {})], None),
    ],
)
def test_collectives_tell_the_rank(events: list[tuple[str, str, dict[str, int]]], rank: int | None) -> None:
    text = ", ".join(arguments(name, group, **more) for name, group, more in events)
    assert in_collectives(text.encode()) == rank


def capture(name: str, rank: int | None = None) -> CandidateFile:
    return CandidateFile(f"vllm/capture_traces/{name}", rank=rank)


def captures_of(*candidates: CandidateFile) -> dict[int, list[str]]:
    """The names of the capture traces of each rank."""
    return {rank: [url.rpartition("/")[2] for url in of] for rank, of in joined(*candidates)[0].items()}


def joined(*candidates: CandidateFile) -> tuple[dict[int, tuple[str, ...]], list[Note]]:
    traces = without_companions([*candidates])
    sources, _ = assigned(traces)
    belonging, notes = FILES.join(sources, [each for each in candidates if each not in traces])
    return {each.rank: urls for each, urls in zip(sources, belonging, strict=True)}, notes


def test_captures_of_graphs_are_no_cycles_of_the_run_but_belong_to_its_rank() -> None:
    runs = [CandidateFile(f"vllm/rank_{rank}.json.gz", rank=rank) for rank in (0, 1)]
    own = [capture("graph_capture_rank_1.17.pt.trace.json.gz"), capture("graph_capture_rank_0.17.pt.trace.json.gz")]
    places, _ = assigned(without_companions([*runs, *own]))
    said = joined(*runs, *own)[1]
    assert [(place.url, place.cycle) for place in places] == [(run.url, 0) for run in runs]
    assert captures_of(*runs, *own) == {0: [own[1].url[20:]], 1: [own[0].url[20:]]}
    assert said[0].startswith("Captures of CUDA graphs, which tell what the replays compute: graph_capture_")
    assert without_companions([own[0]]) == [own[0]]


def test_ranks_without_captures_get_those_of_the_first_rank_as_vllm_records_no_others() -> None:
    runs = [CandidateFile(f"vllm/rank_{rank}.json.gz", rank=rank) for rank in range(3)]
    sizes = [capture(f"graph_capture_rank_0.{time}.pt.trace.json.gz") for time in (9, 10)]
    names = ["graph_capture_rank_0.9.pt.trace.json.gz", "graph_capture_rank_0.10.pt.trace.json.gz"]
    assert captures_of(*runs, *sizes) == {0: names, 1: names, 2: names}
    assert "joined with that of rank 0: ranks 1-2." in joined(*runs, *sizes)[1][-1]


def test_a_capture_of_no_rank_goes_with_all() -> None:
    runs = [CandidateFile(f"vllm/rank_{rank}.json.gz", rank=rank) for rank in (0, 1)]
    there = [capture("x.json"), capture("rank1.json")]
    assert captures_of(*runs, *there) == {0: ["rank1.json", "x.json"], 1: ["rank1.json", "x.json"]}
