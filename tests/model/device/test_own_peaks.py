"""Peaks that users give: options, and a file of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.device.own_peaks import FILE_VARIABLE, keep_measured, own_peaks, peaks_file
from kinetoscope.model.device.peaks import HOST, PRECISIONS, Lookup, known_peaks
from kinetoscope.model.trace.source import OwnPeaks
from tests import drawn

NAME = "NVIDIA H100 80GB HBM3"
H100 = {"id": 0, "name": NAME, "totalGlobalMem": 85_000_000_000, "computeMajor": 9, "numSms": 132}
FILE = f"""
# what the datasheet has otherwise
["{NAME}"]
memory = "3.2 TB/s"
network = 50_000_000_000

["{NAME}".attainable]
measured = "2026-11-22 with torch 2.13"
bf16 = 7.5e14
memory = 3.0e12
"""


def lookup(folder: Path, number: int = 0, **options: object) -> Lookup:
    drawn.written(folder / "trace.json", drawn.kernel("k", 0, 10, 1), deviceProperties=[H100])
    return known_peaks(read(folder / "trace.json", **options).trace(), number)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "peaks.toml"
    path.write_text(FILE, encoding="utf-8")
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    return path


@pytest.mark.parametrize(
    ("text", "name", "rate"),
    [
        ("bf16=800e12", "bf16", 800e12),
        ("bf16=800T", "bf16", 800e12),
        ("bf16 = 800 TFLOP/s", "bf16", 800e12),
        ("int8=1.5POPS", "int8", 1.5e15),
        ("memory=3.35TB/s", "memory", 3.35e12),
        ("link=450 GB/s", "link", 450e9),
        ("cache=50MB", "cache", 50e6),
    ],
)
def test_a_value_has_a_unit_or_none(text: str, name: str, rate: float) -> None:
    assert dict(own_peaks(text).given) == {name: pytest.approx(rate)}
    assert own_peaks({name: rate}).given == ((name, rate),)


def test_a_value_alone_is_of_products_in_every_precision() -> None:
    assert dict(own_peaks("989e12").given) == dict.fromkeys(PRECISIONS, 989e12)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bf61=1e12", "peak 'bf61=1e12': there is no 'bf61'; peaks are fp64, fp32"),
        ("bf16=fast", "peak 'bf16=fast': give operations or bytes a second, such as 800e12, 800TFLOP/s or 3.35TB/s"),
        ("bf16=0", "give operations"),
        ("bf16=1e19", "give operations"),
        ("bf16=-1", "give operations"),
        ("bf16=nan", "give operations"),
        ("attainable", "no attainable peaks are known: `kinetoscope calibrate` measures them"),
    ],
)
def test_what_is_no_peak_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as error:
        own_peaks([text])
    assert reason in str(error.value)


def test_what_is_given_counts_before_the_datasheet(tmp_path: Path) -> None:
    known = lookup(tmp_path, peak=["bf16=800T", "network=50GB/s"])
    assert known.peak
    assert (known.peak.flops("bf16"), known.peak.flops("fp16"), known.peak.network) == (800e12, 989.4e12, 50e9)
    assert known.note == (
        "Peaks are the dense ones of H100 SXM: NVIDIA H100 datasheet, https://www.nvidia.com/en-us/data-center/h100/;"
        " given by hand: bf16, network."
    )
    assert (known.origin("bf16"), known.origin("fp16")) == ("given", "datasheet")


def test_a_file_has_peaks_by_device(tmp_path: Path, file: Path) -> None:
    known = lookup(tmp_path)
    assert known.peak
    assert (known.peak.flops("bf16"), known.peak.bandwidth, known.peak.network) == (989.4e12, 3.2e12, 50e9)
    assert known.attainable
    # What the user states is not measured.
    assert (known.attainable.flops("bf16"), known.attainable.bandwidth, known.measured) == (7.5e14, 3.2e12, ("bf16",))
    other = read(tmp_path / "trace.json", peak="memory=1TB/s").trace()
    assert known_peaks(other, 0).peak.bandwidth == 1e12  # type: ignore[union-attr]


def test_attainable_peaks_are_taken_on_request(tmp_path: Path, file: Path) -> None:
    known = lookup(tmp_path, peak="attainable")
    assert known.peak is known.attainable
    assert known.peak
    assert (known.peak.flops("bf16"), known.peak.flops("fp8")) == (7.5e14, 1978.9e12)
    assert known.note.startswith("Peaks are the attainable ones of H100 SXM: measured 2026-11-22 with torch 2.13;")
    assert known.note.endswith("; given by hand: memory, network; what was not measured is the datasheet's.")
    assert (known.origin("bf16"), known.origin("fp8")) == ("measured", "datasheet")
    other = H100 | {"name": "NVIDIA H100 PCIe", "numSms": 114}
    drawn.written(tmp_path / "trace.json", drawn.kernel("k", 0, 10, 1), deviceProperties=[other])
    known = known_peaks(read(tmp_path / "trace.json", peak="attainable").trace(), 0)
    assert known.peak is known.datasheet
    assert known.note.endswith("; nothing was measured of this device.")


def test_the_host_has_what_was_measured_of_it(tmp_path: Path, file: Path) -> None:
    assert lookup(tmp_path, HOST).peak is None
    keep_measured(file, "host", {"fp32": 1.5e11, "memory": 2e10}, "2026-11-22 on 2 threads")
    known = lookup(tmp_path, HOST)
    assert known.peak
    assert (known.peak.flops("fp32"), known.peak.bandwidth) == (1.5e11, 2e10)
    assert known.note == "Peaks are the attainable ones of the host: measured 2026-11-22 on 2 threads."


def test_a_measurement_replaces_the_last_one_and_nothing_else(file: Path) -> None:
    keep_measured(file, "other", {"fp32": 1e12}, "then")
    keep_measured(file, NAME, {"bf16": 6.543219e14}, "now")
    assert "# what the datasheet has otherwise" in file.read_text(encoding="utf-8")
    assert own_peaks((), file) == OwnPeaks(
        by_device=((NAME, (("memory", 3.2e12), ("network", 5e10))),),
        measured=((NAME, (("bf16", 6.54322e14),), "measured now"), ("other", (("fp32", 1e12),), "measured then")),
    )
    assert list(file.parent.iterdir()) == [file]


def test_a_device_may_have_any_name(tmp_path: Path) -> None:
    name = 'A "strange"\\ nämé]'
    keep_measured(tmp_path / "a" / "peaks.toml", name, {"fp32": 1e12}, "now")
    assert own_peaks((), tmp_path / "a" / "peaks.toml").measured[0][0] == name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bf16 = 3", "bf16 is no table"),
        ("[A]\nbf61 = 3e12", "[A]: there is no 'bf61'"),
        ("[A]\nbf16 = [1]", "[A]: give operations"),
        ("[A]\nattainable = 3", "A.attainable is no table"),
        ("[A", "is no TOML"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_file_with_a_mistake_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    path = tmp_path / "peaks.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    with pytest.raises(InputError) as error:
        own_peaks()
    assert reason in str(error.value)
    assert str(path) in str(error.value)


def test_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"none\.toml cannot be read"):
        own_peaks()
    monkeypatch.delenv(FILE_VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert peaks_file() == tmp_path / "kinetoscope" / "peaks.toml"
    assert own_peaks() == OwnPeaks()
    monkeypatch.setenv(FILE_VARIABLE, "off")
    assert peaks_file() is None
