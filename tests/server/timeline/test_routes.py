"""The part of the API that the timeline asks, through a real server."""

from __future__ import annotations

import gzip
import itertools
import json
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinetoscope.model.timeline.counters import MAX_COUNTERS
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.timeline.hues import NO_HUE, hue_of
from kinetoscope.server.timeline.lanes import MAX_LANES
from kinetoscope.server.timeline.search_routes import LatestSearches, SupersededError
from tests.drawn import Event, annotation, job, kernel, launch, op, python, written
from tests.server.serving import Client, serving


def parsed(body: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a tile, as the browser reads them."""
    (size,) = struct.unpack_from("<I", body)
    header = json.loads(body[4 : 4 + size])
    assert (4 + size) % 8 == 0
    arrays = {}
    for name, facts in header["arrays"].items():
        assert facts["offset"] % 8 == 0
        arrays[name] = np.frombuffer(body, facts["dtype"], facts["count"], 4 + size + facts["offset"])
    return header, arrays


def tile_of(client: Client, run: str, **query: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    answer = client.ask(f"/api/runs/{run}/timeline/tile", query)
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/octet-stream"
    return parsed(answer.body)


def lane_ids(answer: dict[str, Any], kind: str) -> list[str]:
    return [lane["id"] for group in answer["ranks"][0]["groups"] if group["kind"] == kind for lane in group["lanes"]]


def test_lanes(device: Client) -> None:
    answer = device.get(f"runs/{device.run()}/timeline/lanes")
    (rank,) = answer["ranks"]
    assert [group["kind"] for group in rank["groups"]] == ["steps", "counter", "device", "host"]
    assert [step["step"] for step in rank["steps"]] == [1, 2]
    assert rank["steps"][0]["start"] == 0
    assert (rank["rank"], rank["offset"], answer["start"]) == (0, 0, 0)
    (main,) = rank["groups"][3]["lanes"]
    assert (main["title"], main["depth"], main["events"], main["outer"]) == ("main thread", 3, 26, 1)
    assert [lane["title"] for lane in rank["groups"][2]["lanes"]] == ["stream 7", "stream 8"]
    busy = answer["minimap"]["busy"]["computation"]
    assert sum(busy) * answer["minimap"]["bucket"] == pytest.approx(2 * sum(range(4_000, 4_006)), rel=0.01)


def drawn_lanes(tmp_path: Path, *events: Event) -> dict[str, Any]:
    job(tmp_path, *events)
    with serving(tmp_path) as client:
        answer: dict[str, Any] = client.get(f"runs/{client.run()}/timeline/lanes")
    return answer


def test_a_step_is_as_long_as_everywhere(tmp_path: Path) -> None:
    """The device is busy with the step before when the host begins the next, and goes on when the host is done."""
    host = [annotation(f"ProfilerStep#{step}", step * 1_000, 1_000) for step in range(4)]
    launches = [launch(step * 1_000 + 10, 10, step + 1) for step in range(4)]
    kernels = [kernel("gemm", step * 1_200 + 100, 1_200, step + 1) for step in range(4)]
    (rank,) = drawn_lanes(tmp_path, *host, *launches, *kernels)["ranks"]
    assert [step["end"] - step["start"] for step in rank["steps"]] == [1_300, 1_200, 1_200, 1_200]
    assert [step["host_end"] - step["host_start"] for step in rank["steps"]] == [1_000] * 4


def test_what_is_shown_at_first(tmp_path: Path) -> None:
    def home(*events: Event) -> tuple[int, int] | None:
        found = drawn_lanes(tmp_path, *events)["home"]
        return found and (found["start"], found["end"])

    def steps(*lengths: int) -> list[Event]:
        starts = [sum(lengths[:at]) for at in range(len(lengths))]
        return [annotation(f"ProfilerStep#{at}", *each) for at, each in enumerate(zip(starts, lengths, strict=True))]

    assert home(*steps(9_000, 1_000, 1_000, 1_000)) == (9_000, 12_000), "warm-up is there, but not in view"
    assert home(*steps(*[1_000] * 50)) == (23_000, 26_000), "of many steps some in the middle"
    assert home(*steps(1_000, 1_000)) is None
    many = [op("a", at * 100, 50) for at in range(300)]
    assert home(*many) is None
    assert home(*many, op("bad", 10**12, 10)) == (0, 29_700), "where all but a hundredth has ended"


def test_times_that_no_browser_can_count_are_left_out_and_said(tmp_path: Path) -> None:
    begin = 1_700_000_000_000_000_000
    found = drawn_lanes(tmp_path, op("bad", 0, 10), *(op("a", begin + at * 1_000, 500) for at in range(300)))
    assert (found["start"], found["end"]) == (0, 299_500)
    assert any("the times of 1 event cannot be right" in note for note in found["notes"])


def test_a_tile(device: Client) -> None:
    run = device.run()
    header, arrays = tile_of(device, run, z=8, i=0)
    lanes = device.get(f"runs/{run}/timeline/lanes")
    assert [lane["id"] for lane in header["lanes"]] == [*lane_ids(lanes, "device"), *lane_ids(lanes, "host")]
    stream, _, main = header["lanes"]
    assert int(arrays["count"].sum()) == 26 + 12
    assert (stream["offset"], main["offset"]) == (0, 12)
    kernels = slice(stream["offset"], stream["offset"] + stream["count"])
    assert {header["kinds"][kind] for kind in arrays["kind"][kernels]} == {"computation"}
    first = int(arrays["name"][stream["offset"]])
    assert arrays["start"][stream["offset"]] == pytest.approx(4_000 / 256)
    assert arrays["end"][stream["offset"]] == pytest.approx(8_000 / 256)
    assert first == arrays["name"][stream["offset"] + 1]
    step = int(arrays["name"][main["offset"]])
    assert header["names"] == {str(step): "ProfilerStep#1", **header["names"]}
    assert {array.dtype.name for array in arrays.values()} == {"float32", "uint16", "int32", "uint8"}
    assert set(map(len, (arrays["start"], arrays["depth"], arrays["row"], arrays["cover"]))) == {len(arrays["end"])}


def test_a_tile_of_some_lanes(device: Client) -> None:
    run = device.run()
    lanes = device.get(f"runs/{run}/timeline/lanes")
    stream = lane_ids(lanes, "device")[0]
    header, arrays = tile_of(device, run, z=8, i=0, lanes=f"{stream},utilization.0")
    assert [lane["id"] for lane in header["lanes"]] == [stream]
    assert [counter["id"] for counter in header["counters"]] == ["utilization.0"]
    assert header["counters"][0]["count"] == len(arrays["time"]) == len(arrays["mean"]) == len(arrays["max"])
    assert arrays["time"][0] == 0
    assert (arrays["mean"] <= arrays["max"]).all()
    assert float(arrays["max"].max()) == 1.0
    assert len(tile_of(device, run, z=8, i=0, lanes="")[1]["start"]) == 0


def test_tiles_are_not_sent_twice(device: Client) -> None:
    run = device.run()
    path = f"/api/runs/{run}/timeline/tile"
    first = device.ask(path, {"z": 8, "i": 0})
    again = device.ask(path, {"z": 8, "i": 0}, If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    assert device.ask(path, {"z": 8, "i": 1}, If_None_Match=first.headers["ETag"]).status == 200
    version = device.get(f"runs/{run}/timeline/lanes")["version"]
    assert "immutable" in device.ask(path, {"z": 8, "i": 0, "v": version}).headers["Cache-Control"]
    assert "immutable" not in first.headers["Cache-Control"]


def test_hues_of_names_and_of_modules(tmp_path: Path) -> None:
    frames = [python("nn.Module: Linear_0", 0, 400), python("nn.Module: Linear_1", 500, 400)]
    ops = [op("aten::mm", 100, 200), launch(150, 20, 1), op("aten::mm", 600, 200), op("aten::add", 1_000, 200)]
    job(tmp_path, *frames, *ops, kernel("gemm", 200, 300, 1))
    with serving(tmp_path) as client:
        run = client.run()
        event = {name: client.get(f"runs/{run}/timeline/search", {"q": name})["row"] for name in ("mm", "add", "gemm")}

        def hues(**query: Any) -> dict[int, int]:
            _, arrays = tile_of(client, run, z=2, i=0, **query)
            return dict(zip(arrays["row"].tolist(), arrays["hue"].tolist(), strict=True))

        by_name, by_module = hues(), hues(colour="module")
        assert by_name[event["mm"]] == by_name[4] == hue_of("aten::mm")
        assert by_name[event["add"]] == hue_of("aten::add")
        assert by_module[event["mm"]] == by_module[4] == by_module[event["gemm"]] == hue_of("Linear"), "one class"
        assert by_module[event["add"]] == NO_HUE
        asked = {"time": "0..2us", "colour": "module"}
        found = client.get(f"runs/{run}/timeline/range", asked)
        assert found["modules"] == [{"name": "Linear", "hue": hue_of("Linear"), "ns": 300}]
        assert {top["hue"] for top in found["top"] if top["name"] == "gemm"} == {hue_of("gemm")}
        tags = {
            client.ask(f"/api/runs/{run}/timeline/tile", {"z": 2, "i": 0, "colour": colour}).headers["ETag"]
            for colour in ("", "module")
        }
        assert len(tags) == 2


def test_the_critical_path_is_a_lane_and_a_line(tmp_path: Path) -> None:
    ops = [annotation("ProfilerStep#1", 0, 1_000), op("a", 0, 900), launch(700, 50, 1)]
    job(tmp_path, *ops, kernel("k", 800, 3_000, 1), annotation("ProfilerStep#2", 4_000, 500), op("b", 4_000, 400))
    with serving(tmp_path) as client:
        _check_the_path(client)


def _check_the_path(client: Client) -> None:
    run = client.run()
    lanes = client.get(f"runs/{run}/timeline/lanes", {"path": 1})
    assert lane_ids(lanes, "extra") == ["path"]
    assert lane_ids(client.get(f"runs/{run}/timeline/lanes"), "extra") == []
    header, arrays = tile_of(client, run, z=4, i=0, lanes="path,0")
    assert [lane["id"] for lane in header["lanes"]] == ["0", "path"]
    first, count = header["lanes"][1]["offset"], header["lanes"][1]["count"]
    place = slice(first, first + count)
    table = client.get(f"runs/{run}/analyses/critical_path", {"limit": 1, "steps": 1})
    duration = table["rows"][0][[column["name"] for column in table["columns"]].index("duration")]
    begin, end = lanes["ranks"][0]["steps"][0]["start"], lanes["ranks"][0]["steps"][0]["end"]
    assert end - begin == duration
    inside = (arrays["start"][place] * 16 < end) & (arrays["end"][place] * 16 > begin)
    drawn = (np.minimum(arrays["end"][place] * 16, end) - np.maximum(arrays["start"][place] * 16, begin))[inside]
    assert drawn.sum() == pytest.approx(duration, rel=0.01), "without a gap"
    found = client.get(f"runs/{run}/timeline/path", {"time": f"{begin}-{end}"})
    runs = found["runs"]
    assert found["total"] == len(runs) > 1
    assert [one["end"] for one in runs[:-1]] == [one["start"] for one in runs[1:]]
    assert (runs[0]["start"], runs[-1]["end"]) == (begin, end)
    assert all(one["lane"] != other["lane"] for one, other in itertools.pairwise(runs))
    for one in runs:
        about = client.get(f"runs/{run}/timeline/event", {"row": one["row"]})
        assert (about["lane"], about["depth"]) == (one["lane"], one["depth"])


def test_an_event(device: Client) -> None:
    run = device.run()
    found = device.get(f"runs/{run}/timeline/search", {"q": "gemm1"})
    about = device.get(f"runs/{run}/timeline/event", {"row": found["row"]})
    assert (about["name"], about["kind"], about["duration"], about["step"]) == ("gemm1", "computation", 4_001, 1)
    assert (about["start"], about["lane"], about["depth"]) == (found["start"], found["lane"], found["depth"])
    assert about["arguments"]["correlation"] == 11
    assert about["same"] == {**about["same"], "calls": 6, "per_step": 3}
    (arrow,) = about["arrows"]
    assert (arrow["kind"], arrow["start"]["row"], arrow["end"]["row"]) == ("launch", about["launched_by"], found["row"])
    launch = device.get(f"runs/{run}/timeline/event", {"row": about["launched_by"]})
    assert (launch["launched"], launch["device_total"]) == ([found["row"]], 4_001)


def test_the_list_of_hits_is_a_table(device: Client) -> None:
    path = f"runs/{device.run()}/timeline/hits"
    listed = device.get(path, {"q": "gemm", "sort": "-duration", "limit": 3})
    assert (listed["total"], len(listed["rows"])) == (12, 3)
    names = [column["name"] for column in listed["columns"]]
    assert names == ["rank", "start", "duration", "name", "lane", "row"]
    durations = [row[2] for row in listed["rows"]]
    assert durations == sorted(durations, reverse=True)
    assert listed["rows"][0][4] == "GPU 0 · stream 8"
    same = device.get(path, {"same": listed["rows"][0][5]})
    assert same["total"] == 6, "gemm1 alone"
    assert device.get(path, {"q": "correlation=11", "arguments": 1, "turn": 1})["total"] == 2
    assert device.refused(path, {"q": ""})[0] == 400
    assert b"gemm0" in device.ask(f"/api/{path}", {"q": "gemm", "format": "csv"}).body


def test_a_search_ends_when_its_client_searches_again() -> None:
    latest = LatestSearches()
    first, other = latest.begin("tab", 1), latest.begin("another tab", 1)
    first()
    second = latest.begin("tab", 2)
    with pytest.raises(SupersededError):
        first()
    second()
    other()


def test_a_search(device: Client) -> None:
    path = f"runs/{device.run()}/timeline/search"
    first = device.get(path, {"q": "OP1"})
    assert (first["total"], first["at"], first["name"]) == (4, 0, "aten::op1")
    second = device.get(path, {"q": "OP1", "after": first["row"], "direction": "next"})
    assert (second["at"], second["start"] > first["start"]) == (1, True)
    assert device.get(path, {"q": "op1", "after": first["row"], "direction": "previous"})["at"] == 3
    assert sum(first["matches_by_bucket"]) == 4
    assert len(first["codes"]) == 1
    assert device.get(path, {"q": "op1", "start": second["start"], "end": second["end"]})["total"] == 1
    nothing = device.get(path, {"q": "<script>"})
    assert (nothing["total"], nothing["at"], nothing["row"]) == (0, -1, None)


def test_a_range(device: Client) -> None:
    path = f"runs/{device.run()}/timeline/range"
    whole = device.get(path, {"time": "0-190000"})
    assert whole["sentence"] == (
        "In view, 2 steps: the GPU is busy 25% of the time; it runs nothing for 142\u00a0µs, 63.0\u00a0µs of it while "
        "nothing is recorded of the host before it launches more."
    )
    assert whole["busy"] == {"GPU 0": pytest.approx(48_030 / 190_000)}
    assert whole["by_kind"] == [{"kind": "computation", "ns": 48_030}]
    sides = [top["side"] for top in whole["top"]]
    assert sides == sorted(sides)
    assert whole["top"][0] == {**whole["top"][0], "name": "gemm1", "calls": 6, "ns": 24_018}
    beyond = device.get(path, {"time": "500000-600000"})
    assert (beyond["sentence"], beyond["top"]) == ("In view, 100\u00a0µs: nothing was recorded.", [])
    part = device.get(path, {"time": "4000-6000"})
    assert part["sentence"] == "In view, part of step 1: the GPU is busy 100% of the time."


def test_a_range_as_a_file(device: Client, tmp_path: Path) -> None:
    answer = device.ask(f"/api/runs/{device.run()}/cut", {"time": "0-9000"})
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/gzip"
    content = json.loads(gzip.decompress(answer.body))
    names = [event["name"] for event in content["traceEvents"] if event["ph"] == "X"]
    assert names == ["ProfilerStep#1", "aten::op0", "cudaLaunchKernel", "gemm0"]


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("timeline/tile", {"z": 60, "i": 0}, 400),
        ("timeline/tile", {"z": -1, "i": 0}, 400),
        ("timeline/tile", {"z": 51, "i": 10**9}, 400),
        ("timeline/tile", {"z": 3}, 400),
        ("timeline/tile", {"z": "x", "i": "../.."}, 400),
        ("timeline/tile", {"z": 3, "i": 0, "lanes": "nowhere"}, 404),
        ("timeline/tile", {"z": 3, "i": 0, "rank": 99}, 404),
        ("timeline/tile", {"z": 3, "i": 0, "lanes": ",".join(map(str, range(MAX_LANES + 1)))}, 404),
        ("timeline/lanes", {"rank": "0-100"}, 400),
        ("timeline/event", {"row": 10**9}, 404),
        ("timeline/event", {"row": -1}, 404),
        ("timeline/event", {}, 400),
        ("timeline/search", {}, 400),
        ("timeline/search", {"q": "a", "direction": "up"}, 400),
        ("timeline/search", {"q": "a" * 10_001}, 400),
        ("timeline/search", {"q": "a", "after": 10**6}, 404),
        ("timeline/range", {}, 400),
        ("timeline/range", {"time": "5-1"}, 400),
        ("cut", {}, 400),
    ],
)
def test_what_is_refused(device: Client, path: str, query: dict[str, Any], status: int) -> None:
    assert device.refused(f"runs/{device.run()}/{path}", query)[0] == status


def test_what_is_not_drawn_is_no_event(mlp: Client) -> None:
    status, said = mlp.refused(f"runs/{mlp.run()}/timeline/event", {"row": _first_name(mlp)})
    assert status == 404
    assert "not in the timeline" in said


def _first_name(client: Client) -> int:
    trace = client.workspace.run(client.run()).trace()
    return int(np.flatnonzero(trace.ph == ord("M"))[0])


# --- several ranks, very many lanes, odd names


def test_ranks_beneath_one_another(ranks: Client) -> None:
    run = ranks.run()
    answer = ranks.get(f"runs/{run}/timeline/lanes", {"rank": "0-1"})
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1]
    assert answer["ranks"][0]["offset"] == 0
    assert answer["start"] <= answer["ranks"][1]["offset"] <= answer["end"]
    for rank in (0, 1):
        _, arrays = tile_of(ranks, run, rank=rank, z=20, i=0)
        assert len(arrays["start"]) > 0


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("odd")
    lanes = [op("a", number, 5, tid=number) for number in range(MAX_LANES + 100)]
    busy = [op("<script>alert(1)</script>\u202e", 10 * number, 5, tid=5) for number in range(100)]
    nested = op("deep", 5_000, 10, **{"Input Dims": json.loads("[" * 200 + "]" * 200), "big": 1 << 60})
    broken = annotation("half \ud800 a pair", 6_000, 1_000)
    far = {"ph": "X", "cat": "cpu_op", "name": "far", "pid": 1, "tid": 1, "ts": 4e15, "dur": 5, "args": {}}
    events = [*lanes, *busy, nested, broken, launch(5_000, 10, 1), kernel("k" * 5_000, 6_000, 100_000, 1), far]
    written(folder / "odd.json", *events)
    with serving(folder) as client:
        yield client


def test_of_very_many_lanes_the_fullest_are_listed(odd: Client) -> None:
    answer = odd.get(f"runs/{odd.run()}/timeline/lanes")
    assert len(lane_ids(answer, "host")) + len(lane_ids(answer, "device")) == MAX_LANES
    assert any(f"the {MAX_LANES} with the most are shown" in note for note in answer["notes"])
    header, _ = tile_of(odd, odd.run(), z=4, i=0)
    assert len(header["lanes"]) == MAX_LANES


def test_names_are_text_and_not_endless(odd: Client) -> None:
    header, _ = tile_of(odd, odd.run(), z=7, i=0)
    assert max(map(len, header["names"].values())) <= 240
    assert any(name.startswith("kkk") for name in header["names"].values())
    found = odd.get(f"runs/{odd.run()}/timeline/search", {"q": "<SCRIPT>"})
    assert (found["total"], found["name"]) == (100, "<script>alert(1)</script>\u202e")


def test_odd_arguments(odd: Client) -> None:
    run = odd.run()
    row = odd.get(f"runs/{run}/timeline/search", {"q": "deep"})["row"]
    about = odd.get(f"runs/{run}/timeline/event", {"row": row})
    assert about["arguments"]["big"] == str(1 << 60)
    assert json.dumps(about["arguments"]["Input Dims"]).count("[") == 200


def test_panning_does_not_wait_for_what_is_being_derived(device: Client) -> None:
    run = device.run()
    tile_of(device, run, z=8, i=0)
    trace = device.workspace.run(run).trace()
    begun, done = threading.Event(), threading.Event()

    def slow(_: Trace) -> int:
        begun.set()
        return int(done.wait(30))

    thread = threading.Thread(target=trace.of, args=(slow,))
    thread.start()
    try:
        assert begun.wait(30)
        header, _ = tile_of(device, run, z=8, i=1)
        assert header["i"] == 1
        assert not done.is_set()
    finally:
        done.set()
        thread.join()


def test_steps_that_the_user_names(device: Client) -> None:
    run = device.run()
    answer = device.get(f"runs/{run}/timeline/lanes", {"steps_by": "aten::op0"})
    assert [step["step"] for step in answer["ranks"][0]["steps"]] == [0, 1, 2, 3]
    sentence = device.get(f"runs/{run}/timeline/range", {"time": "0-190000", "steps_by": "aten::op0"})["sentence"]
    assert sentence.startswith("In view, 4 steps:")


def test_what_is_no_step_is_not_in_the_ruler(odd: Client) -> None:
    answer = odd.get(f"runs/{odd.run()}/timeline/lanes")
    assert answer["ranks"][0]["steps"] == []
    assert any("No steps were marked" in note for note in answer["notes"])


def test_of_very_many_counters_the_first_are_shown(tmp_path: Path) -> None:
    samples = [
        {"ph": "C", "name": f"counter {number}", "pid": 1, "tid": 1, "ts": 1, "args": {"value": number}}
        for number in range(MAX_COUNTERS + 3)
    ]
    written(tmp_path / "counters.json", op("a", 0, 5_000), *samples)
    with serving(tmp_path) as client:
        answer = client.get(f"runs/{client.run()}/timeline/lanes")
        assert len(lane_ids(answer, "counter")) == MAX_COUNTERS
        assert "Rank 0 has 3 more counters." in answer["notes"]
        _, arrays = tile_of(client, client.run(), z=3, i=0, lanes=f"recorded.{MAX_COUNTERS - 1}")
        assert float(arrays["mean"][-1]) == MAX_COUNTERS - 1


def test_an_area(device: Client) -> None:
    path = f"runs/{device.run()}/timeline/area"
    lanes = device.get(f"runs/{device.run()}/timeline/lanes")
    (stream, _) = lane_ids(lanes, "device")
    answer = device.get(path, {"time": "0-190000", "lanes": stream})
    names = [column["name"] for column in answer["columns"]]
    (row,) = (dict(zip(names, each, strict=True)) for each in answer["rows"])
    assert (row["name"], row["kind"], row["count"], row["total"], row["self"]) == (
        "gemm0",
        "computation",
        6,
        24_012,
        None,
    )
    assert answer["scales"]["total"]["label"]
    work = device.get(path, {"time": "0-190000", "lanes": "0/w", "by": "lane"})
    assert sorted(each[1] for each in work["rows"]) == ["stream 7", "stream 8"]
    sorted_ = device.get(path, {"time": "0-190000", "sort": "-count", "search": "op"})
    assert [each[0] for each in sorted_["rows"]] == ["aten::op0", "aten::op1", "aten::op2"]
    text = device.ask(f"/api/{path}", {"time": "0-190000", "by": "lane", "format": "csv"}).body.decode()
    assert text.splitlines()[0].startswith("group,lane,count,total,self")
    assert len(text.splitlines()) == 4
    for query, said in (
        ({"time": "0-9", "lanes": "none"}, "there is no lane 'none' on rank 0"),
        ({"time": "0-9", "lanes": "7/*"}, "rank 7 is not drawn"),
        ({"time": "0-9", "by": "colour"}, "by is 'colour'"),
        ({}, "time is missing"),
    ):
        assert said in device.refused(path, query)[1]


def test_an_area_of_several_ranks_is_on_their_common_clock(ranks: Client) -> None:
    run = ranks.run()
    lanes = ranks.get(f"runs/{run}/timeline/lanes", {"rank": "0,1"})
    end = lanes["end"]
    both = ranks.get(f"runs/{run}/timeline/area", {"rank": "0,1", "time": f"0-{end}", "by": "lane"})
    one = ranks.get(f"runs/{run}/timeline/area", {"rank": "0,1", "time": f"0-{end}", "by": "lane", "lanes": "1/*"})
    column = [each["name"] for each in both["columns"]].index("rank")
    assert {row[column] for row in both["rows"]} == {0, 1}
    assert one["total"] < both["total"]
    every = ranks.get(f"runs/{run}/timeline/area", {"rank": "0,1", "time": f"0-{end}", "by": "lane", "lanes": "0-1/*"})
    assert every["rows"] == both["rows"]
    late = lanes["ranks"][1]["offset"]
    assert late, "the clocks differ"
    counts = [
        ranks.get(f"runs/{run}/timeline/area", query)["rows"]
        for query in (
            {"rank": "0,1", "time": f"{late + 10_000_000}-{late + 20_000_000}", "lanes": "1/*", "by": "kind"},
            {"rank": "1", "time": "10000000-20000000", "by": "kind"},
        )
    ]
    assert counts[0] == counts[1]


def test_the_events_of_an_area_one_by_one(device: Client) -> None:
    path = f"runs/{device.run()}/timeline/occurrence"
    first = device.get(f"runs/{device.run()}/timeline/search", {"q": "gemm1"})["row"]
    where = {"time": "0-190000", "of": 0}
    longest = device.get(path, {**where, "row": first, "which": "longest"})
    assert (longest["place"], longest["total"]) == (2, 6)
    assert device.get(path, {**where, "row": longest["row"], "which": "next"})["place"] == 3
    assert "which is" in device.refused(path, {**where, "row": first, "which": "last"})[1]
    assert "no event 99999" in device.refused(path, {**where, "row": 99_999})[1]
