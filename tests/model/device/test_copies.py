from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.model.device.copies import copies, copy_direction
from tests import drawn


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD"),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH"),
        ("Memcpy DtoD (Device -> Device)", "DtoD"),
        ("Memcpy HtoH (Pageable -> Pinned)", "HtoH"),
        ("Memcpy PtoP (Device -> Device)", "PtoP"),
        ("Memcpy AtoD (Array -> Device)", "DtoD"),
        ("CopyHostToDevice", "HtoD"),
        ("CopyDeviceToHost", "DtoH"),
        ("zeCommandListAppendMemoryCopy(M2D)", "HtoD"),
        ("zeCommandListAppendMemoryCopy(D2H)", "DtoH"),
        ("zeCommandListAppendMemoryCopy(D2D - P2P)", "PtoP"),
        ("zeCommandListAppendMemoryCopy(S2D)", "StoD"),
        ("DEVICE_TO_HOST", "DtoH"),
        ("dma_request", None),
        ("Memcpy Unknown (Unknown -> Unknown)", None),
        ("", None),
    ],
)
def test_directions(name: str, expected: str | None) -> None:
    assert copy_direction(name) == expected


def copy(name: str, correlation: int, **args: Any) -> drawn.Event:
    return drawn.kernel(name, 10 * correlation, 5, correlation, category="gpu_memcpy", **args)


def test_what_the_name_does_not_tell_an_argument_may(tmp_path: Path) -> None:
    events = [
        copy("dma_request", 1, direction="HOST_TO_DEVICE"),
        copy("copy", 2, kind="DtoD"),
        copy("copy", 3, kind=7),
        copy("Memcpy HtoD", 4, kind="DtoD"),
        drawn.kernel("Memset (Device)", 50, 5, 5, category="gpu_memset", kind="Device"),
    ]
    found = copies(drawn.job(tmp_path, *events).trace())
    assert [found.directions[each] for each in found.direction] == ["HtoD", "DtoD", "unknown", "HtoD", "memset"]
    assert list(found.directions) == sorted(found.directions)


def test_a_size_that_only_the_call_has_is_that_of_its_only_copy(tmp_path: Path) -> None:
    def call(correlation: int, **args: object) -> drawn.Event:
        return drawn.launch(10 * correlation, 2, correlation, name="hipMemcpyAsync") | {
            "args": {"correlation": correlation, **args}
        }

    events = [
        *(call(1, size="2560"), copy("Memcpy HtoD", 1)),
        *(call(2, size="9"), copy("Memcpy HtoD", 2), copy("Memcpy HtoD", 2)),
        *(call(3), copy("Memcpy HtoD", 3)),
        *(call(4, size="9"), copy("Memcpy HtoD", 4, bytes=7)),
        copy("Memcpy HtoD", 5, bytes=-7),
        copy("Memcpy HtoD", 6, bytes="many"),
        copy("Memcpy HtoD", 7, bytes=0),
    ]
    found = copies(drawn.job(tmp_path, *events).trace())
    assert found.bytes.tolist() == [2560, -1, -1, -1, 7, -1, -1, 0]


def test_kernels_are_no_copies(tmp_path: Path) -> None:
    found = copies(drawn.job(tmp_path, drawn.kernel("Memcpy HtoD", 0, 5, 1), drawn.op("aten::copy_", 0, 5)).trace())
    assert (len(found.work), found.directions) == (0, ())


def test_plain_names_have_the_direction_in_an_argument(tmp_path: Path) -> None:
    """As torch's own CUPTI back end writes copies since 2.13."""
    kinds = ("HtoD", "DtoH", "PtoP", 9)
    events = [copy("Memcpy", 1 + n, bytes=8, **{"copy kind": kind}) for n, kind in enumerate(kinds)]
    found = copies(drawn.job(tmp_path, *events).trace())
    assert [found.directions[each] for each in found.direction] == ["HtoD", "DtoH", "PtoP", "unknown"]
