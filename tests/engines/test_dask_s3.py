"""Workers of Dask that read from S3: a real cluster and a server that speaks the protocol, over loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import kinetoscope
from kinetoscope import read
from kinetoscope.cli import main
from tests.catalog.samples import BUNDLED
from tests.engines.test_dask import asked, cluster
from tests.readers import servers
from tests.readers.servers import Store

pytestmark = pytest.mark.slow

pytest.importorskip("distributed", reason="needs kinetoscope[dask]")

RUN = "s3://traces/ddp2"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    servers.require("s3fs")
    with servers.moto() as store:
        yield store


@pytest.fixture
def here(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """This process is told how to reach it, and with it those that it starts; the run is there."""
    for name, text in store.environment.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("KINETOSCOPE_CACHE", str(tmp_path / "copies"))
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    system = fsspec.filesystem("s3", use_listings_cache=False)
    if not system.exists("traces"):
        system.mkdir("traces")
        for file in (BUNDLED / "ddp2").iterdir():
            system.pipe(f"traces/ddp2/{file.name}", file.read_bytes())
    return store


def test_workers_with_the_variables_answer_as_threads(here: Store, tmp_path: Path) -> None:
    with cluster(tmp_path, ["--nworkers", "2"]) as address, asked(RUN, address) as job:
        for analysis in (kinetoscope.collectives, kinetoscope.operators, kinetoscope.temporal_breakdown):
            one, two = analysis(job), analysis(read(RUN))
            assert one.frame.equals(two.frame)
            assert one.notes == two.notes
    assert len([*(tmp_path / "copies").glob("[0-9a-f]*")]) == 2  # the workers' copies: each trace was fetched once


def test_workers_without_them_say_so_and_can_be_told(
    here: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from distributed import Client

    away = {name: os.environ[name] for name in here.environment}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with cluster(tmp_path, ["--no-nanny"]) as address:
        for name, text in away.items():
            monkeypatch.setenv(name, text)
        ask = ["show", "temporal-breakdown", RUN, "--engine", "dask", "--address", address, "--cache", "off"]
        assert main(ask) == 1
        said = capsys.readouterr().err
        assert "access denied: Unable to locate credentials; credentials: AWS_PROFILE, or" in said
        assert said.count("\n") == 1
        with Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.run(lambda: os.environ.update(away))
        assert main(ask) == 0
