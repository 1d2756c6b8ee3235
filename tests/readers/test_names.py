"""Traces of serving engines, told apart and ordered by their names: each file holds one event, and what it says."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.readers.job.names import Place, ranks_of, serving_name
from kinetoscope.readers.job.ranks import assigned
from kinetoscope.readers.reader import CandidateFile
from kinetoscope.reading import read
from tests import drawn

MM = drawn.op("aten::mm", 0, 1)


def ranks(folder: Path, *names: str) -> dict[str, int]:
    for events, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        drawn.written(folder / name, *[MM] * events)
    return {source.url.removeprefix(f"{folder}/"): source.rank for source in read(folder).sources}


@pytest.mark.parametrize(
    ("name", "place", "stage"),
    [
        ("1762812.5-TP-3.trace.json.gz", Place(tensor=3), ""),
        ("bench-1762812.5-TP-1-DP-0-PP-2-EP-1.trace.json.gz", Place(0, 2, 0, 1), ""),
        ("1762812.5-TP-0-EXTEND.trace.json.gz", Place(), "EXTEND"),
        ("1762812.5-TP-0-2.trace.json.gz", Place(), "DECODE"),
        ("TP-0-TARGET_VERIFY.trace.json", Place(), "TARGET_VERIFY"),
        ("dp1_pp0_tp3_dcp3_ep7_rank3.1762812000000000000.pt.trace.json.gz", Place(data=1, tensor=3), ""),
        ("qwen_dp0_pp1_pcp1_tp0_dcp0_ep0_rank2.17.pt.trace.json", Place(0, 1, 1, 0), ""),
    ],
)
def test_the_place_stands_in_the_name(name: str, place: Place, stage: str) -> None:
    told = serving_name(CandidateFile(f"/traces/{name}"))
    assert told is not None
    assert (told.place, told.stage) == (place, stage)


@pytest.mark.parametrize("name", ["llama_tp8.json", "tp4/trace.json", "rank3.json", "host_12.17.pt.trace.json.gz"])
def test_the_size_of_a_group_is_no_place(name: str) -> None:
    assert serving_name(CandidateFile(name)) is None


@given(st.tuples(*[st.integers(1, 3)] * 4))
def test_processes_are_numbered_in_order_of_place(sizes: tuple[int, ...]) -> None:
    places = [
        Place(data, pipeline, context, tensor)
        for data in range(sizes[0])
        for pipeline in range(sizes[1])
        for context in range(sizes[2])
        for tensor in range(sizes[3])
    ]
    assert ranks_of(places) == {place: rank for rank, place in enumerate(places)}


def test_data_parallel_attention_numbers_no_processes() -> None:
    places = [Place(data=rank // 2, tensor=rank) for rank in range(8)]
    assert ranks_of(places) == {place: rank for rank, place in enumerate(places)}


def test_servers_of_data_parallel_replicas_are_ranks_of_one_job(tmp_path: Path) -> None:
    """Each of them says rank 0 of 2 and rank 1 of 2, as it is a world of its own."""
    for data in range(2):
        for tensor in range(2):
            info = {"rank": tensor, "world_size": 2}
            drawn.written(tmp_path / f"17-TP-{tensor}-DP-{data}.trace.json", MM, distributedInfo=info)
    job = read(tmp_path)
    assert [(each.name, each.rank, each.cycle) for each in job.sources] == [
        ("17-TP-0-DP-0.trace.json", 0, 0),
        ("17-TP-1-DP-0.trace.json", 1, 0),
        ("17-TP-0-DP-1.trace.json", 2, 0),
        ("17-TP-1-DP-1.trace.json", 3, 0),
    ]
    assert "The ranks of 4 of 4 files follow from the places in their names (2 DP × 2 TP)." in job.notes


def test_what_the_files_say_counts_where_it_tells_all_places_apart(tmp_path: Path) -> None:
    for tensor, rank in (0, 4), (1, 5):
        info = {"rank": rank, "world_size": 8}
        drawn.written(tmp_path / f"17-TP-{tensor}.trace.json", MM, distributedInfo=info)
    assert read(tmp_path).ranks == (4, 5)


def test_stages_are_cycles_prefill_first(tmp_path: Path) -> None:
    names = [f"17-TP-{rank}-{stage}.trace.json" for stage in ("DECODE", "EXTEND") for rank in (0, 1)]
    ranks(tmp_path, *names)
    job = read(tmp_path)
    assert [(each.rank, each.cycle, each.name[8:14]) for each in job.sources] == [
        (0, 0, "EXTEND"),
        (0, 1, "DECODE"),
        (1, 0, "EXTEND"),
        (1, 1, "DECODE"),
    ]
    assert "The cycles of a rank are the stages that were recorded apart: EXTEND, DECODE." in job.notes


def test_recordings_of_a_server_are_cycles_in_order_of_time(tmp_path: Path) -> None:
    ranks(tmp_path, *(f"{time}-TP-{rank}.trace.json" for time in (18, 17) for rank in (0, 1)))
    assert [(each.rank, each.cycle, each.name[:2]) for each in read(tmp_path).sources] == [
        (0, 0, "17"),
        (0, 1, "18"),
        (1, 0, "17"),
        (1, 1, "18"),
    ]


def test_workers_of_vllm_are_ranks_and_its_front_end_is_none(tmp_path: Path) -> None:
    front = "host_12.async_llm.17.pt.trace.json"
    found = ranks(tmp_path, front, *(f"dp0_pp0_tp{rank}_dcp0_ep0_rank{rank}.17{rank}.pt.trace.json" for rank in (1, 0)))
    assert list(found.values()) == [0, 1]
    notes = read(tmp_path).notes
    assert f"Left out as recordings of a front end, which drives no device: {front}. Open them by name." in notes
    assert read(tmp_path / front).ranks == (0,)


def test_a_front_end_without_a_name_is_told_by_its_lack_of_a_place(tmp_path: Path) -> None:
    assert list(ranks(tmp_path, "host_12.17.pt.trace.json", "dp0_pp0_tp0_rank0.17.pt.trace.json").values()) == [0]


def test_same_names_in_two_folders_are_two_servers(tmp_path: Path) -> None:
    names = [f"{server}/17-TP-{rank}.trace.json" for server in ("decode", "prefill") for rank in (0, 1)]
    assert list(ranks(tmp_path, *names).values()) == [0, 1, 2, 3]
    assert read(tmp_path).notes[-1] == (
        "The ranks of 4 of 4 files follow from the places in their names (2 TP), and that 2 servers wrote files of the "
        "same names."
    )


@pytest.mark.parametrize("name", ["dp0_pp0_tp{0}_rank{0}.{1}.pt.trace.json", "rank{0}_{1}.json"])
def test_same_names_on_two_hosts_are_ranks_one_after_the_other(tmp_path: Path, name: str) -> None:
    for place, host in enumerate(("a", "b")):
        for rank in (0, 1):
            drawn.written(tmp_path / name.format(rank, 17 + place), MM, host_name=host)
    assert [(each.rank, each.cycle) for each in read(tmp_path).sources] == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_a_group_over_two_hosts_is_one(tmp_path: Path) -> None:
    for rank in range(4):
        drawn.written(tmp_path / f"17-TP-{rank}.trace.json", MM, host_name="ab"[rank // 2])
    assert read(tmp_path).ranks == (0, 1, 2, 3)


def test_the_order_of_the_list_does_not_matter() -> None:
    files = [CandidateFile(f"{t}-TP-{r}-{s}.trace.json") for t in (1, 2) for r in (0, 1) for s in ("EXTEND", "DECODE")]
    every = {tuple(assigned(order)[0]) for order in list(permutations(files))[::997]}
    assert len(every) == 1
