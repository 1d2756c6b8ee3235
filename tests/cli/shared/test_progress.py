"""What is said while a person waits."""

from __future__ import annotations

import threading
import time

import pytest

from kinetoscope.cli.shared import progress
from kinetoscope.cli.shared.progress import COMPILING, Meter, shown


def test_the_meter_counts_from_any_thread() -> None:
    meter = Meter(total=100)

    def read() -> None:
        for _ in range(500):
            meter(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.read == 2000


def test_compilation_is_counted_and_named() -> None:
    meter = Meter()
    meter.compiles("tokenize", True)
    assert (meter.compiling, meter.count) == ("tokenize", 1)
    time.sleep(0.01)
    meter.compiles("tokenize", False)
    spent = meter.seconds_compiling
    assert (meter.compiling, meter.count) == ("", 1)
    assert spent >= 0.01
    assert meter.seconds_compiling == spent, "the clock stands while nothing is compiled"


@pytest.mark.parametrize(("long", "said"), [(0.0, f"kinetoscope: {COMPILING} …\n"), (60.0, "")])
def test_a_pipe_is_told_once_and_only_of_long_compilations(
    long: float, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LONG_COMPILE_SECONDS", long)
    monkeypatch.setattr(progress, "_REFRESH", 0.001)
    meter = Meter()
    with shown(meter):
        for _ in range(3):
            meter.compiles("f", True)
            time.sleep(0.05)
            meter.compiles("f", False)
    assert capsys.readouterr() == ("", said)
